/**
 * The command `deno task demo`, loaded by `demo.ts`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { memoryStore } from "@tare/session/sqlite";
import type { TurnLedger } from "@tare/loop";
import { addLedgers, EMPTY_LEDGER } from "@tare/loop/internal";
import { anthropicModel } from "@tare/loop/anthropic";
import { openaiModel } from "@tare/loop/openai";
import { workspaceTools } from "@tare/tools";
import { listPrice, type Price, type Profile, profileNamed } from "@tare/planner";
import { DEFAULT_PROVIDER, EXAMPLE_MODELS, MODELS_DATE, PROFILES } from "@tare/planner/internal";
import type { PolicyOptions } from "@tare/planner/policies";
import { agentHandler, ALLOW_EVERYTHING, type SessionEvent } from "@tare/server";
import { demoModel, simulator } from "@tare/simulator";
import { loadTokenizer, type Tokenizer } from "@tare/tiktoken";
import { client } from "../../server/client.ts";
import { callersPath, option, optionOr, runCommandLine } from "../command_line.ts";
import { usdText } from "../dollars.ts";
import { counted, formatCount } from "@tare/server/internal/format";
import { MECHANISM_NAMES } from "../ledger_names.ts";
import { savingPromise } from "../measured_savings.ts";
import { isDirectory } from "../option.ts";
import { table } from "../terminal/table.ts";
import { ProgressBar } from "../terminal/progress_bar.ts";

interface Way {
  readonly name: string;
  readonly policy: NonNullable<PolicyOptions["policy"]>;
  readonly saves: boolean;
}

export const WAYS: readonly Way[] = [
  { name: "everything resent", policy: "planner", saves: false },
  { name: "fixed triggers", policy: "classic", saves: true },
  { name: "planner", policy: "planner", saves: true },
];

interface Played {
  readonly ledger: TurnLedger;
  readonly rewrites: number;
  /** Model calls since the last rewrite, its own included; all without a rewrite. */
  readonly callsSince: number;
  readonly recalls: number;
  readonly answers: readonly string[];
  /** Error that ended it early: the prompt exceeded the model's window. */
  readonly stopped?: string;
}

interface PlayOptions {
  readonly workspace: string;
  readonly questions: readonly string[];
  readonly profile: Profile;
  readonly price?: Price | undefined;
  readonly tokenizer: Tokenizer;
  readonly onEvent?: (event: SessionEvent) => void;
}

const WINDOW_TOKENS = 250_000;
/** Simulated time of a reply and of the user's next message, in milliseconds. */
const REPLY_MS = 5_000;
const QUESTION_MS = 60_000;

/**
 * Plays a session with real loop and tools, but simulated model, provider and clock: the numbers are reproducible.
 *
 * @throws {Error} if a turn ends without an answer and not because the window is full.
 */
export async function playDemo(
  { policy, saves }: Way,
  { workspace, questions, profile, price, tokenizer, onEvent = () => {} }: PlayOptions,
): Promise<Played> {
  let nowMs = Date.UTC(2026, 0, 1);
  const now = () => nowMs;
  const provider = simulator({ model: demoModel(), profile, tokenizer, windowTokens: WINDOW_TOKENS, now });
  const access = {
    model: "demo",
    fetch: (input: RequestInfo | URL, init?: RequestInit) => {
      nowMs += REPLY_MS;
      return provider.fetch(new Request(input, init));
    },
  };
  let failure: unknown;
  const agent = agentHandler({
    models: {
      defaultModel: "demo",
      model: () =>
        profile.writes // Only Messages have a time to live per request.
          ? anthropicModel({ ...access, baseURL: "http://provider", cacheTtlMs: profile.ttlMs })
          : openaiModel({ ...access, baseURL: "http://provider/v1" }),
      profile,
      price: () => price,
      windowTokens: WINDOW_TOKENS,
      countTokens: () => Promise.resolve(tokenizer.count),
    },
    approvals: { rules: ALLOW_EVERYTHING },
    tools: workspaceTools({ workspace }),
    store: memoryStore({ now }),
    onError: (error) => failure = error,
    prompt: {
      policy,
      mechanisms: {
        context: saves,
        prune: saves,
        schemas: saves,
        truncate: saves,
        ...(!saves && { references: false }),
        normalization: saves,
      },
    },
    limits: { turn: { maxSteps: 200 } },
  });
  const api = client({
    url: "http://localhost",
    token: () => undefined,
    unreachable: "",
    fetch: agent.fetch,
  });
  const path = { id: (await api.json("POST /sessions", { body: {} })).id };
  let ledger: TurnLedger = EMPTY_LEDGER;
  let rewrites = 0;
  let callsSince = 0;
  let recalls = 0;
  const answers: string[] = [];
  let stopped: string | undefined;
  for (const input of questions) {
    if (stopped !== undefined) break;
    nowMs += QUESTION_MS;
    for await (const { event } of await api.events("POST /sessions/{id}/turns", { path, body: { input } })) {
      if (event.type === "context_rewritten") {
        rewrites += 1;
        callsSince = 0;
      }
      if (event.type === "step_end") callsSince += 1;
      if (event.type === "tool_call" && event.name === "recall") recalls += 1;
      if (event.type === "turn_end") {
        ledger = addLedgers(ledger, event.ledger);
        if (event.reason === "completed") answers.push(event.text);
        else if (event.code === "prompt_too_long") stopped = event.message ?? event.code;
        else throw new Error(`Cannot play the session: ${event.message}`, { cause: failure });
      }
      onEvent(event);
    }
  }
  await agent.close();
  return { ledger, rewrites, callsSince, recalls, answers, ...(stopped !== undefined && { stopped }) };
}

const MAX_FOLDERS = 10;
const SOURCES = "*.{c,cc,cpp,cs,go,h,hpp,java,js,jsx,kt,mjs,php,py,rb,rs,scala,sh,swift,ts,tsx,vue,zig}";

/** Returns review tasks for the largest folders. @throws {RangeError} without source code. */
export async function demoQuestions(workspace: string): Promise<readonly string[]> {
  const search = workspaceTools({ workspace }).find(({ definition }) =>
    definition.function.name === "search_files"
  );
  const { signal } = new AbortController();
  const args = { pattern: "^", output: "count", glob: SOURCES, max_results: 2000 };
  const output = await search!.run(args, { signal, progress() {} });
  const folders = new Map<string, { path: string; lines: number }[]>();
  for (const [, path = "", lines] of (typeof output === "string" ? output : "").matchAll(/^(\S+):(\d+)$/gm)) {
    const folder = path.split("/").slice(0, -1).slice(0, 2).join("/") || ".";
    folders.set(folder, [...folders.get(folder) ?? [], { path, lines: Number(lines) }]);
  }
  const largest = [...folders].map(([folder, files]) => ({
    folder,
    files: files.sort((a, b) => b.lines - a.lines),
    lines: files.reduce((sum, { lines }) => sum + lines, 0),
  })).sort((a, b) => b.lines - a.lines).slice(0, MAX_FOLDERS);
  const [first, second = first] = largest;
  if (!first || !second) {
    throw new RangeError(
      `Cannot play the demo: ${workspace} contains no source code. Use --workspace FOLDER.`,
    );
  }
  return [
    ...largest.map(({ folder }, at) =>
      `${at === 0 ? "Remember the word persimmon: I will ask for it. " : ""}Review ${folder} file by file.`
    ),
    `Look back: which word did I ask you to keep, and what do \`${first.files[0]!.path}\` and ` +
    `\`${second.files[0]!.path}\` declare first? And how much have you reviewed?`,
  ];
}

/** Returns a table with a column per policy. Answers are compared with the first complete session. */
export function demoTable(
  played: readonly (Played & Pick<Way, "name">)[],
  { model }: { readonly model?: string | undefined },
): string {
  const reference = played.find(({ stopped }) => stopped === undefined)?.answers;
  const row = (label: string, cell: (played: Played) => string) => [label, ...played.map(cell)];
  const left = Object.entries(MECHANISM_NAMES).filter(([name]) =>
    played.some(({ ledger }) => (ledger.saved[name] ?? 0) > 0)
  );
  const rows = [
    ["", ...played.map(({ name }) => name)],
    row("model calls", ({ ledger }) => formatCount(ledger.calls)),
    row("prompt tokens", ({ ledger }) => formatCount(ledger.promptTokens)),
    row("  read from the cache", ({ ledger }) => formatCount(ledger.cachedTokens)),
    ...left.map(([name, what]) =>
      row(`  removed: ${what}`, ({ ledger }) => formatCount(ledger.saved[name] ?? 0))
    ),
    row("rewrites of the prompt", ({ rewrites }) => formatCount(rewrites)),
    row("recalls", ({ recalls }) => formatCount(recalls)),
    row(
      "prompts, in cost units",
      ({ ledger: { costUnits } }) => costUnits === undefined ? "–" : formatCount(costUnits),
    ),
    ...(model === undefined ? [] : [
      row("dollars, prompts and replies", ({ ledger: { usd } }) => usd === undefined ? "–" : usdText(usd)),
    ]),
    row(
      "questions answered",
      ({ answers, stopped }) =>
        stopped === undefined ? formatCount(answers.length) : `${answers.length}: window full`,
    ),
    row(
      "  with the same text",
      ({ answers }) => formatCount(answers.filter((text, at) => text === reference?.[at]).length),
    ),
  ];
  return table(rows[0]!, rows.slice(1));
}

/** Returns the saving or loss of each policy against the first. Incomplete sessions aren't compared. */
export function demoVerdict(
  played: readonly (Played & Pick<Way, "name" | "policy">)[],
  { profile: { read, write } }: { readonly profile: Pick<Profile, "read" | "write"> },
): string {
  const [resent, ...others] = played;
  if (!resent) return "";
  return others.map((one) => {
    const { name, policy, ledger, recalls, callsSince, rewrites } = one;
    const explained = (sentences: readonly string[]) =>
      `${name[0]!.toUpperCase()}${name.slice(1)}: ${sentences.join("\n  ")}`;
    const stopped = [resent, one].find(({ stopped }) => stopped !== undefined);
    if (stopped) {
      const { answers: { length } } = stopped;
      return explained([
        `not compared: the window of "${stopped.name}" was full after ${length} answers.`,
      ]);
    }
    const more = costOf(one) / costOf(resent) - 1;
    const share = `${(100 * Math.abs(more)).toFixed(1)} %`;
    const breaks = policy === "classic" && read < write ? [BREAKS_TWICE] : [];
    if (more < 0) return explained([`saved ${share} of the cost of resending everything.`, ...breaks]);
    if (more === 0) {
      return explained(["cost as much as resending everything.", ...rewrites === 0 ? [NEVER_PAID] : breaks]);
    }
    const calls = ledger.calls - resent.ledger.calls;
    return explained([
      `cost ${share} more than resending everything.`,
      ...breaks.length > 0 || rewrites === 0 ? breaks : [
        `A rewrite breaks the cache and pays off over the calls after it; here there were only ${
          formatCount(callsSince)
        }.`,
      ],
      ...recalls > 0 && calls > 0 ? [`Recalls took ${counted(calls, "more call")}.`] : [],
    ]);
  }).join("\n");
}

const BREAKS_TWICE =
  "It breaks the provider's cache twice a turn: old turns are restored with its first call and evicted with its second.";

const NEVER_PAID = "No rewrite would have paid off.";

function costOf({ ledger: { usd, costUnits = 0 } }: Played): number {
  return usd ?? costUnits;
}

const STEPS = 12;

export const main = () =>
  runCommandLine({
    call: "deno task demo",
    summary: "Plays one session three times and compares the costs. It needs no key and costs nothing",
    options: {
      workspace: option("FOLDER", "Folder that the session reviews. Default: this one"),
      profile: optionOr(
        DEFAULT_PROVIDER.profile,
        "NAME",
        `Cache rules and prices: ${Object.keys(PROFILES).join(", ")}.`,
      ),
      model: option("NAME", "Model of the list price. Default: by profile"),
    },
  }, async ({ values }) => {
    const profile = profileNamed(values.profile);
    const model = values.model ?? EXAMPLE_MODELS[profile.name];
    const price = model === undefined ? undefined : listPrice(model);
    if (values.model !== undefined && price === undefined) {
      throw new RangeError(
        `Cannot play the demo: the list price of ${values.model} is unknown. Omit --model.`,
      );
    }
    const workspace = values.workspace === undefined ? Deno.cwd() : callersPath(values.workspace);
    if (!isDirectory(workspace)) {
      throw new RangeError(
        `Cannot play the demo: ${workspace} is not a folder. Use --workspace FOLDER.`,
      );
    }
    const questions = await demoQuestions(workspace);
    console.log(
      `One session of ${questions.length} questions about ${workspace}, played three times. Loop and tools are
real. The offline demo model follows fixed rules, and the provider is simulated: cache and prices of
${profile.name}${model ? `, in dollars at the prices of ${model} on ${MODELS_DATE}` : ""}.
`,
    );
    const tokenizer = await loadTokenizer();
    const total = questions.length;
    const bar = new ProgressBar(WAYS.length * total);
    const played = await Promise.all(WAYS.map(async (way) => {
      let [turns, steps] = [0, 0];
      return {
        ...way,
        ...await playDemo(way, {
          ...{ workspace, questions, profile, price, tokenizer },
          onEvent({ type }) {
            if (type === "step_end" && ++steps < STEPS) bar.step(1 / STEPS);
            if (type !== "turn_end") return;
            bar.step(1 - Math.min(steps, STEPS - 1) / STEPS);
            steps = 0;
            if (!Deno.stderr.isTerminal()) console.error(`${way.name}: ${++turns} of ${total} questions`);
          },
        }),
      };
    }));
    bar.clear();
    console.log(demoTable(played, { model }));
    console.log(`
${demoVerdict(played, { profile })}
Real sessions save ${savingPromise()}.

A cost unit is the price of one input token that is not read from the cache.
Next: run tare start, or deno task start; http://127.0.0.1:8787/ shows the costs of your own sessions.`);
  });
