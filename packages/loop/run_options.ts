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
  /**
   * Output tokens, including reasoning, after which the model isn't called again: a guard against runaways rather than
   * a budget. Default: 500,000.
   */
  readonly maxOutputTokens?: number;
  /** Most calls of one reply that run at the same time. Default: 8. */
  readonly maxParallelTools?: number;
  /** Longest time of one tool call in milliseconds, unless the tool has a limit of its own. Default: 120,000. */
  readonly toolTimeoutMs?: number;
  /**
   * Longest time without progress of the model, the tools or the context hook, in milliseconds; then the turn ends as
   * `stalled`. The turn as a whole has no limit. Default: 300,000.
   */
  readonly idleTimeoutMs?: number;
}

/** Calculation and limit of a turn's cost. */
export interface TurnCosts {
  /** Returns the cost of a model call. Default: unknown; the ledger counts tokens only. */
  readonly costOf?: (usage: Usage) => Cost;
  /**
   * Called whenever the turn's own cost changes. Returns the turn's total cost, including subagents. Default: the own
   * cost.
   */
  readonly totalOf?: (own: TurnLedger) => TurnLedger;
  /**
   * Called before each model call with the total cost. A returned sentence ends the turn by reason `budget`. Default:
   * no budget.
   */
  readonly overBudget?: (ledger: TurnLedger) => string | undefined;
  /** Counts usage that the provider doesn't report. Default: `estimateTokens`. */
  readonly countTokens?: CountTokens;
}

/** Approvals of calls. */
export interface TurnApprovals {
  /**
   * Decides whether a call may run. Calls that need an approval stay open, and after the other calls of the step the
   * turn ends by reason `approval`; the next turn receives them as `answered`. Default: all may run.
   */
  readonly judge?: Judge;
  /**
   * Why no approval is possible, in a sentence that the model receives as the call's error. Default: approvals are
   * possible.
   */
  readonly cannotAsk?: string;
  /**
   * Calls that the last turn left open for an approval, with the decisions. Approved ones run before the model is
   * called. Default: none.
   */
  readonly answered?: readonly AnsweredCall[];
  /** Returns the nested calls of an answered or resumed call whose tool {@linkcode Tool.replays}. Default: none. */
  readonly journal?: (call: ToolCall) => Promise<Journal | undefined>;
}

/** Progress of a turn whose process ended before the turn. */
export type ResumedTurn = NonNullable<RunOptions["resumed"]>;

/** Sources of time. */
export type TurnTime = NonNullable<RunOptions["time"]>;

/** Options of {@linkcode run}. */
export interface RunOptions {
  readonly model: Model;
  /** The conversation so far, with instructions as system messages at its start. Not changed. */
  readonly history: readonly Message[];
  /**
   * The user's message. It follows the results of `answered` calls. Default: the turn continues from the history's end.
   */
  readonly input?: Content;
  /**
   * Returns the user's messages since the last call. Called before each model call and after the answer: the turn
   * continues if there are any. Default: none.
   */
  readonly steering?: () => readonly Content[];
  /** Tools that the model may call. Default: none. */
  readonly tools?: readonly Tool[];
  /**
   * Tools that the model may call although requests don't contain their definitions. Their schemas are checked when
   * they are called. Default: none.
   */
  readonly unlisted?: readonly Tool[];
  /**
   * Tools that the caller runs. A step that calls one runs its other calls and ends the turn by reason `tool_calls`;
   * the caller appends the results to the history and continues. Default: none.
   */
  readonly clientTools?: readonly ToolDefinition[];
  /** Approval of calls. Default: all calls may run. */
  readonly approvals?: TurnApprovals;
  /** Progress of the turn in an earlier process; no second `turn_start` is emitted. Default: the turn begins. */
  readonly resumed?: {
    /** Messages that the turn has added, with the available answers to the last reply's calls. */
    readonly messages: readonly Message[];
    /** Number of the next model call, from 1. */
    readonly step: number;
    /** Cost so far. */
    readonly ledger: TurnLedger;
    /** Unanswered calls of the last reply, which run before the model is called. */
    readonly calls: readonly ToolCall[];
    /** Decides on these calls, and on nested calls without a result. Default: that of all calls. */
    readonly judge?: Judge;
    /** Decisions on nested calls that have not begun since. Default: none. */
    readonly answered?: readonly AnsweredCall[];
  };
  /** Sampling and reasoning. Default: the provider's own. */
  readonly settings?: ModelSettings;
  /** Decides before each model call which messages the model receives. Default: all. */
  readonly context?: ContextHook;
  /** Aborting it ends the turn, with the model's request and running tools. Default: none. */
  readonly signal?: AbortSignal;
  /** Limits of the turn. */
  readonly limits?: RunLimits;
  /** Cost and budget of the turn. */
  readonly costs?: TurnCosts;
  /** Sources of time. */
  readonly time?: {
    /** Measures time and runs timers. Default: the real time. */
    readonly clock?: Clock;
    /** Returns the time in milliseconds since the epoch. Default: `Date.now`. */
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

/** {@linkcode RunOptions}, checked, flat and with defaults. */
export interface ResolvedOptions
  extends
    Pick<RunOptions, "model" | "history" | "input" | "resumed" | "settings" | "signal">,
    Required<Pick<RunOptions, "steering" | "clientTools" | "context">>,
    Required<RunLimits & TurnTime>,
    Pick<TurnCosts, "costOf">,
    Required<Omit<TurnCosts, "costOf">>,
    Pick<TurnApprovals, "cannotAsk" | "journal">,
    Required<Pick<TurnApprovals, "judge" | "answered">> {
  /** The tools by name. */
  readonly tools: ReadonlyMap<string, PreparedTool>;
}

const allowAll: Judge = () => ({ decision: "allow" });

/** Longest delay of a timer, in milliseconds; longer ones fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * Checks the caller's options and fills in the defaults.
 *
 * @throws {TypeError} if two tools have one name, or a tool's parameters are no JSON Schema.
 * @throws {RangeError} if a limit is out of its range, or there is neither input nor history.
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
    throw new RangeError("Cannot start a turn: there is neither an input nor a history to go on with.");
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
        `Cannot start a turn: two tools are named "${name}", and each name must be unique.`,
      );
    }
    names.add(name);
  }
  for (const [at, tool] of own.entries()) {
    const { definition } = tool;
    const { name } = definition.function;
    if (tool.timeoutMs !== undefined) checkLimit(`timeoutMs of tool ${name}`, tool.timeoutMs, MAX_TIMER_MS);
    const isListed = at < tools.length;
    // Compiled on demand: a turn calls few of many unlisted tools.
    const parse = isListed ? parserOf(definition) : (text: string) => parserOf(definition)(text);
    prepared.set(name, { tool, isListed, parse });
  }
  return prepared;
}

// Compiling a schema takes milliseconds, and a session has the same tools in every turn.
const parsers = new WeakMap<ToolDefinition, PreparedTool["parse"]>();

function parserOf(definition: ToolDefinition): PreparedTool["parse"] {
  let parse = parsers.get(definition);
  if (!parse) parsers.set(definition, parse = argumentsParser(definition));
  return parse;
}

function checkLimit(name: string, value: number, max: number = Infinity): void {
  if (value >= 1 && value <= max) return;
  const range = max === Infinity ? "at least 1" : `from 1 to ${max}`;
  throw new RangeError(`Cannot start a turn: ${name} is ${value}, but must be ${range}.`);
}

/** The time of a turn, injectable for tests. */
export interface Clock {
  /** Milliseconds since some fixed moment. Monotonic. */
  now(): number;
  /** Calls `callback` once after `ms` milliseconds, unless the returned function is called first. */
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

/** Time for stopped work to end before the turn ends without it, in milliseconds. */
const STOP_GRACE_MS = 2_000;

interface WatchdogOptions {
  /** Aborting it stops the turn. */
  readonly signal?: AbortSignal;
  /** Longest time without progress, in milliseconds. */
  readonly idleTimeoutMs: number;
  readonly clock: Clock;
}

/**
 * Ends a turn's waits if the caller aborts or there is no progress for `idleTimeoutMs`. A slow consumer doesn't count.
 */
export class Watchdog {
  /** Aborted when the turn must stop, whatever the cause. */
  readonly signal: AbortSignal;
  readonly #stop = new AbortController();
  readonly #idleTimeoutMs: number;
  readonly #clock: Clock;
  readonly #work = new Set<Promise<unknown>>();
  #lastSign = 0;
  #stalled = false;
  /** Rejects each pending wait. */
  readonly #waits = new Set<(reason: unknown) => void>();
  #disarm: (() => void) | undefined;

  constructor({ signal, idleTimeoutMs, clock }: WatchdogOptions) {
    this.signal = AbortSignal.any(signal ? [signal, this.#stop.signal] : [this.#stop.signal]);
    this.#idleTimeoutMs = idleTimeoutMs;
    this.#clock = clock;
    // One listener for all waits: one for each piece of a reply costs more than reading it.
    this.signal.addEventListener("abort", () => this.#waits.forEach((end) => end(this.signal.reason)));
  }

  /** True if the turn was stopped because of missing progress. */
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

  /** Starts work unless the turn is stopped, and waits for it. Rejects with the signal's reason once it is stopped. */
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

  /** Tracks work that {@linkcode Watchdog.close} waits for. Its failure is ignored. */
  track(work: Promise<unknown>): void {
    const forget = () => this.#work.delete(settled);
    const settled: Promise<unknown> = work.then(forget, forget);
    this.#work.add(settled);
  }

  /** Stops running work and waits {@linkcode STOP_GRACE_MS} for its end. */
  async close(): Promise<void> {
    this.stop();
    const grace = Promise.withResolvers<void>();
    const disarm = this.#clock.after(STOP_GRACE_MS, grace.resolve);
    await Promise.race([grace.promise, Promise.all(this.#work)]);
    disarm();
  }
}
