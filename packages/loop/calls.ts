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
  type AskedCall,
  type Journal,
  type Judge,
  type LoopEvent,
  pinOf,
} from "./event.ts";
import { MadeCalls } from "./made_calls.ts";
import type { CheckedArguments } from "./arguments/arguments.ts";
import type { Clock, Watchdog } from "./run_options.ts";

/** A tool with what has been worked out of it before the turn. */
export interface PreparedTool {
  readonly tool: Tool;
  /** Whether requests hold its definition. */
  readonly isListed: boolean;
  readonly parse: (argumentsText: string) => CheckedArguments;
}

interface RunToolsOptions extends Omit<RunCallOptions, "output" | "answer" | "begins" | "makes"> {
  readonly step: number;
  /** Tools that the caller runs: their calls get no answer here. */
  readonly clientTools: readonly ToolDefinition[];
  readonly maxParallelTools: number;
  /** What somebody said of these calls who was asked before. */
  readonly answered: readonly AnsweredCall[];
  /** Knows the calls of the turn so far. */
  readonly repeated: RepeatedCalls;
  /** What the model sees in this step. */
  readonly visible: readonly Message[];
  /** Gives the calls that one of these has made, if it ran before. Default: none did. */
  readonly journal?: (call: ToolCall) => Promise<Journal | undefined>;
  /** Says of calls that these make for the first time whether they may run. Default: as of these. */
  readonly usual?: Judge;
  /** The time in milliseconds since the epoch. */
  readonly now: () => number;
  readonly countTokens: CountTokens;
}

export interface ToolAnswers {
  readonly answers: readonly ToolMessage[];
  /** The calls that somebody has to be asked for, and that have no answer yet. */
  readonly asked: readonly AskedCall[];
}

interface Finished {
  readonly index: number;
  readonly call: ToolCall;
  readonly outcome: CallOutcome | OpenCall;
  readonly durationMs: number;
}

/** Runs the calls of a reply in parallel; answers are in order, those of open calls only once stopped. */
export async function* runTools(
  calls: readonly ToolCall[],
  options: RunToolsOptions,
): AsyncGenerator<LoopEvent, ToolAnswers> {
  const { step, clientTools, answered, maxParallelTools, repeated, visible, watchdog, clock } = options;
  const running = new Map<number, Promise<Finished>>();
  const outcomes: [ToolCall, CallOutcome][] = [];
  const answers = new Map<ToolCall, ToolMessage>();
  const open = new Map<ToolCall, readonly AskedCall[]>();
  const isClients = (call: ToolCall) =>
    clientTools.some((tool) => tool.function.name === describeCall(call).name);

  const live = new LiveOutput(clock);
  const told = new Told();
  // They begin in their order, however long each takes to be judged.
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
      answer: answered.find((one) => one.call === call && one.asked.id === call.id),
      output: (text) => live.push(call.id, text),
      makes: async () => madeBy(call, await options.journal?.(call)),
    });
    return { index, call, outcome, durationMs: clock.now() - startedAt };
  };
  const madeBy = (parent: ToolCall, journal: Journal | undefined) =>
    new MadeCalls(parent, {
      ...options,
      ...{ journal, nowMs: options.now(), tell: told.tell },
      run: (call, begins) =>
        runCall(call, {
          ...options,
          ...{ begins, judge: journal?.made.has(call.id) ? judge : usual },
          answer: answered.find((one) => one.call === parent && one.asked.id === call.id),
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
      const either = Promise.race([next, live.due, told.due]);
      // Once the turn is stopped, each call answers so by itself.
      const finished = await watchdog.wait(() => either).catch(() => next);
      for (const piece of live.take(finished?.call.id)) yield { type: "tool_output", step, ...piece };
      for (const { event, taken } of told.take()) {
        if (event.type === "tool_result") live.forget(event.id);
        yield event;
        taken();
      }
      if (!finished) continue;
      const { index, call, outcome, durationMs } = finished;
      running.delete(index);
      if ("asked" in outcome) {
        open.set(call, outcome.asked);
        continue;
      }
      const content = repeated.contentFor(call, outcome, visible);
      outcomes[index] = [call, outcome];
      // Of a repetition that is told by its note alone the picture stands above.
      const pictures = content.startsWith(outcome.content) ? outcome.pictures : undefined;
      const { error, change, made } = outcome;
      answers.set(call, toolResultMessage(call.id, content, { pictures, failed: error }));
      yield resultEvent(step, call, {
        ...{ content, error, durationMs },
        ...{ ...(change && { change }), ...(pictures && { pictures }), ...(made && { made }) },
      });
    }
  } finally {
    live.close();
  }
  // Without the places of calls that stay open.
  repeated.record(Object.values(outcomes));
  if (watchdog.signal.aborted) {
    const left = calls.filter((call) => isClients(call) || open.has(call));
    for (const [index, answer] of (yield* refuseCalls(left, step, STOPPED)).entries()) {
      answers.set(left[index]!, answer);
    }
  }
  return {
    answers: calls.flatMap((call) => answers.get(call) ?? []),
    asked: watchdog.signal.aborted ? [] : calls.flatMap((call) => open.get(call) ?? []),
  };
}

export const CUT_OFF =
  "the reply was cut off, so that its calls may be incomplete and none was run. Call again, with shorter arguments.";

const STOPPED = "the turn was stopped before it was run. Call again if you need it.";

/** Answers calls without running any. */
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
    readonly pictures?: readonly string[];
  },
): LoopEvent {
  const bytes = new TextEncoder().encode(result.content).length;
  return { type: "tool_result", step, id: call.id, name: describeCall(call).name, ...result, bytes };
}

interface CallOutcome {
  /** The text for the model. */
  readonly content: string;
  readonly error: boolean;
  /** True if the call ran and may have changed what other calls will find. */
  readonly changedState: boolean;
  /** What it has changed, where that can be shown. */
  readonly change?: FileChange | undefined;
  /** Of a call that made others: what these came to. */
  readonly made?: ReturnType<MadeCalls["sum"]> | undefined;
  /** What it shows the model behind the text. */
  readonly pictures?: readonly string[] | undefined;
}

interface RunCallOptions {
  readonly tools: ReadonlyMap<string, PreparedTool>;
  /** Longest time of a call of a tool that doesn't say, in milliseconds. */
  readonly toolTimeoutMs: number;
  /** Stops the call with the turn, and is told of the tool's progress. */
  readonly watchdog: Watchdog;
  readonly clock: Clock;
  readonly judge: Judge;
  /** Why nobody can be asked, in a sentence for the model. Default: somebody can. */
  readonly cannotAsk?: string;
  /** What somebody said of it who was asked. Default: nobody was. */
  readonly answer?: AnsweredCall | undefined;
  /** Takes what the call gives while it runs. */
  readonly output: (text: string) => void;
  /** Called right before the tool runs, which waits for it. Default: nobody waits. */
  readonly begins?: () => Promise<void>;
  /** Gives what makes the calls of one that makes others. Default: none may. */
  readonly makes?: () => Promise<MadeCalls>;
}

/** A call that didn't run, or stopped, because somebody has to be asked first: for it, or for calls that it makes. */
interface OpenCall {
  readonly asked: readonly AskedCall[];
}

/** Runs one call if it may run. Never rejects: a failure is an outcome for the model. Doesn't outlast the turn. */
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

  // A yes to what was asked is no yes to what has been forbidden since, nor to anything else.
  const judgement = await judge(resolved);
  // Whoever judges may look at files first.
  if (watchdog.signal.aborted) return refused(`Cannot run ${name}: the turn was stopped before it started.`);
  if (judgement.decision === "deny") return refused(`Cannot run ${name}: ${judgement.reason}`);
  const { tool, args } = resolved;
  const asked = askedFor(call, resolved, judgement);
  if (answer && !isSame(asked, answer.asked)) return refused(`Cannot run ${name}: ${HAS_CHANGED}`);
  const within = <Value>(work: (context: ToolContext) => Promise<Value> | Value) =>
    inTime(work, { ...options, name, callId: call.id, tool, allows: judgement.allows });
  const preview = async () => {
    const found = await within(async (context) => await tool.preview?.(args, context));
    return "value" in found ? found.value : found;
  };
  if (answer?.asked.change) {
    const change = await preview();
    // What would fail now says so when it runs.
    if (!change || ("diff" in change && !isSameChange(change, answer.asked.change))) {
      return refused(`Cannot run ${name}: ${HAS_CHANGED}`);
    }
  }
  if (judgement.decision === "ask" && !answer) {
    if (cannotAsk !== undefined) return refused(`Cannot run ${name}: ${cannotAsk}`);
    const change = await preview();
    if (change && "diff" in change) return { asked: [{ ...asked, change }] };
    // A call that has taken effect already may well fail now: that is for a person to see.
    return change && !asked.begun ? refused(change.problem) : { asked: [asked] };
  }

  const calls = tool.replays && await options.makes?.();
  const { begins } = options;
  // Whoever is told may have stopped the turn.
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

/** How a call came out that made others: these are seen to their ends first. */
async function outcomeOf(
  made: MadeCalls,
  ran: { readonly value: ToolOutput } | { readonly problem: string },
  name: string,
): Promise<CallOutcome | OpenCall> {
  await made.ended();
  const { changedState, diverged, asked, wrote } = made;
  const value = "value" in ran ? ran.value : { content: ran.problem, error: true };
  const { content, error, waits = false } = typeof value === "string"
    ? { content: value, error: false }
    : value;
  if (diverged !== undefined) {
    const problem =
      `Cannot go on with ${name}: it made other calls than before it was cut off: ${diverged}. ` +
      "What it did before stands; nothing more was run.";
    return { content: problem, error: true, changedState, made: made.sum(problem) };
  }
  if (waits && asked.length > 0) return { asked };
  const all = wrote.length === 0 ? content : `${content}\n\n[Written: ${wrote.join(", ")}]`;
  return { content: all, error, changedState, made: made.sum(all) };
}

/** Does something with a tool until the turn is stopped or the time is up; what fails is a problem for the model. */
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
      ? `Cannot finish ${name}: it ran into its limit of ${
        timeoutMs / 1000
      } s and was stopped. Ask for less in one call.`
      : signal.aborted
      ? `Cannot finish ${name}: the turn was stopped before it ended.`
      : messageOf(error, name);
    return { problem };
  } finally {
    disarm();
  }
}

/** Of a tool that isn't listed nobody has looked at the schema yet. */
function parse({ parse }: PreparedTool, text: string): CheckedArguments {
  try {
    return parse(text);
  } catch (error) {
    return { ok: false, problem: (error as Error).message };
  }
}

const HAS_CHANGED =
  "its tools or files have changed, and it isn't what was asked for and allowed any more. Call again if you need it.";

function askedFor(
  { id }: ToolCall,
  { tool, args }: ResolvedCall,
  { why, effects, begun }: Pick<AskedCall, "why" | "effects" | "begun">,
): AskedCall {
  const { name } = tool.definition.function;
  return {
    ...{ id, name, arguments: JSON.stringify(args), pin: pinOf(tool) },
    ...(effects && { effects }),
    ...(why !== undefined && { why }),
    ...(begun && { begun }),
  };
}

/** Whether what was asked is what would run now: the same tool, told of in the same words, touching the same files. */
function isSame(one: AskedCall, other: AskedCall): boolean {
  return one.name === other.name && one.arguments === other.arguments &&
    isDeepStrictEqual([one.pin, one.effects], [other.pin, other.effects]);
}

/** Whether the same lines come and go: what stands around them may have changed, and where in the file they are. */
function isSameChange(one: FileChange, other: FileChange): boolean {
  const lines = ({ diff }: FileChange) => diff.split("\n").filter((line) => /^[+-]/.test(line));
  return one.path === other.path && isDeepStrictEqual(lines(one), lines(other));
}

function refused(content: string): CallOutcome {
  return { content, error: true, changedState: false };
}

/** Longest name that is repeated and compared with those of the tools; providers allow 64 characters. */
const MAX_NAME = 200;

function unknownTool(name: string, tools: RunCallOptions["tools"]): string {
  const closest = name.length > MAX_NAME ? undefined : nearestName(name, tools.keys());
  const names = [...tools].flatMap(([name, { isListed }]) => isListed ? [name] : []);
  const shown = name.length > MAX_NAME ? `${name.slice(0, MAX_NAME)}…` : name;
  return `Cannot run "${shown}": there is no such tool. ` + (closest ? `Did you mean ${closest}? ` : "") +
    (names.length > 0 ? `The tools are: ${names.join(", ")}.` : "There are no tools: answer without.");
}

function messageOf(error: unknown, name: string): string {
  const message = error instanceof Error ? error.message || error.name : String(error);
  return message || `Cannot finish ${name}: it failed without saying why.`;
}

/** Runs work whose end the watchdog sees, and waits for it until the signal is aborted. */
function untilStopped<T>(signal: AbortSignal, watchdog: Watchdog, run: () => Promise<T> | T): Promise<T> {
  return untilAborted(() => {
    // Not Promise.try(): Node has it from 24 on.
    const work = new Promise<T>((resolve) => resolve(run()));
    watchdog.track(work);
    return work;
  }, signal);
}

/** From this repetition on, the model gets the note alone. */
const SILENT_FROM = 3;

interface Seen {
  /** Id of the first call, whose answer is whole. */
  readonly id: string;
  readonly content: string;
  /** How often it was repeated without new information. */
  readonly repetitions: number;
}

/**
 * Tells the model that a call brought nothing new: the same tool, arguments and result as earlier in the turn, with
 * no call between that may have changed something. The first two repetitions get the whole result and a note; from
 * the third on, the note replaces the result, unless the model can't see the first one any more because it left the
 * prompt. Calls of one step are compared with earlier steps alone, so that it doesn't matter which ends first.
 */
export class RepeatedCalls {
  readonly #seen = new Map<string, Seen>();

  /** The text that the model gets for this outcome, while it sees these messages. */
  contentFor(call: ToolCall, outcome: CallOutcome, visible: readonly Message[]): string {
    const seen = this.#seen.get(keyOf(call));
    if (seen?.content !== outcome.content) return outcome.content;
    const repetition = seen.repetitions + 1;
    const same = `Same call and same result as before (repetition ${repetition})`;
    const advice = "Use that result, call with other arguments, or answer.";
    return repetition >= SILENT_FROM && isVisible(seen, visible)
      ? `[${same}; it is not shown again. ${advice}]`
      : `${seen.content}\n\n[${same}. ${advice}]`;
  }

  /** Takes note of a step's outcomes, in the order of the calls. */
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

/** How long output is gathered before it is shown, in milliseconds: what is there sooner is seen in the result. */
const EVERY_MS = 500;
/** Most that is shown of a call, in UTF-16 code units. */
const MAX_CHARS = 65_536;
/** What stands behind them, so that nobody takes their end for the end. */
const MORE = "\n[What follows isn't shown while it runs.]\n";

type Piece = Pick<Extract<LoopEvent, { readonly type: "tool_output" }>, "id" | "text" | "parent">;

/** Gathers what calls give while they run, so that those who watch are told now and then and not of every byte. */
class LiveOutput {
  readonly #clock: Clock;
  readonly #pieces = new Map<string, Piece>();
  readonly #shown = new Map<string, number>();
  #due = Promise.withResolvers<undefined>();
  #disarm: (() => void) | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Resolves once there is something to show. */
  get due(): Promise<undefined> {
    return this.#due.promise;
  }

  /** Takes the next piece of the output of a call, which `parent` may have made. */
  push(id: string, text: string, parent?: string): void {
    const shown = this.#shown.get(id) ?? 0;
    if (text === "" || shown > MAX_CHARS) return;
    this.#shown.set(id, shown + text.length);
    const piece = shown + text.length <= MAX_CHARS ? text : text.slice(0, MAX_CHARS - shown) + MORE;
    const gathered = (this.#pieces.get(id)?.text ?? "") + piece;
    this.#pieces.set(id, { id, text: gathered, ...(parent !== undefined && { parent }) });
    this.#disarm ??= this.#clock.after(EVERY_MS, () => this.#due.resolve(undefined));
  }

  /** What has gathered, by call, if its time has come; nothing of the call that has `ended`, as its result says it all. */
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

  /** Forgets what has gathered. */
  close(): void {
    this.#disarm?.();
    this.#disarm = undefined;
  }
}

/** Events that calls tell of while they run, until whoever plays the turn takes them. */
class Told {
  #events: { readonly event: LoopEvent; readonly taken: () => void }[] = [];
  #due = Promise.withResolvers<undefined>();

  /** Resolves once there are some. */
  get due(): Promise<undefined> {
    return this.#due.promise;
  }

  /** Tells of an event; resolves once it was taken, and all that comes of that is done. */
  readonly tell = (event: LoopEvent): Promise<void> => {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#events.push({ event, taken: resolve });
    this.#due.resolve(undefined);
    return promise;
  };

  /** Those that nobody has taken, in their order. */
  take(): readonly { readonly event: LoopEvent; readonly taken: () => void }[] {
    this.#due = Promise.withResolvers();
    return this.#events.splice(0);
  }
}
