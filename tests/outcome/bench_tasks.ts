/**
 * Measures the cost of solved tasks: the twenty tasks of this folder, done by Tare, by Tare without pruning,
 * by pi and by opencode, all with the same model. Usage is the provider's.
 *
 *     OPENAI_API_KEY=… TARE_MODEL=… deno task bench tasks --price-in USD --price-out USD --budget USD
 *                             [--arm tare]… [--task PART]… [--repeats 3] [--scripted] [--name NAME]
 *
 * Prices are for a million tokens. The agents run the model's commands without approval: use a container. pi
 * and opencode are installed by `npm install --prefix tests/agents/programs`. Results are stored in
 * `.tare/measured`, and the same command resumes an interrupted run. `--scripted` needs no key: the tests'
 * worker replaces the model, which shows that all arms work, and the cost of a deterministic model, but not
 * a model's abilities.
 *
 * @module
 */
import { join } from "@std/path";
import type { Usage } from "@tare/messages";
import { chooseProfile, listPrice, listWindow, profileNamed } from "@tare/planner";
import { DEFAULT_PROVIDER } from "@tare/planner/internal";
import { formatTable } from "../../scripts/format_table.ts";
import {
  type FlagValues,
  parseFlags,
  readCount,
  readPrices,
  type Report,
  runBench,
  type Surroundings,
} from "../../scripts/probe/experiment.ts";
import { money, type Prices, usd } from "../../scripts/probe/paid_model.ts";
import { Results } from "../../scripts/probe/results.ts";
import { seeded } from "../seeded.ts";
import type { Agent } from "../agents/agent.ts";
import { OPENCODE } from "../agents/drivers/opencode.ts";
import { PI } from "../agents/drivers/pi.ts";
import { startProvider } from "../agents/provider.ts";
import { PLANNED, UNPRUNED } from "./arms.ts";
import { faultIn, inFolder } from "./folder.ts";
import { startMeter } from "./meter.ts";
import { agentAnswers } from "./play_agent.ts";
import { type Arm, tareAnswers } from "./play_tare.ts";
import type { Task } from "./task.ts";
import { TASKS } from "./tasks.ts";
import { type Hands, shellHands, TARE, workerModel } from "./worker.ts";

const ARMS: Readonly<Record<string, Arm | Agent>> = {
  "tare": PLANNED,
  "tare, nothing pruned": UNPRUNED,
  "pi": PI,
  "opencode": OPENCODE,
};

interface Run {
  readonly solved: boolean;
  readonly fault?: string;
  readonly usd: number;
  readonly calls: number;
  readonly promptTokens: number;
}

/** Assumed longest prompt of an unknown model, in tokens. */
const USUAL_WINDOW = 128_000;

const PRICED_AS = "gpt-5";

interface Upstream {
  /** Address without a path; absent for the scripted one, which each run has for itself. */
  readonly target?: string;
  readonly key?: string | undefined;
  readonly model: string;
  readonly profile: ReturnType<typeof profileNamed>;
  readonly prices: Prices;
  readonly windowTokens: number;
}

/** Runs the experiment. @throws {RangeError} if a flag is wrong, or there is no provider. */
export async function benchTasks(args: readonly string[], surroundings: Surroundings): Promise<Report> {
  const values = parseFlags(args, {
    arm: { type: "string", multiple: true, default: Object.keys(ARMS) },
    task: { type: "string", multiple: true, default: [""] },
    repeats: { type: "string", default: "3" },
    scripted: { type: "boolean", default: false },
  });
  const upstream = upstreamOf(values, surroundings.environment);
  const arms = values.arm.map((name) => {
    const arm = Object.hasOwn(ARMS, name) ? ARMS[name] : undefined;
    if (arm) return [name, arm] as const;
    const right = Object.keys(ARMS).map((name) => `"${name}"`).join(", ");
    throw new RangeError(`Cannot start: --arm is ${JSON.stringify(name)}, but it must be one of ${right}.`);
  });
  const tasks = TASKS.filter(({ name }) => values.task.some((part) => name.includes(part)));
  if (tasks.length === 0) {
    throw new RangeError(
      `Cannot start: --task is ${JSON.stringify(values.task)}, but no task has such a name.`,
    );
  }
  const repeats = readCount("--repeats", values.repeats);
  const name = values.name ?? `tasks-${upstream.model}`;
  const results = new Results<Run>(join(surroundings.folder, `${name}.json`), {
    circumstances: {
      task: "bench tasks",
      model: upstream.model,
      provider: upstream.target ?? "scripted",
      profile: upstream.profile.name,
      settings: {},
    },
    seed: surroundings.clock.now(),
  });
  const runs = new Map<string, Run[][]>(arms.map(([name]) => [name, []]));
  let stopped: string | undefined;
  // All arms do a task before the next one, so that a run that stops early compares the same tasks.
  for (const task of tasks) {
    const of = new Map(arms.map(([name]) => [name, [] as Run[]]));
    for (let repeat = 1; repeat <= repeats && stopped === undefined; repeat++) {
      for (const [name, arm] of arms) {
        const key = `${name}: ${task.name} (${repeat})`;
        let run = results.get(key);
        if (!run) {
          stopped = overBudget(results, upstream);
          if (stopped !== undefined) break;
          run = await playOnce(task, { arm, upstream, results, seed: repeat });
          results.set(key, run);
          const how = run.solved ? "solved" : `not solved: ${run.fault?.slice(0, 200)}`;
          surroundings.log(`${key}: ${how}, ${run.calls} calls, ${money(run.usd)}`);
        }
        of.get(name)!.push(run);
      }
    }
    if (stopped !== undefined) break;
    for (const [name, all] of of) runs.get(name)!.push(all);
  }
  const summary = [...runs].map(([name, tasks]) => ({ name, ...summarize(tasks) }));
  results.summarize(summary);
  const about = upstream.target === undefined
    ? `Scripted: the same worker replaces each arm's model, counted by a simulated provider, at ${PRICED_AS}'s list price.`
    : `${upstream.model} at ${upstream.target}.`;
  return { text: `${tableOf(summary)}\n\n${about} ${HOW}`, stopped };
}

const HOW =
  "Shares: 95 % intervals by Wilson. Cost per solved task: total cost divided by solved tasks; 95 % intervals by a bootstrap over tasks (2,000 samples).";

function upstreamOf(
  values: FlagValues & { readonly scripted: boolean },
  environment: Surroundings["environment"],
): Upstream {
  const { OPENAI_API_KEY: key, OPENAI_BASE_URL: baseUrl, TARE_MODEL: model } = environment;
  if (values.scripted) {
    const { input, output } = listPrice(PRICED_AS)!;
    return {
      model: "scripted",
      profile: profileNamed(DEFAULT_PROVIDER.profile),
      prices: { inUsd: input, outUsd: output, budgetUsd: Infinity },
      windowTokens: USUAL_WINDOW,
    };
  }
  if (!model || !(key || baseUrl)) {
    throw new RangeError(
      "Cannot start: no provider is set. Set OPENAI_API_KEY (or OPENAI_BASE_URL) and TARE_MODEL; or use the scripted " +
        "worker of the tests: --scripted.",
    );
  }
  const baseURL = baseUrl || DEFAULT_PROVIDER.baseURL;
  return {
    target: baseURL.replace(/\/v1\/?$/, ""),
    key,
    model,
    profile: chooseProfile({ model, baseUrl: baseURL }),
    prices: readPrices(values),
    windowTokens: listWindow(model) ?? USUAL_WINDOW,
  };
}

function overBudget({ spentUsd }: Results<Run>, { prices }: Upstream): string | undefined {
  if (spentUsd < prices.budgetUsd) return undefined;
  const [spent, budget] = [money(spentUsd), money(prices.budgetUsd)];
  return `Stopped: ${spent} of the budget of ${budget} are spent. The same command with a higher --budget resumes.`;
}

async function playOnce(
  task: Task,
  { arm, upstream, results, seed }: {
    readonly arm: Arm | Agent;
    readonly upstream: Upstream;
    readonly results: Results<Run>;
    readonly seed: number;
  },
): Promise<Run> {
  const { profile, prices, windowTokens } = upstream;
  const random = seeded(seed);
  const made = task.make(random);
  const isTare = "flags" in arm;
  const hands: Hands = isTare ? TARE : shellHands(arm.tools.shell);
  await using scripted = upstream.target === undefined
    ? await startProvider({
      model: workerModel(made.question.map((question, at) => ({ question, turn: task.turns[at]! })), hands),
    })
    : undefined;
  await using meter = startMeter({
    target: upstream.target ?? scripted!.url,
    model: upstream.model,
    key: upstream.key,
    refuses: () => overBudget(results, upstream),
  });
  const args = ["--base-url", `${meter.url}/v1`, "--model", upstream.model, "--profile", profile.name];
  const price = `input=${prices.inUsd},output=${prices.outUsd}`;
  let fault: string | undefined;
  await inFolder(made, async ({ workspace, home }) => {
    try {
      const answers = isTare
        ? (await tareAnswers(made, {
          ...{ workspace, data: home, random, ...arm },
          upstream: [...args, "--price", price, "--window", `${windowTokens}`],
        })).answers
        : await agentAnswers(arm, made, {
          ...{ workspace, home, url: meter.url, windowTokens },
          online: upstream.target !== undefined,
        });
      fault = await faultIn(workspace, { made, answers });
    } catch (error) {
      // An agent that fails hasn't solved the task, and the others continue.
      fault = (error as Error).message;
    }
  });
  const usages: readonly Usage[] = meter.take();
  const cost = usages.map((usage) => usd(prices, profile, usage));
  for (const one of cost) results.spend(one);
  return {
    solved: fault === undefined,
    ...(fault !== undefined && { fault: fault.slice(0, 2_000) }),
    usd: sum(cost),
    calls: usages.length,
    promptTokens: sum(usages.map(({ promptTokens }) => promptTokens)),
  };
}

interface Summary {
  readonly runs: number;
  readonly solved: number;
  /** 95 % interval of the solved share. */
  readonly share: readonly [low: number, high: number];
  /** Cost of a solved task, and its 95 % interval. */
  readonly usd: number;
  readonly between: readonly [low: number, high: number];
  readonly calls: number;
  readonly promptTokens: number;
}

/** Summarizes an arm's runs of each task. */
export function summarize(tasks: readonly (readonly Run[])[]): Summary {
  const runs = tasks.flat();
  const solved = runs.filter((run) => run.solved).length;
  const perSolved = (runs: readonly Run[]) =>
    sum(runs.map(({ usd }) => usd)) / runs.filter((run) => run.solved).length;
  const random = seeded(1);
  const samples = Array.from(
    { length: 2_000 },
    () => perSolved(tasks.flatMap(() => tasks[Math.floor(random() * tasks.length)]!)),
  ).sort((a, b) => a - b);
  return {
    runs: runs.length,
    solved,
    share: wilson(solved, runs.length),
    usd: perSolved(runs),
    between: [samples[49] ?? NaN, samples[1_949] ?? NaN],
    calls: sum(runs.map(({ calls }) => calls)),
    promptTokens: sum(runs.map(({ promptTokens }) => promptTokens)),
  };
}

function wilson(solved: number, runs: number): readonly [number, number] {
  const z = 1.96;
  const share = solved / runs;
  const middle = (share + z ** 2 / (2 * runs)) / (1 + z ** 2 / runs);
  const half = z / (1 + z ** 2 / runs) *
    Math.sqrt(share * (1 - share) / runs + z ** 2 / (4 * runs ** 2));
  return [middle - half, middle + half];
}

function tableOf(summary: readonly (Summary & { readonly name: string })[]): string {
  return formatTable([
    ["", "solved", "95 %", "a solved task", "95 %", "calls", "prompt tokens"],
    ...summary.map(({ name, runs, solved, share, usd, between, calls, promptTokens }) => [
      name,
      `${solved} of ${runs}`,
      share.map((part) => `${(100 * part).toFixed(0)} %`).join(" to "),
      money(usd),
      between.map(money).join(" to "),
      calls.toLocaleString("en"),
      promptTokens.toLocaleString("en"),
    ]),
  ]);
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0);
}

if (import.meta.main) await runBench(benchTasks);
