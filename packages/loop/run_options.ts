import {
  checkGiven,
  type Content,
  type ContextHook,
  type Cost,
  type CountTokens,
  estimateTokens,
  type Message,
  type Model,
  type ModelSettings,
  type Tool,
  type ToolDefinition,
  type Usage,
} from "@tare/messages";
import { argumentsParser } from "@tare/messages/arguments";
import type { AnsweredCall, Judge } from "./approval.ts";
import type { TurnLedger } from "./ledger.ts";
import { type Clock, systemClock } from "./watchdog.ts";

/** What a turn needs. */
export interface RunOptions {
  readonly model: Model;
  /** The conversation so far; instructions are system messages at its start. Not changed. */
  readonly history: readonly Message[];
  /** What the user says now. Absent: the turn goes on where the history stops. */
  readonly input?: Content;
  /**
   * What the user has said since it was last called. Called before each model call, and once the model has answered:
   * then the turn goes on if there is something. Default: nothing.
   */
  readonly steering?: () => readonly Content[];
  /**
   * Called before each model call with what the turn cost so far: a sentence ends the turn by reason `budget`.
   * Default: no budget.
   */
  readonly overBudget?: (ledger: TurnLedger) => string | undefined;
  /** What a call cost, by its usage. Default: nobody knows, and the ledger counts tokens alone. */
  readonly costOf?: (usage: Usage) => Cost;
  /**
   * Told what the turn's own calls cost so far whenever that changes; gives what the turn cost with what others spent for
   * it: that is what budgets and the turn's end count. Default: nobody did.
   */
  readonly spent?: (own: TurnLedger) => TurnLedger;
  /** The tools that the model may call. Default: none. */
  readonly tools?: readonly Tool[];
  /**
   * Tools that the model may call too, though its requests don't hold their definitions: it knows them from elsewhere.
   * Whether their parameters are a JSON Schema is seen when they are called. Default: none.
   */
  readonly unlisted?: readonly Tool[];
  /**
   * Tools that the caller runs. A step that calls some of them runs its other calls and ends the turn by reason
   * `tool_calls`: the caller adds their results to the history and lets it go on. Default: none.
   */
  readonly clientTools?: readonly ToolDefinition[];
  /**
   * Says before each call whether it may run. Calls that have to be asked for are left open, and once the others of the
   * step have run the turn ends by reason `approval`: the next turn gets them as `answered`. Default: all may.
   */
  readonly judge?: Judge;
  /**
   * Why nobody can be asked, in a sentence for the model: what would have to be asked for gets it as an error. Default:
   * somebody can.
   */
  readonly cannotAsk?: string;
  /**
   * The calls at the history's end that the last turn left open to ask for them, with the answers: those that may run do
   * so before the model is called. Default: none.
   */
  readonly answered?: readonly AnsweredCall[];
  /** How the model shall write. Default: as the provider likes. */
  readonly settings?: ModelSettings;
  /** Decides before each model call what the model sees. Default: everything. */
  readonly context?: ContextHook;
  /** Aborting it ends the turn: the model's request and running tools are stopped. */
  readonly signal?: AbortSignal;
  /** Most model calls in the turn. Default: 50. */
  readonly maxSteps?: number;
  /**
   * Once the model has written that many tokens in the turn, reasoning included, it isn't called again. A guard
   * against runaways rather than a budget. Default: 500,000.
   */
  readonly maxOutputTokens?: number;
  /** Most calls of one reply that run at the same time. Default: 8. */
  readonly maxParallelTools?: number;
  /** Longest time that one tool call may take, in milliseconds, where the tool doesn't say. Default: 120,000. */
  readonly toolTimeoutMs?: number;
  /**
   * Longest time without any sign from the model, the running tools or the context hook, in milliseconds; then the
   * turn ends as `stalled`. There is no limit on the turn as a whole. Default: 300,000.
   */
  readonly idleTimeoutMs?: number;
  /** Counts usage that the provider doesn't report. Default: `estimateTokens`. */
  readonly countTokens?: CountTokens;
  /** Tells the time. Default: the real time. */
  readonly clock?: Clock;
}

/** A tool with what has been worked out of it before the turn. */
export interface PreparedTool {
  readonly tool: Tool;
  /** Whether requests hold its definition. */
  readonly isListed: boolean;
  /** Parses and validates its arguments. */
  readonly parse: ReturnType<typeof argumentsParser>;
}

/** {@linkcode RunOptions} checked and with their defaults. */
export interface ResolvedOptions extends
  Omit<
    Required<RunOptions>,
    "tools" | "unlisted" | "settings" | "context" | "signal" | "input" | "costOf" | "cannotAsk"
  > {
  /** What the user says now. */
  readonly input?: Content;
  /** How the model shall write. */
  readonly settings?: ModelSettings;
  /** What a call cost. */
  readonly costOf?: (usage: Usage) => Cost;
  /** The tools by name. */
  readonly tools: ReadonlyMap<string, PreparedTool>;
  /** Decides what the model sees. */
  readonly context: ContextHook;
  /** Aborting it ends the turn. */
  readonly signal?: AbortSignal;
  /** Why nobody can be asked. */
  readonly cannotAsk?: string;
}

/** Longest delay of a timer, in milliseconds: more fires at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * Checks what the caller hands in and fills in the defaults.
 *
 * @throws {TypeError} if two tools have one name, or a tool's parameters are no JSON Schema.
 * @throws {RangeError} if a limit is out of its range, or there is neither input nor history.
 */
export function resolveOptions(options: RunOptions): ResolvedOptions {
  checkGiven("run()", { options }, { options: { model: "function", history: "messages" } });
  const {
    tools = [],
    unlisted = [],
    clientTools = [],
    judge = () => ({ decision: "allow" }),
    answered = [],
    context = ({ messages, tools }) => ({ messages, tools }),
    steering = () => [],
    overBudget = () => undefined,
    spent = (own) => own,
    maxSteps = 50,
    maxOutputTokens = 500_000,
    maxParallelTools = 8,
    toolTimeoutMs = 120_000,
    idleTimeoutMs = 300_000,
    countTokens = estimateTokens,
    clock = systemClock,
    ...given
  } = options;
  if (given.input === undefined && given.history.length === 0) {
    throw new RangeError("Cannot start a turn: there is neither an input nor a history to go on with.");
  }
  checkLimit("maxSteps", maxSteps);
  checkLimit("maxOutputTokens", maxOutputTokens);
  checkLimit("maxParallelTools", maxParallelTools);
  checkLimit("toolTimeoutMs", toolTimeoutMs, MAX_TIMER_MS);
  checkLimit("idleTimeoutMs", idleTimeoutMs, MAX_TIMER_MS);
  return {
    ...given,
    tools: prepareTools({ tools, unlisted, clientTools }),
    clientTools,
    judge,
    answered,
    context,
    steering,
    overBudget,
    spent,
    maxSteps,
    maxOutputTokens,
    maxParallelTools,
    toolTimeoutMs,
    idleTimeoutMs,
    countTokens,
    clock,
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
