import {
  contentText,
  type CountTokens,
  type FileChange,
  type Message,
  type ResolvedCall,
  type Tool,
  type ToolCall,
  type ToolContext,
  type ToolDefinition,
  type ToolMessage,
  type ToolOutput,
} from "@tare/messages";
import { describeCall, nearestName, toolResultMessage, untilAborted } from "@tare/messages/internal";
import { isDeepStrictEqual } from "node:util";
import {
  type AnsweredCall,
  type Journal,
  type Judge,
  type LoopEvent,
  type PendingCall,
  pinOf,
} from "./event.ts";
import { MadeCalls } from "./made_calls.ts";
import type { CheckedArguments } from "./arguments/arguments.ts";
import type { Clock, Watchdog } from "./run_options.ts";

export interface PreparedTool {
  readonly tool: Tool;
  /** Whether requests contain its definition. */
  readonly isListed: boolean;
  readonly parse: (argumentsText: string) => CheckedArguments;
}

interface RunToolsOptions extends Omit<RunCallOptions, "output" | "answer" | "begins" | "makes"> {
  readonly step: number;
  /** Tools that the caller runs; they get no answer here. */
  readonly clientTools: readonly ToolDefinition[];
  readonly maxParallelTools: number;
  readonly answered: readonly AnsweredCall[];
  readonly repeated: RepeatedCalls;
  readonly visible: readonly Message[];
  /** Returns earlier nested calls. Default: none. */
  readonly journal?: (call: ToolCall) => Promise<Journal | undefined>;
  /** Decides on new nested calls. Default: `judge`. */
  readonly usual?: Judge;
  readonly now: () => number;
  readonly countTokens: CountTokens;
}

export interface ToolAnswers {
  readonly answers: readonly ToolMessage[];
  readonly pending: readonly PendingCall[];
}

interface Finished {
  readonly index: number;
  readonly call: ToolCall;
  readonly outcome: CallOutcome | OpenCall;
  readonly durationMs: number;
}

/** Runs the calls of a reply in parallel. Answers are in order; open calls are answered only if stopped. */
export async function* runTools(
  calls: readonly ToolCall[],
  options: RunToolsOptions,
): AsyncGenerator<LoopEvent, ToolAnswers> {
  const { step, clientTools, answered, maxParallelTools, repeated, visible, watchdog, clock } = options;
  const running = new Map<number, Promise<Finished>>();
  const outcomes: [ToolCall, CallOutcome][] = [];
  const answers = new Map<ToolCall, ToolMessage>();
  const open = new Map<ToolCall, readonly PendingCall[]>();
  const isClients = (call: ToolCall) =>
    clientTools.some((tool) => tool.function.name === describeCall(call).name);

  const live = new LiveOutput(clock);
  const reports = new Reports();
  // Calls begin in order, however long decisions take.
  let judged: Promise<unknown> = Promise.resolve();
  const inOrder = (judge: Judge): Judge => (call) => {
    const judgement = judged.then(() => judge(call));
    judged = judgement.catch(() => {});
    return judgement;
  };
  const judge = inOrder(options.judge);
  const usual = inOrder(options.usual ?? options.judge);
  const start = async (index: number, call: ToolCall): Promise<Finished> => {
    const startedAt = clock.now();
    const outcome = await runCall(call, {
      ...options,
      judge,
      answer: answered.find((one) => one.call === call && one.question.id === call.id),
      output: (text) => live.push(call.id, text),
      makes: async () => madeBy(call, await options.journal?.(call)),
    });
    return { index, call, outcome, durationMs: clock.now() - startedAt };
  };
  const madeBy = (parent: ToolCall, journal: Journal | undefined) =>
    new MadeCalls(parent, {
      ...options,
      ...{ journal, nowMs: options.now(), emit: reports.emit },
      run: (call, begins) =>
        runCall(call, {
          ...options,
          ...{ begins, judge: journal?.made.has(call.id) ? judge : usual },
          answer: answered.find((one) => one.call === parent && one.question.id === call.id),
          output: (text) => live.push(call.id, text, parent.id),
        }),
    });

  const own = calls.filter((call) => !isClients(call));
  const waiting = own.entries();
  try {
    for (;;) {
      while (running.size < maxParallelTools) {
        const { done, value } = waiting.next();
        if (done) break;
        running.set(value[0], start(...value));
      }
      if (running.size === 0) break;
      const next = Promise.race(running.values());
      const either = Promise.race([next, live.due, reports.due]);
      // Once the turn is stopped, each call ends with an answer.
      const finished = await watchdog.wait(() => either).catch(() => next);
      for (const piece of live.take(finished?.call.id)) yield { type: "tool_output", step, ...piece };
      for (const { event, taken } of reports.take()) {
        if (event.type === "tool_result") live.forget(event.id);
        yield event;
        taken();
      }
      if (!finished) continue;
      const { index, call, outcome, durationMs } = finished;
      running.delete(index);
      if ("pending" in outcome) {
        open.set(call, outcome.pending);
        continue;
      }
      const content = repeated.contentFor(call, outcome, visible);
      outcomes[index] = [call, outcome];
      // A note that replaces a repeated result has no images: they are in the first.
      const images = content.startsWith(outcome.content) ? outcome.images : undefined;
      const { error, change, made } = outcome;
      answers.set(call, toolResultMessage(call.id, content, { images, failed: error }));
      yield resultEvent(step, call, {
        ...{ content, error, durationMs },
        ...{ ...(change && { change }), ...(images && { images }), ...(made && { made }) },
      });
    }
  } finally {
    live.close();
  }
  // Skips open calls.
  repeated.record(Object.values(outcomes));
  if (watchdog.signal.aborted) {
    const left = calls.filter((call) => isClients(call) || open.has(call));
    for (const [index, answer] of (yield* refuseCalls(left, step, STOPPED)).entries()) {
      answers.set(left[index]!, answer);
    }
  }
  return {
    answers: calls.flatMap((call) => answers.get(call) ?? []),
    pending: watchdog.signal.aborted ? [] : calls.flatMap((call) => open.get(call) ?? []),
  };
}

export const CUT_OFF =
  "the reply was cut off, so its calls may be incomplete and none was run. Call again with shorter arguments.";

const STOPPED = "the turn was stopped before it was run. Call again if you need it.";

export function* refuseCalls(
  calls: readonly ToolCall[],
  step: number,
  because: string,
): Generator<LoopEvent, readonly ToolMessage[]> {
  const answers: ToolMessage[] = [];
  for (const call of calls) {
    const content = `Cannot run ${describeCall(call).name}: ${because}`;
    answers.push(toolResultMessage(call.id, content, { failed: true }));
    yield resultEvent(step, call, { content, error: true, durationMs: 0 });
  }
  return answers;
}

function resultEvent(
  step: number,
  call: ToolCall,
  result: {
    readonly content: string;
    readonly error: boolean;
    readonly durationMs: number;
    readonly change?: FileChange;
    readonly made?: ReturnType<MadeCalls["sum"]>;
    readonly images?: readonly string[];
  },
): LoopEvent {
  const bytes = new TextEncoder().encode(result.content).length;
  return { type: "tool_result", step, id: call.id, name: describeCall(call).name, ...result, bytes };
}

interface CallOutcome {
  readonly content: string;
  readonly error: boolean;
  /** Whether other calls may return something else now. */
  readonly changedState: boolean;
  readonly change?: FileChange | undefined;
  readonly made?: ReturnType<MadeCalls["sum"]> | undefined;
  readonly images?: readonly string[] | undefined;
}

interface RunCallOptions {
  readonly tools: ReadonlyMap<string, PreparedTool>;
  /** Time limit of tools without their own, in milliseconds. */
  readonly toolTimeoutMs: number;
  readonly watchdog: Watchdog;
  readonly clock: Clock;
  readonly judge: Judge;
  readonly cannotAsk?: string;
  readonly answer?: AnsweredCall | undefined;
  readonly output: (text: string) => void;
  /** Awaited right before the tool runs. */
  readonly begins?: () => Promise<void>;
  readonly makes?: () => Promise<MadeCalls>;
}

interface OpenCall {
  readonly pending: readonly PendingCall[];
}

/** Runs one call within the turn. Never rejects: failures are outcomes. */
async function runCall(call: ToolCall, options: RunCallOptions): Promise<CallOutcome | OpenCall> {
  const { tools, watchdog, judge, cannotAsk, answer, output: show } = options;
  const { name, arguments: text } = describeCall(call);
  if (answer?.denied !== undefined) return refused(`Cannot run ${name}: ${answer.denied}`);
  const prepared = tools.get(name);
  if (!prepared) return refused(unknownTool(name, tools));
  const parsed = parse(prepared, text);
  if (!parsed.ok) return refused(parsed.problem);
  if (watchdog.signal.aborted) return refused(`Cannot run ${name}: the turn was stopped before it started.`);
  const resolved = prepared.tool.resolve?.(parsed.value) ?? { tool: prepared.tool, args: parsed.value };
  if ("problem" in resolved) return refused(resolved.problem);

  // An approval holds only for the approved call, and doesn't override a later prohibition.
  const judgement = await judge(resolved);
  // Aborted during the decision.
  if (watchdog.signal.aborted) return refused(`Cannot run ${name}: the turn was stopped before it started.`);
  if (judgement.decision === "deny") return refused(`Cannot run ${name}: ${judgement.reason}`);
  const { tool, args } = resolved;
  const question = questionFor(call, resolved, judgement);
  if (answer && !isSame(question, answer.question)) return refused(`Cannot run ${name}: ${HAS_CHANGED}`);
  const within = <Value>(work: (context: ToolContext) => Promise<Value> | Value) =>
    inTime(work, { ...options, name, callId: call.id, tool, allows: judgement.allows });
  const preview = async () => {
    const found = await within(async (context) => await tool.preview?.(args, context));
    return "value" in found ? found.value : found;
  };
  if (answer?.question.change) {
    const change = await preview();
    // If the preview fails now, so does the call.
    if (!change || ("diff" in change && !isSameChange(change, answer.question.change))) {
      return refused(`Cannot run ${name}: ${HAS_CHANGED}`);
    }
  }
  if (judgement.decision === "ask" && !answer) {
    if (cannotAsk !== undefined) return refused(`Cannot run ${name}: ${cannotAsk}`);
    const change = await preview();
    if (change && "diff" in change) return { pending: [{ ...question, change }] };
    // A call that has taken effect may fail its preview: the user decides.
    return change && !question.begun ? refused(change.problem) : { pending: [question] };
  }

  const calls = tool.replays && await options.makes?.();
  const { begins } = options;
  // Aborted in the callback.
  if (begins && !watchdog.signal.aborted) {
    await untilStopped(watchdog.signal, watchdog, begins).catch(() => {});
  }
  if (watchdog.signal.aborted) return refused(`Cannot run ${name}: the turn was stopped before it started.`);
  const ran = await within((context) =>
    tool.run(args, { ...context, output: show, ...(calls && { calls }) })
  );
  if (calls) return await outcomeOf(calls, ran, name);
  const changedState = tool.stance !== "rederivable";
  if ("problem" in ran) return { content: ran.problem, error: true, changedState };
  const { value } = ran;
  return typeof value === "string"
    ? { content: value, error: false, changedState }
    : { ...value, changedState };
}

async function outcomeOf(
  made: MadeCalls,
  ran: { readonly value: ToolOutput } | { readonly problem: string },
  name: string,
): Promise<CallOutcome | OpenCall> {
  await made.ended();
  const { changedState, diverged, pending, wrote } = made;
  const value = "value" in ran ? ran.value : { content: ran.problem, error: true };
  const { content, error, waits = false } = typeof value === "string"
    ? { content: value, error: false }
    : value;
  if (diverged !== undefined) {
    const problem =
      `Cannot resume ${name}: its calls differ from those before the interruption: ${diverged}. ` +
      "Earlier effects remain; nothing more was run.";
    return { content: problem, error: true, changedState, made: made.sum(problem) };
  }
  if (waits && pending.length > 0) return { pending };
  const all = wrote.length === 0 ? content : `${content}\n\n[Written: ${wrote.join(", ")}]`;
  return { content: all, error, changedState, made: made.sum(all) };
}

async function inTime<Value>(
  work: (context: ToolContext) => Promise<Value> | Value,
  { name, callId, tool, allows, toolTimeoutMs, watchdog, clock }:
    & Pick<RunCallOptions, "toolTimeoutMs" | "watchdog" | "clock">
    & {
      readonly name: string;
      readonly callId: string;
      readonly tool: Tool;
      readonly allows: ToolContext["allows"];
    },
): Promise<{ readonly value: Value } | { readonly problem: string }> {
  const timeoutMs = tool.timeoutMs ?? toolTimeoutMs;
  const limit = new AbortController();
  const disarm = clock.after(timeoutMs, () => limit.abort(new DOMException("Time is up.", "TimeoutError")));
  const signal = AbortSignal.any([watchdog.signal, limit.signal]);
  try {
    const { progress } = watchdog;
    const context = { signal, progress, callId, ...(allows && { allows }) };
    return { value: await untilStopped(signal, watchdog, () => work(context)) };
  } catch (error) {
    const problem = limit.signal.aborted
      ? `Cannot finish ${name}: it exceeded its limit of ${
        timeoutMs / 1000
      } s and was stopped. Request less in one call.`
      : signal.aborted
      ? `Cannot finish ${name}: the turn was stopped before it ended.`
      : messageOf(error, name);
    return { problem };
  } finally {
    disarm();
  }
}

/** An unlisted tool's schema may turn out invalid here. */
function parse({ parse }: PreparedTool, text: string): CheckedArguments {
  try {
    return parse(text);
  } catch (error) {
    return { ok: false, problem: (error as Error).message };
  }
}

const HAS_CHANGED =
  "the tool, its files or its arguments have changed since the approval. Call again if you need it.";

function questionFor(
  { id }: ToolCall,
  { tool, args }: ResolvedCall,
  { why, effects, begun }: Pick<PendingCall, "why" | "effects" | "begun">,
): PendingCall {
  const { name } = tool.definition.function;
  return {
    ...{ id, name, arguments: JSON.stringify(args), pin: pinOf(tool) },
    ...(effects && { effects }),
    ...(why !== undefined && { why }),
    ...(begun && { begun }),
  };
}

function isSame(one: PendingCall, other: PendingCall): boolean {
  return one.name === other.name && one.arguments === other.arguments &&
    isDeepStrictEqual([one.pin, one.effects], [other.pin, other.effects]);
}

/** Whether two diffs have the same changed lines; context and position may differ. */
function isSameChange(one: FileChange, other: FileChange): boolean {
  const lines = ({ diff }: FileChange) => diff.split("\n").filter((line) => /^[+-]/.test(line));
  return one.path === other.path && isDeepStrictEqual(lines(one), lines(other));
}

function refused(content: string): CallOutcome {
  return { content, error: true, changedState: false };
}

/** Longest quoted tool name; providers allow 64 characters. */
const MAX_NAME = 200;

function unknownTool(name: string, tools: RunCallOptions["tools"]): string {
  const closest = name.length > MAX_NAME ? undefined : nearestName(name, tools.keys());
  const names = [...tools].flatMap(([name, { isListed }]) => isListed ? [name] : []);
  const printable = name.length > MAX_NAME ? `${name.slice(0, MAX_NAME)}…` : name;
  return `Cannot run "${printable}": there is no such tool. ` + (closest ? `Did you mean ${closest}? ` : "") +
    (names.length > 0 ? `The tools are: ${names.join(", ")}.` : "There are no tools. Answer without them.");
}

function messageOf(error: unknown, name: string): string {
  const message = error instanceof Error ? error.message || error.name : String(error);
  return message || `Cannot finish ${name}: it failed without a message.`;
}

function untilStopped<T>(signal: AbortSignal, watchdog: Watchdog, run: () => Promise<T> | T): Promise<T> {
  return untilAborted(() => {
    // `Promise.try()` needs Node 24.
    const work = new Promise<T>((resolve) => resolve(run()));
    watchdog.track(work);
    return work;
  }, signal);
}

/** First repetition whose result is replaced by a note. */
const SILENT_FROM = 3;

interface Seen {
  /** Id of the first call, whose result is whole. */
  readonly id: string;
  readonly content: string;
  readonly repetitions: number;
}

/**
 * Detects repeated calls: the same tool, arguments and result in one turn, without a possible change between them. Two
 * repetitions return the result with a note, later ones only the note, unless the first result was evicted. Only
 * earlier steps are compared, so that the order of parallel calls doesn't matter.
 */
export class RepeatedCalls {
  readonly #seen = new Map<string, Seen>();

  contentFor(call: ToolCall, outcome: CallOutcome, visible: readonly Message[]): string {
    const seen = this.#seen.get(keyOf(call));
    if (seen?.content !== outcome.content) return outcome.content;
    const repetition = seen.repetitions + 1;
    const same = `Same call and same result as before (repetition ${repetition})`;
    const advice = "Use that result, call with other arguments, or answer.";
    return repetition >= SILENT_FROM && isVisible(seen, visible)
      ? `[${same}; not repeated. ${advice}]`
      : `${seen.content}\n\n[${same}. ${advice}]`;
  }

  record(outcomes: Iterable<readonly [ToolCall, CallOutcome]>): void {
    for (const [call, outcome] of outcomes) {
      const key = keyOf(call);
      const seen = this.#seen.get(key);
      if (outcome.changedState) this.#seen.clear();
      this.#seen.set(
        key,
        seen?.content === outcome.content
          ? { ...seen, repetitions: seen.repetitions + 1 }
          : { id: call.id, content: outcome.content, repetitions: 0 },
      );
    }
  }
}

function keyOf(call: ToolCall): string {
  const { name, arguments: text } = describeCall(call);
  return JSON.stringify([name, text]);
}

function isVisible({ id, content }: Seen, messages: readonly Message[]): boolean {
  return messages.some((message) =>
    message.role === "tool" && message.tool_call_id === id && contentText(message.content) === content
  );
}

/** Interval of output events, in milliseconds. */
const EVERY_MS = 500;
/** Longest live output of a call, in UTF-16 code units. */
const MAX_CHARS = 65_536;
const MORE = "\n[Further output is omitted while it runs.]\n";

type Piece = Pick<Extract<LoopEvent, { readonly type: "tool_output" }>, "id" | "text" | "parent">;

class LiveOutput {
  readonly #clock: Clock;
  readonly #pieces = new Map<string, Piece>();
  readonly #counts = new Map<string, number>();
  #due = Promise.withResolvers<undefined>();
  #disarm: (() => void) | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get due(): Promise<undefined> {
    return this.#due.promise;
  }

  /** `parent` is the calling call. */
  push(id: string, text: string, parent?: string): void {
    const count = this.#counts.get(id) ?? 0;
    if (text === "" || count > MAX_CHARS) return;
    this.#counts.set(id, count + text.length);
    const piece = count + text.length <= MAX_CHARS ? text : text.slice(0, MAX_CHARS - count) + MORE;
    const gathered = (this.#pieces.get(id)?.text ?? "") + piece;
    this.#pieces.set(id, { id, text: gathered, ...(parent !== undefined && { parent }) });
    this.#disarm ??= this.#clock.after(EVERY_MS, () => this.#due.resolve(undefined));
  }

  /** Omits output of the `ended` call, whose result contains it. */
  take(ended: string | undefined): readonly Piece[] {
    if (ended !== undefined) this.#pieces.delete(ended);
    if (ended !== undefined && this.#pieces.size > 0) return [];
    const gathered = [...this.#pieces.values()];
    this.close();
    this.#pieces.clear();
    this.#due = Promise.withResolvers();
    return gathered;
  }

  forget(id: string): void {
    this.#pieces.delete(id);
  }

  close(): void {
    this.#disarm?.();
    this.#disarm = undefined;
  }
}

class Reports {
  #events: { readonly event: LoopEvent; readonly taken: () => void }[] = [];
  #due = Promise.withResolvers<undefined>();

  get due(): Promise<undefined> {
    return this.#due.promise;
  }

  /** Resolves once the event was emitted and handled. */
  readonly emit = (event: LoopEvent): Promise<void> => {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#events.push({ event, taken: resolve });
    this.#due.resolve(undefined);
    return promise;
  };

  take(): readonly { readonly event: LoopEvent; readonly taken: () => void }[] {
    this.#due = Promise.withResolvers();
    return this.#events.splice(0);
  }
}
