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
  /** Most model calls in the turn. Default: 50. */
  readonly maxSteps?: number;
  /**
   * Output tokens in the turn, reasoning included, after which the model isn't called again: a guard against runaways
   * rather than a budget. Default: 500,000.
   */
  readonly maxOutputTokens?: number;
  /** Most calls of one reply that run at the same time. Default: 8. */
  readonly maxParallelTools?: number;
  /** Longest time of one tool call in milliseconds, unless the tool has a limit of its own. Default: 120,000. */
  readonly toolTimeoutMs?: number;
  /**
   * Longest time without any sign from the model, the running tools or the context hook, in milliseconds; then the
   * turn ends as `stalled`. There is no limit on the turn as a whole. Default: 300,000.
   */
  readonly idleTimeoutMs?: number;
}

/** How the cost of a turn is calculated and limited. */
export interface TurnCosts {
  /** Returns the cost of a model call. Default: unknown, and the ledger counts tokens only. */
  readonly costOf?: (usage: Usage) => Cost;
  /**
   * Called with the cost of the turn's own calls whenever it changes. Returns the turn's total cost, including what others
   * spent for it, which budgets and the turn's end count. Default: the own cost.
   */
  readonly totalOf?: (own: TurnLedger) => TurnLedger;
  /**
   * Called before each model call with the total cost. A returned sentence ends the turn by reason `budget`. Default: no
   * budget.
   */
  readonly overBudget?: (ledger: TurnLedger) => string | undefined;
  /** Counts usage that the provider doesn't report. Default: `estimateTokens`. */
  readonly countTokens?: CountTokens;
}

/** Which calls may run, and which need an approval first. */
export interface TurnApprovals {
  /**
   * Decides before each call whether it may run. Calls that need an approval stay open, and once the others of the step
   * have run the turn ends by reason `approval`: the next turn gets them as `answered`. Default: all may run.
   */
  readonly judge?: Judge;
  /**
   * Why no approval is possible, in a sentence for the model, which gets it as the error of a call that needs one. Default:
   * approvals are possible.
   */
  readonly cannotAsk?: string;
  /**
   * The calls at the history's end that the last turn left open for an approval, with the answers: those that may run do
   * so before the model is called. Default: none.
   */
  readonly answered?: readonly AnsweredCall[];
  /**
   * Returns the nested calls that an answered call, or a call of a resumed turn, has made, if its tool
   * {@linkcode Tool.replays}. Default: none.
   */
  readonly journal?: (call: ToolCall) => Promise<Journal | undefined>;
}

/** What a turn did in a process that ended in the middle of it. */
export type ResumedTurn = NonNullable<RunOptions["resumed"]>;

/** The sources of time. */
export type TurnTime = NonNullable<RunOptions["time"]>;

/** Options of {@linkcode run}. */
export interface RunOptions {
  readonly model: Model;
  /** The conversation so far; instructions are system messages at its start. Not changed. */
  readonly history: readonly Message[];
  /**
   * The user's message; it follows the results of `answered` calls. Default: the turn continues where the history ends.
   */
  readonly input?: Content;
  /**
   * Returns what the user has said since it was last called. Called before each model call, and once the model has
   * answered: then the turn continues if there is something. Default: nothing.
   */
  readonly steering?: () => readonly Content[];
  /** The tools that the model may call. Default: none. */
  readonly tools?: readonly Tool[];
  /**
   * Tools that the model may call, too, though its requests don't contain their definitions. Whether their parameters are
   * a JSON Schema is checked when they are called. Default: none.
   */
  readonly unlisted?: readonly Tool[];
  /**
   * Tools that the caller runs. A step that calls some of them runs its other calls and ends the turn by reason
   * `tool_calls`: the caller adds their results to the history and continues. Default: none.
   */
  readonly clientTools?: readonly ToolDefinition[];
  /** Approval of calls. Default: all calls may run. */
  readonly approvals?: TurnApprovals;
  /** What the turn did in an earlier process: it continues without another `turn_start`. Default: the turn begins. */
  readonly resumed?: {
    /** What it has added to the history, with the answers to the calls of its newest reply as far as there are any. */
    readonly messages: readonly Message[];
    /** The next model call, from 1. */
    readonly step: number;
    /** Its cost so far. */
    readonly ledger: TurnLedger;
    /** Calls of the newest reply that have no answer, and are made before the model is called. */
    readonly calls: readonly ToolCall[];
    /** Decides whether these, and nested calls that have no result, may run. Default: that of all calls. */
    readonly judge?: Judge;
    /** Answers to approvals of nested calls that have not begun since. Default: none. */
    readonly answered?: readonly AnsweredCall[];
  };
  /** Sampling and reasoning. Default: the provider's own. */
  readonly settings?: ModelSettings;
  /** Decides before each model call what the model sees. Default: everything. */
  readonly context?: ContextHook;
  /** Aborting it ends the turn: the model's request and running tools are stopped. */
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

/** {@linkcode RunOptions} checked, without groups and with their defaults. */
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

/** Longest delay of a timer, in milliseconds: more fires at once. */
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
    // Of many tools a turn calls few.
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

/** Time, as far as a turn needs it. Handed in so that a test can move it. */
export interface Clock {
  /** Milliseconds since some fixed moment. Never goes back. */
  now(): number;
  /** Calls `callback` once after so many milliseconds, unless the function that it returns is called first. */
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

/** How long work that was told to stop may take to do so before the turn ends without it, in milliseconds. */
const STOP_GRACE_MS = 2_000;

interface WatchdogOptions {
  /** Aborting it stops the turn. */
  readonly signal?: AbortSignal;
  /** Longest time without a sign of life, in milliseconds. */
  readonly idleTimeoutMs: number;
  readonly clock: Clock;
}

/** Ends a turn's waits when the caller aborts or nothing moves for `idleTimeoutMs`; a slow consumer doesn't count. */
export class Watchdog {
  /** Aborted when the turn shall stop, whatever the cause. */
  readonly signal: AbortSignal;
  readonly #stop = new AbortController();
  readonly #idleTimeoutMs: number;
  readonly #clock: Clock;
  readonly #work = new Set<Promise<unknown>>();
  #lastSign = 0;
  #stalled = false;
  /** What ends each wait early. */
  readonly #waits = new Set<(reason: unknown) => void>();
  #disarm: (() => void) | undefined;

  /** Watches over one turn. */
  constructor({ signal, idleTimeoutMs, clock }: WatchdogOptions) {
    this.signal = AbortSignal.any(signal ? [signal, this.#stop.signal] : [this.#stop.signal]);
    this.#idleTimeoutMs = idleTimeoutMs;
    this.#clock = clock;
    // One listener for all waits: to add and remove one for each piece of a reply costs more than to read it.
    this.signal.addEventListener("abort", () => this.#waits.forEach((end) => end(this.signal.reason)));
  }

  /** True if nothing moved for too long and the turn was stopped therefore. */
  get stalled(): boolean {
    return this.#stalled;
  }

  stop(): void {
    this.#disarm?.();
    this.#stop.abort();
  }

  /** Notes a sign of life. */
  readonly progress = (): void => {
    this.#lastSign = this.#clock.now();
  };

  /** Starts work unless the turn is stopped, and waits for it. Rejects with the signal's reason once it is stopped. */
  async wait<T>(start: () => Promise<T> | T): Promise<T> {
    this.signal.throwIfAborted();
    // Not Promise.try(): Node has it from 24 on.
    const work = new Promise<T>((resolve) => resolve(start()));
    this.track(work);
    const wait = Promise.withResolvers<T>();
    work.then(wait.resolve, wait.reject);
    if (this.signal.aborted) wait.reject(this.signal.reason);
    this.progress();
    this.#waits.add(wait.reject);
    // A turn waits for each piece of a reply: one timer for all of that costs less than one for each.
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

  /** Remembers work that {@linkcode Watchdog.close} has to see the end of. Its failure is nobody's business then. */
  track(work: Promise<unknown>): void {
    const forget = () => this.#work.delete(settled);
    const settled: Promise<unknown> = work.then(forget, forget);
    this.#work.add(settled);
  }

  /** Stops what still runs and gives it {@linkcode STOP_GRACE_MS} to end. */
  async close(): Promise<void> {
    this.stop();
    const grace = Promise.withResolvers<void>();
    const disarm = this.#clock.after(STOP_GRACE_MS, grace.resolve);
    await Promise.race([grace.promise, Promise.all(this.#work)]);
    disarm();
  }
}
