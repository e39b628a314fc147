import {
  type Content,
  type ContextHook,
  type Cost,
  type CountTokens,
  estimateTokens,
  type Message,
  type Model,
  type ModelSettings,
  type Tool,
  type ToolCall,
  type ToolDefinition,
  type Usage,
} from "@tare/messages";
import { checkGiven, type NeededOptions } from "@tare/messages/internal";
import { argumentsParser } from "./arguments/arguments.ts";
import type { PreparedTool } from "./calls.ts";
import type { AnsweredCall, Journal, Judge, TurnLedger } from "./event.ts";

/** Limits of one turn. */
export interface RunLimits {
  /** Most model calls. Default: 50. */
  readonly maxSteps?: number;
  /** Output tokens after which the model isn't called again: a guard against runaways. Default: 500,000. */
  readonly maxOutputTokens?: number;
  /** Most calls that run at the same time. Default: 8. */
  readonly maxParallelTools?: number;
  /** Time limit of tools without their own, in milliseconds. Default: 120,000. */
  readonly toolTimeoutMs?: number;
  /**
   * Longest time without progress of model, tools and context hook, in milliseconds; then the turn ends as `stalled`.
   * The turn has no total limit. Default: 300,000.
   */
  readonly idleTimeoutMs?: number;
}

/** Cost of a turn, and its limit. */
export interface TurnCosts {
  /** Returns the cost of a model call. Default: unknown. */
  readonly costOf?: (usage: Usage) => Cost;
  /** Called whenever the turn's own cost changes. Returns the total, including subagents. Default: the own cost. */
  readonly totalOf?: (own: TurnLedger) => TurnLedger;
  /** Called before each model call. A returned sentence ends the turn by reason `budget`. Default: no budget. */
  readonly overBudget?: (ledger: TurnLedger) => string | undefined;
  /** Counts usage that isn't reported. Default: `estimateTokens`. */
  readonly countTokens?: CountTokens;
}

/** Approvals of calls. */
export interface TurnApprovals {
  /**
   * Decides on each call. Those that need an approval stay open, and after the others the turn ends by reason
   * `approval`; the next turn receives them as `answered`. Default: all may run.
   */
  readonly judge?: Judge;
  /** Why no approval is possible: the error of calls that need one. Default: approvals are possible. */
  readonly cannotAsk?: string;
  /** Decisions on open calls of the last turn; approved ones run before the model is called. Default: none. */
  readonly answered?: readonly AnsweredCall[];
  /** Returns earlier nested calls of a call whose tool {@linkcode Tool.replays}. Default: none. */
  readonly journal?: (call: ToolCall) => Promise<Journal | undefined>;
}

/** A turn that continues in another process. */
export type ResumedTurn = NonNullable<RunOptions["resumed"]>;

/** Sources of time. */
export type TurnTime = NonNullable<RunOptions["time"]>;

/** Options of {@linkcode run}. */
export interface RunOptions {
  readonly model: Model;
  /** The conversation, starting with system messages. Not changed. */
  readonly history: readonly Message[];
  /** The user's message, after the results of `answered` calls. Default: the history is continued. */
  readonly input?: Content;
  /**
   * Returns new user messages. Called before each model call and after the answer, when a message continues the turn.
   * Default: none.
   */
  readonly steering?: () => readonly Content[];
  /** Tools that the model may call. Default: none. */
  readonly tools?: readonly Tool[];
  /** Tools whose definitions requests don't contain, and whose schemas are checked when called. Default: none. */
  readonly unlisted?: readonly Tool[];
  /**
   * Tools that the caller runs. After a step with a call of one the turn ends by reason `tool_calls`; the caller
   * appends the results and continues. Default: none.
   */
  readonly clientTools?: readonly ToolDefinition[];
  /** Default: all calls may run. */
  readonly approvals?: TurnApprovals;
  /** Continues a turn of an earlier process, without `turn_start`. Default: the turn begins. */
  readonly resumed?: {
    /** Messages of the turn, with available answers. */
    readonly messages: readonly Message[];
    /** Next model call, from 1. */
    readonly step: number;
    readonly ledger: TurnLedger;
    /** Unanswered calls, which run first. */
    readonly calls: readonly ToolCall[];
    /** Decides on these and on nested calls without a result. Default: that of all calls. */
    readonly judge?: Judge;
    /** Decisions on nested calls that have not begun. Default: none. */
    readonly answered?: readonly AnsweredCall[];
  };
  /** Sampling and reasoning. Default: the provider's own. */
  readonly settings?: ModelSettings;
  /** Returns the messages of each model call. Default: all. */
  readonly context?: ContextHook;
  /** Aborts the turn. Default: never. */
  readonly signal?: AbortSignal;
  readonly limits?: RunLimits;
  readonly costs?: TurnCosts;
  readonly time?: {
    /** Default: the real time. */
    readonly clock?: Clock;
    /** Milliseconds since the epoch. Default: `Date.now`. */
    readonly now?: () => number;
  };
}

const OPTIONS: NeededOptions<RunOptions> = {
  model: "function",
  history: "messages",
  "input?": ["string", "array"],
  "steering?": "function",
  "tools?": "array",
  "unlisted?": "array",
  "clientTools?": "array",
  "approvals?": {
    "judge?": "function",
    "cannotAsk?": "string",
    "answered?": "array",
    "journal?": "function",
  } satisfies NeededOptions<TurnApprovals>,
  "resumed?": {
    messages: "array",
    step: "number",
    ledger: "object",
    calls: "array",
    "judge?": "function",
    "answered?": "array",
  } satisfies NeededOptions<ResumedTurn>,
  "settings?": "object",
  "context?": "function",
  "signal?": "object",
  "limits?": {
    "maxSteps?": "value",
    "maxOutputTokens?": "value",
    "maxParallelTools?": "value",
    "toolTimeoutMs?": "value",
    "idleTimeoutMs?": "value",
  } satisfies NeededOptions<RunLimits>,
  "costs?": {
    "costOf?": "function",
    "totalOf?": "function",
    "overBudget?": "function",
    "countTokens?": "function",
  } satisfies NeededOptions<TurnCosts>,
  "time?": { "clock?": "object", "now?": "function" } satisfies NeededOptions<TurnTime>,
};

/** {@linkcode RunOptions} with defaults, flat. */
export interface ResolvedOptions
  extends
    Pick<RunOptions, "model" | "history" | "input" | "resumed" | "settings" | "signal">,
    Required<Pick<RunOptions, "steering" | "clientTools" | "context">>,
    Required<RunLimits & TurnTime>,
    Pick<TurnCosts, "costOf">,
    Required<Omit<TurnCosts, "costOf">>,
    Pick<TurnApprovals, "cannotAsk" | "journal">,
    Required<Pick<TurnApprovals, "judge" | "answered">> {
  readonly tools: ReadonlyMap<string, PreparedTool>;
}

const allowAll: Judge = () => ({ decision: "allow" });

/** Longer timers fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * Checks the options and adds defaults.
 *
 * @throws {TypeError} if two tools have one name, or a schema is invalid.
 * @throws {RangeError} if a limit is out of range, or there is neither input nor history.
 */
export function resolveOptions(options: RunOptions): ResolvedOptions {
  checkGiven("run()", { options }, { options: OPTIONS });
  const {
    tools = [],
    unlisted = [],
    clientTools = [],
    steering = () => [],
    context = ({ messages, tools }) => ({ messages, tools }),
    approvals: { judge = allowAll, answered = [], ...approvals } = {},
    limits: {
      maxSteps = 50,
      maxOutputTokens = 500_000,
      maxParallelTools = 8,
      toolTimeoutMs = 120_000,
      idleTimeoutMs = 300_000,
    } = {},
    costs: {
      totalOf = (own: TurnLedger) => own,
      overBudget = () => undefined,
      countTokens = estimateTokens,
      ...costs
    } = {},
    time: { clock = systemClock, now = Date.now } = {},
    ...given
  } = options;
  if (given.input === undefined && given.history.length === 0 && !given.resumed) {
    throw new RangeError("Cannot start a turn: there is neither an input nor a history to continue.");
  }
  checkLimit("maxSteps", maxSteps);
  checkLimit("maxOutputTokens", maxOutputTokens);
  checkLimit("maxParallelTools", maxParallelTools);
  checkLimit("toolTimeoutMs", toolTimeoutMs, MAX_TIMER_MS);
  checkLimit("idleTimeoutMs", idleTimeoutMs, MAX_TIMER_MS);
  return {
    ...given,
    ...approvals,
    ...costs,
    tools: prepareTools({ tools, unlisted, clientTools }),
    ...{ clientTools, steering, context, judge, answered, totalOf, overBudget, countTokens, clock, now },
    ...{ maxSteps, maxOutputTokens, maxParallelTools, toolTimeoutMs, idleTimeoutMs },
  };
}

function prepareTools(
  { tools, unlisted, clientTools }: Required<Pick<RunOptions, "tools" | "unlisted" | "clientTools">>,
): ReadonlyMap<string, PreparedTool> {
  const prepared = new Map<string, PreparedTool>();
  const names = new Set<string>();
  const own = [...tools, ...unlisted];
  for (const { function: { name } } of [...own.map(({ definition }) => definition), ...clientTools]) {
    if (names.has(name)) {
      throw new TypeError(
        `Cannot start a turn: two tools are named "${name}". Names must be unique.`,
      );
    }
    names.add(name);
  }
  for (const [at, tool] of own.entries()) {
    const { definition } = tool;
    const { name } = definition.function;
    if (tool.timeoutMs !== undefined) checkLimit(`timeoutMs of tool ${name}`, tool.timeoutMs, MAX_TIMER_MS);
    const isListed = at < tools.length;
    // Compiled on demand: few unlisted tools are called.
    const parse = isListed ? parserOf(definition) : (text: string) => parserOf(definition)(text);
    prepared.set(name, { tool, isListed, parse });
  }
  return prepared;
}

// Compiling takes milliseconds, and a session has the same tools in every turn.
const parsers = new WeakMap<ToolDefinition, PreparedTool["parse"]>();

function parserOf(definition: ToolDefinition): PreparedTool["parse"] {
  let parse = parsers.get(definition);
  if (!parse) parsers.set(definition, parse = argumentsParser(definition));
  return parse;
}

function checkLimit(name: string, value: number, max: number = Infinity): void {
  if (value >= 1 && value <= max) return;
  const range = max === Infinity ? "at least 1" : `from 1 to ${max}`;
  throw new RangeError(`Cannot start a turn: ${name} is ${value}. It must be ${range}.`);
}

/** Time, injectable for tests. */
export interface Clock {
  /** Monotonic milliseconds. */
  now(): number;
  /** Calls `callback` once after `ms` milliseconds. Returns a function that cancels it. */
  after(ms: number, callback: () => void): () => void;
}

/** The real time. */
export const systemClock: Clock = {
  now: () => performance.now(),
  after(ms, callback) {
    const timer = setTimeout(callback, ms);
    return () => clearTimeout(timer);
  },
};

/** Time for stopped work to end, in milliseconds. */
const STOP_GRACE_MS = 2_000;

interface WatchdogOptions {
  readonly signal?: AbortSignal;
  readonly idleTimeoutMs: number;
  readonly clock: Clock;
}

/** Stops a turn that is aborted or makes no progress. A slow consumer doesn't count. */
export class Watchdog {
  /** Aborted when the turn must stop. */
  readonly signal: AbortSignal;
  readonly #stop = new AbortController();
  readonly #idleTimeoutMs: number;
  readonly #clock: Clock;
  readonly #work = new Set<Promise<unknown>>();
  #lastSign = 0;
  #stalled = false;
  readonly #waits = new Set<(reason: unknown) => void>();
  #disarm: (() => void) | undefined;

  constructor({ signal, idleTimeoutMs, clock }: WatchdogOptions) {
    this.signal = AbortSignal.any(signal ? [signal, this.#stop.signal] : [this.#stop.signal]);
    this.#idleTimeoutMs = idleTimeoutMs;
    this.#clock = clock;
    // One listener for all waits: one for each piece of a reply costs more than reading it.
    this.signal.addEventListener("abort", () => this.#waits.forEach((end) => end(this.signal.reason)));
  }

  /** Whether missing progress stopped the turn. */
  get stalled(): boolean {
    return this.#stalled;
  }

  stop(): void {
    this.#disarm?.();
    this.#stop.abort();
  }

  /** Records progress. */
  readonly progress = (): void => {
    this.#lastSign = this.#clock.now();
  };

  /** Starts work and waits for it. Rejects once the turn is stopped. */
  async wait<T>(start: () => Promise<T> | T): Promise<T> {
    this.signal.throwIfAborted();
    // `Promise.try()` needs Node 24.
    const work = new Promise<T>((resolve) => resolve(start()));
    this.track(work);
    const wait = Promise.withResolvers<T>();
    work.then(wait.resolve, wait.reject);
    if (this.signal.aborted) wait.reject(this.signal.reason);
    this.progress();
    this.#waits.add(wait.reject);
    // One timer for all waits: one for each piece of a reply costs more.
    if (!this.#disarm) this.#arm(this.#idleTimeoutMs);
    try {
      return await wait.promise;
    } finally {
      this.#waits.delete(wait.reject);
    }
  }

  #arm(ms: number): void {
    this.#disarm = this.#clock.after(ms, () => {
      this.#disarm = undefined;
      if (this.#waits.size === 0) return;
      const rest = this.#lastSign + this.#idleTimeoutMs - this.#clock.now();
      if (rest > 0) return this.#arm(rest);
      this.#stalled = true;
      this.stop();
    });
  }

  /** Tracks work for {@linkcode Watchdog.close}, ignoring its failure. */
  track(work: Promise<unknown>): void {
    const forget = () => this.#work.delete(settled);
    const settled: Promise<unknown> = work.then(forget, forget);
    this.#work.add(settled);
  }

  /** Stops running work and waits for it for {@linkcode STOP_GRACE_MS}. */
  async close(): Promise<void> {
    this.stop();
    const grace = Promise.withResolvers<void>();
    const disarm = this.#clock.after(STOP_GRACE_MS, grace.resolve);
    await Promise.race([grace.promise, Promise.all(this.#work)]);
    disarm();
  }
}
