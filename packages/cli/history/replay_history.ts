import { countRequestTokens, type CountTokens, type Message, type ToolDefinition } from "@tare/messages";
import { describeCall } from "@tare/messages/internal";
import { listWindow, type Profile } from "@tare/planner";
import { profileForTtl, WINDOW_SHARE } from "@tare/planner/internal";
import {
  ClientTrial,
  clockRule,
  compaction,
  outputPrice,
  pairCost,
  plannerPolicy,
  type PlayedPair,
  playPair,
  playSession,
  readRecording,
  type Recording,
  resend,
  timedSession,
  type Warmer,
  windowFor,
} from "@tare/simulator/economy";
import { asRecord } from "@tare/wire/internal";
import type { LoggedCall, LoggedMessage, LoggedSession } from "./log.ts";
import { type HistorySession, readWhole } from "./read_logs.ts";
import { lastsAnHour, modelRates } from "./spent.ts";

type AtKappa = Readonly<Record<"k0" | "k1" | "k3", number>>;

/** Result of replaying a session; costs are in cost units. */
interface Replay {
  readonly profile: string;
  readonly windowTokens: number;
  /** Baseline: resending everything or, if that exceeds the window, compaction. */
  readonly baseline: "resend" | "compaction";
  readonly resent: number;
  readonly baselineCosts: AtKappa;
  readonly planner: AtKappa;
  readonly refetches: number;
  readonly edits: number;
  /** Edits whose old text was no longer in the prompt. */
  readonly lostEdits: number;
  /** Costs with cache keep-alive; absent for providers without it. */
  readonly keepAlive?: {
    readonly none: number;
    /** If the provider accepts a time to live of one hour. */
    readonly granted: number;
    /** If it refuses that. */
    readonly refused: number;
    readonly keepAliveRequests: number;
    readonly planner: AtKappa;
  };
}

/** Estimated savings; negative if a session would have cost more. */
export interface Saved {
  readonly pruned: AtKappa;
  /** By keep-alive, if the provider accepts a time to live of one hour. */
  readonly warm: number;
  /** The same if it refuses that. */
  readonly warmRefused: number;
  readonly both: AtKappa;
}

export interface ReplayedSession {
  readonly session: HistorySession;
  readonly replay: Replay;
  readonly shares: Saved;
  /** Savings in dollars; undefined if the price is unknown. */
  readonly saved: Saved | undefined;
}

export interface PlayedHistory {
  readonly played: readonly ReplayedSession[];
  /** Number of sessions that can't be replayed, by reason. */
  readonly leftOut: ReadonlyMap<string, number>;
  readonly waiting: number;
}

export interface ReplayOptions {
  readonly countTokens: CountTokens;
  /** Time after which no further replay begins, in milliseconds. */
  readonly budgetMs: number;
  readonly onSession?: (share: number) => void;
  readonly record?: ((agent: string, line: string) => void) | undefined;
}

/** Replays sessions in order, one in memory at a time. */
export async function replayHistory(
  sessions: readonly HistorySession[],
  { countTokens, budgetMs, onSession, record }: ReplayOptions,
): Promise<PlayedHistory> {
  const played: ReplayedSession[] = [];
  const leftOut = new Map<string, number>();
  const replays = new Map<string, Replays>();
  const startMs = performance.now();
  for (const [at, session] of sessions.entries()) {
    const passedMs = performance.now() - startMs;
    if (passedMs > budgetMs) return { played, leftOut, waiting: sessions.length - at };
    const its = replays.get(session.agent) ?? new Replays(countTokens);
    replays.set(session.agent, its);
    const outcome = await replay(session, { replays: its, countTokens, record });
    if (typeof outcome === "string") leftOut.set(outcome, (leftOut.get(outcome) ?? 0) + 1);
    else played.push(outcome);
    onSession?.(Math.max((at + 1) / sessions.length, passedMs / budgetMs));
  }
  return { played, leftOut, waiting: 0 };
}

async function replay(
  session: HistorySession,
  { replays, countTokens, record }: Pick<ReplayOptions, "countTokens" | "record"> & {
    readonly replays: Replays;
  },
): Promise<ReplayedSession | string> {
  const whole = readWhole(session);
  if (!whole) return "the log no longer exists";
  let recording;
  try {
    recording = recordingOf(session.agent, whole, countTokens);
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  if (!recording) return "it has no tool calls";
  record?.(session.agent, recordingLine(session.agent, whole, countTokens));
  const played = await replays.play(recording, whole.calls);
  const shares = sharesOf(played);
  const { usd, unpricedCalls, calls } = session.totals;
  return {
    session,
    replay: played,
    shares,
    saved: unpricedCalls === calls ? undefined : eachSaved((of) => of(shares) * usd),
  };
}

function sharesOf({ baselineCosts, planner, keepAlive }: Replay): Saved {
  const of = (costs: AtKappa): AtKappa => ({
    k0: 1 - costs.k0 / baselineCosts.k0,
    k1: 1 - costs.k1 / baselineCosts.k1,
    k3: 1 - costs.k3 / baselineCosts.k3,
  });
  const warm = (cost: number | undefined) => keepAlive && cost !== undefined ? 1 - cost / keepAlive.none : 0;
  return {
    pruned: of(planner),
    warm: warm(keepAlive?.granted),
    warmRefused: warm(keepAlive?.refused),
    both: of(keepAlive?.planner ?? planner),
  };
}

export function sumSaved(played: readonly ReplayedSession[]): Saved {
  return eachSaved((of) => played.reduce((sum, { saved }) => sum + (saved ? of(saved) : 0), 0));
}

function eachSaved(make: (of: (saved: Saved) => number) => number): Saved {
  const at = (of: (saved: Saved) => AtKappa) => ({
    k0: make((saved) => of(saved).k0),
    k1: make((saved) => of(saved).k1),
    k3: make((saved) => of(saved).k3),
  });
  return {
    pruned: at(({ pruned }) => pruned),
    warm: make(({ warm }) => warm),
    warmRefused: make(({ warmRefused }) => warmRefused),
    both: at(({ both }) => both),
  };
}

/** Replays sessions of one agent, which share what was learned about keep-alive. */
class Replays {
  readonly #countTokens: CountTokens;
  readonly #granted = new Map<string, () => Warmer>();
  readonly #refused = new Map<string, () => Warmer>();
  readonly #trials = new Map<string, ClientTrial>();

  constructor(countTokens: CountTokens) {
    this.#countTokens = countTokens;
  }

  async play(recording: Recording, calls: readonly LoggedCall[]): Promise<Replay> {
    const { profile, windowTokens } = conditionsOf(recording, calls);
    const countTokens = this.#countTokens;
    const options = { profile, windowTokens, countTokens };
    const resent = await playPair(recording, resend, { ...options, recall: false });
    const fits = resent.open.maxPromptTokens <= WINDOW_SHARE * windowTokens;
    const alone = fits
      ? resent
      : await playPair(recording, compaction("cached"), { ...options, recall: true });
    const planner = await playPair(recording, plannerPolicy, { ...options, recall: true });
    const keepAlive = await this.#warm(recording, options);
    return {
      profile: profile.name,
      windowTokens,
      baseline: fits ? "resend" : "compaction",
      resent: resent.open.cost,
      baselineCosts: atKappa(alone),
      planner: atKappa(planner),
      refetches: planner.closed.refetches,
      edits: planner.open.edits,
      lostEdits: planner.open.editsWithLostText,
      ...(keepAlive && { keepAlive }),
    };
  }

  async #warm(
    recording: Recording,
    options: { readonly profile: Profile; readonly windowTokens: number; readonly countTokens: CountTokens },
  ): Promise<Replay["keepAlive"]> {
    const { profile } = options;
    if (profile.writes === undefined || profile.ttlMs >= HOUR_MS) return undefined;
    const price = outputPrice(profile);
    const priced: Profile = { ...profile, price: { input: 1, output: price } };
    const session = timedSession(recording, this.#countTokens);
    const play = (warmer: Warmer, grants: boolean) =>
      playSession(session, warmer, { profile: priced, outputPrice: price, grants, reportsEnd: false });
    const none = play({ next: () => undefined }, true);
    const clock = () => clockRule(true)(priced);
    const granted = play(madeOnce(this.#granted, priced, clock)(), true);
    const refused = play(madeOnce(this.#refused, priced, clock)(), false);
    const trial = madeOnce(this.#trials, priced, () => new ClientTrial());
    const planner = await playPair(recording, (given) => plannerPolicy(given, { keepAlive: { trial } }), {
      ...{ ...options, profile: priced, recall: true, keepAlive: { grants: true, reportsEnd: false } },
    });
    const costs = { none: none.cost, granted: granted.cost, refused: refused.cost };
    return { ...costs, keepAliveRequests: granted.keepAliveRequests, planner: atKappa(planner) };
  }
}

const HOUR_MS = 3_600_000;

function madeOnce<T>(made: Map<string, T>, { name }: Profile, make: () => T): T {
  const known = made.get(name) ?? make();
  made.set(name, known);
  return known;
}

function atKappa(pair: PlayedPair): AtKappa {
  return { k0: pair.open.cost, k1: pairCost(pair, 1), k3: pairCost(pair, 3) };
}

/** Returns a session's profile and window, from its most frequent model and its calls. */
function conditionsOf({ model = "" }: Recording, calls: readonly LoggedCall[]) {
  const written = calls.filter(({ usage }) => (usage.cacheWriteTokens ?? 0) > 0);
  const forAnHour = written.filter(({ usage }) => lastsAnHour(usage)).length > written.length / 2;
  const known = modelRates(model).profile;
  const profile = forAnHour ? profileForTtl(known, HOUR_MS) : known;
  const longest = Math.max(0, ...calls.map(({ usage }) => usage.promptTokens));
  const usual = windowFor(profile);
  const windowTokens = longest <= usual ? usual : Math.max(longest, listWindow(model) ?? 0);
  return { profile, windowTokens };
}

function recordingLine(
  agent: string,
  { id, group, calls, messages, compacted }: LoggedSession,
  countTokens: CountTokens,
): string {
  const models: Record<string, number> = {};
  for (const { model } of calls) models[model] = (models[model] ?? 0) + 1;
  const inOrder = Object.fromEntries(Object.entries(models).sort(([, a], [, b]) => b - a));
  const prefix = fixedPrefixTokens(messages, countTokens);
  return JSON.stringify({
    ...{ id: `${agent} ${id}`, group, source: agent, models: inOrder, tools_origin: "substitute" },
    tools: calledTools(messages),
    compactions: compacted.map((at) => ({ before_message: at })),
    ...(prefix > 0 && { recorded_fixed_prefix_tokens: prefix }),
    messages,
  });
}

export function recordingOf(
  agent: string,
  session: LoggedSession,
  countTokens: CountTokens,
): Recording | undefined {
  const calls = session.messages.some((message) => message.role === "assistant" && message.tool_calls);
  if (!calls || !session.messages.some(({ role }) => role === "user")) return undefined;
  return readRecording(recordingLine(agent, session, countTokens));
}

/** Returns tool definitions derived from calls: logs don't contain definitions. */
function calledTools(messages: readonly Message[]): ToolDefinition[] {
  const tools = new Map<string, Set<string>>();
  for (const message of messages) {
    for (const call of message.role === "assistant" ? message.tool_calls ?? [] : []) {
      const { name, arguments: input } = describeCall(call);
      const known = tools.get(name) ?? new Set();
      for (const field of call.type === "function" ? fieldsOf(input) : []) known.add(field);
      tools.set(name, known);
    }
  }
  return [...tools].map(([name, fields]) => ({
    type: "function",
    function: {
      name,
      parameters: {
        type: "object",
        properties: Object.fromEntries([...fields].map((field) => [field, {}])),
      },
    },
  }));
}

function fieldsOf(input: string): string[] {
  try {
    return Object.keys(asRecord(JSON.parse(input)) ?? {});
  } catch {
    return [];
  }
}

/** Returns the unlogged tokens of the first prompt: system prompt, tool definitions, memory files. */
function fixedPrefixTokens(messages: readonly LoggedMessage[], countTokens: CountTokens): number {
  const first = messages.findIndex(({ role }) => role === "assistant");
  const { input = 0, cache_read = 0, cache_write = 0 } = messages[first]?.usage ?? {};
  const messageTokens = countRequestTokens({ messages: messages.slice(0, Math.max(0, first)) }, countTokens);
  return Math.max(0, input + cache_read + cache_write - messageTokens);
}
