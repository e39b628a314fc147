/**
 * What a model still knows of what was left out: facts are planted in the results of a long session and in what was
 * said, with a rule and code to edit, and in a short one whose results repeat one another and are full of notation; the
 * sessions are left alone and shown as each policy shows them, by none in full; then they are asked. Passed is the right
 * answer or the right edit, whether the prompt still showed it, or the model recalled it or read it again. What failed
 * that passes in full is told apart.
 *
 *     OPENAI_API_KEY=… TARE_MODEL=… deno task bench:comprehension --price-in USD --price-out USD --budget USD
 *                             [--policy NAME]… [--repeats 1] [--window 128000] [--name NAME]
 *
 * Prices are for a million tokens. Results are kept in `.tare/measured`, and the same command goes on where it was
 * stopped. Without a provider the simulator answers with a model that knows only what its prompt shows.
 *
 * @module
 */
import { join } from "@std/path";
import type { SimulatedModel } from "@tare/simulator";
import {
  type Bench,
  openBench,
  parseFlags,
  readCount,
  type Report,
  runBench,
  type Surroundings,
  withinBudget,
} from "./bench/probe/bench.ts";
import {
  askCase,
  type CaseResult,
  type MakePolicy,
  playPlanted,
  POLICIES,
} from "./bench/probe/comprehension/ask_case.ts";
import { attentive } from "./bench/probe/comprehension/simulated_models.ts";
import { policyChart, policyTable, summariseCases } from "./bench/probe/comprehension/summary.ts";
import { plantNotation } from "./bench/probe/comprehension/notation_world.ts";
import { plantWorld } from "./bench/probe/comprehension/world.ts";
import { nonce } from "./bench/probe/texts.ts";

/** Who is asked without a provider, and the policies that can be chosen. */
export interface Subjects {
  readonly simulated: SimulatedModel;
  readonly policies: Readonly<Record<string, MakePolicy>>;
}

/** Runs the experiment as its flags say. */
export async function benchComprehension(
  args: readonly string[],
  surroundings: Surroundings,
  { simulated, policies }: Subjects = { simulated: attentive, policies: POLICIES },
): Promise<Report> {
  const values = parseFlags(args, {
    policy: { type: "string", multiple: true, default: Object.keys(policies) },
    repeats: { type: "string", default: "1" },
    window: { type: "string", default: "128000" },
  });
  const chosen = values.policy.map((name): [string, MakePolicy] => {
    const policy = Object.hasOwn(policies, name) ? policies[name] : undefined;
    if (policy) return [name, policy];
    throw new RangeError(
      `Cannot start: --policy is ${JSON.stringify(name)}, but it must be one of ${
        Object.keys(policies).join(", ")
      }.`,
    );
  });
  const repeats = readCount("--repeats", values.repeats);
  const windowTokens = readCount("--window", values.window);
  // Policies may be added later on.
  const settings = { windowTokens };
  const bench = await openBench<CaseResult>(
    { task: "bench:comprehension", values, settings, simulated },
    surroundings,
  );
  const asked: Record<string, string[]> = {};
  const folder = await Deno.makeTempDir({ dir: surroundings.folder });
  try {
    const stopped = await withinBudget(async () => {
      for (const [policy, makePolicy] of chosen) {
        const keys = asked[policy] = [] as string[];
        await askPolicy(bench, {
          policy,
          makePolicy,
          repeats,
          windowTokens,
          folder: join(folder, "work"),
          keys,
        });
      }
    });
    const lines = summariseCases(bench, asked);
    bench.results.summarise(lines);
    const plot = bench.write(".svg", policyChart(lines, `${bench.modelName}: what each policy lets it know`));
    return { text: `${policyTable(lines)}\n\nThe same as a plot: ${plot}`, stopped };
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Asks all that is not answered yet under one policy; `keys` takes the keys of the results. */
async function askPolicy(
  { model, modelName, profile, countTokens, results, progress }: Bench<CaseResult>,
  { policy, makePolicy, repeats, windowTokens, folder, keys }: {
    readonly policy: string;
    readonly makePolicy: MakePolicy;
    readonly repeats: number;
    readonly windowTokens: number;
    readonly folder: string;
    readonly keys: string[];
  },
): Promise<void> {
  for (let repeat = 1; repeat <= repeats; repeat++) {
    // Each policy has a session of its own, so that none reads what another one has put into the cache.
    const name = nonce(results.seed, `${policy} ${repeat}`);
    const worlds = [plantWorld(name, countTokens), plantNotation(name)];
    const all = worlds.reduce((sum, { cases }) => sum + cases.length, 0);
    for (const world of worlds) {
      const setting = { world, model, modelName, profile, windowTokens, countTokens, folder };
      const idle = await playPlanted(makePolicy, setting);
      for (const one of world.cases) {
        const key = `${policy}: ${one.name}${repeat > 1 ? ` (${repeat})` : ""}`;
        keys.push(key);
        if (results.get(key)) continue;
        const result = await askCase(one, idle, setting);
        results.set(key, result);
        const how = `${result.passed ? "passed" : "failed"}, ${result.by}, ${result.usage.calls} calls`;
        progress(`${keys.length - all * (repeat - 1)}/${all} ${key}: ${how}`);
      }
    }
  }
}

if (import.meta.main) await runBench(benchComprehension);
