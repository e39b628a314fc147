import {
  type AssistantMessage,
  type Content,
  contentText,
  type ContextView,
  countMessageTokens,
  countRequestTokens,
  type CountTokens,
  describeCall,
  type FinishReason,
  type Message,
  MESSAGE_OVERHEAD_TOKENS,
  type ModelRequest,
  type Usage,
} from "@tare/messages";
import type { LoopEvent, TurnEnd } from "./event.ts";
import { addLedgers, EMPTY_LEDGER, type TurnLedger } from "./ledger.ts";
import { ModelError } from "./model_error.ts";
import { RepeatedCalls } from "./calls/repeated_calls.ts";
import { type ResolvedOptions, resolveOptions, type RunOptions } from "./run_options.ts";
import { CUT_OFF, refuseCalls, runTools, type ToolAnswers } from "./calls/run_tools.ts";
import { Watchdog } from "./watchdog.ts";

/** How a turn ended and what it left. */
export interface TurnResult extends TurnEnd {
  /**
   * What the turn adds to the history: the user message, and each reply with the answers to all its calls, but for
   * those of `clientTools` that ended it. A reply that was broken off, or was empty, is not in it.
   */
  readonly messages: readonly Message[];
  /** What was thrown, if the turn ended by an error; for a log, not for clients. */
  readonly error?: unknown;
}

/** What a model call sends. */
type View = Pick<ModelRequest, "messages" | "tools" | "stable">;

/** What each step of a turn is made with. */
interface StepOptions extends ResolvedOptions {
  readonly step: number;
  readonly watchdog: Watchdog;
}

/** What changes in the course of a turn. */
interface Turn {
  messages: readonly Message[];
  ledger: TurnLedger;
  text: string;
}

/**
 * Runs one turn: calls the model, runs the tools that it calls, and goes on until it answers without a call, or calls
 * a tool that the caller runs or somebody has to allow first.
 *
 * The events of a step are `step_start`, `context_rewritten` and `warning`, deltas, `assistant_message`, `tool_call`
 * (in the order of the calls), `tool_result` (as each ends), `step_end`, `approval_asked` (in the order of the calls); a
 * step whose reply was broken off has no `step_end`. What comes of `answered` calls stands before the first step. A turn starts with `turn_start` and ends with exactly one `turn_end`, whatever fails: the model, a tool,
 * the context hook. When the turn is stopped by its signal, calls that have no answer yet are answered with an error,
 * so that the history stays whole: only calls of `clientTools`, or that have to be asked for, that ended the turn are left for the caller to answer. Leaving the loop over the events stops everything too, but then nobody gets the
 * result.
 *
 * @throws {TypeError} if two tools have one name, or a tool's parameters are no JSON Schema.
 * @throws {RangeError} if a limit is out of its range.
 */
export function run(options: RunOptions): AsyncGenerator<LoopEvent, TurnResult> {
  const resolved = resolveOptions(options);
  const watchdog = new Watchdog(resolved);
  const turn = playTurn(resolved, watchdog);
  const finish = turn.return.bind(turn);
  // By itself, return() would first wait for what the turn is waiting for.
  turn.return = (value) => {
    watchdog.stop();
    return finish(value);
  };
  return turn;
}

async function* playTurn(
  options: ResolvedOptions,
  watchdog: Watchdog,
): AsyncGenerator<LoopEvent, TurnResult> {
  const { input } = options;
  const messages: readonly Message[] = input === undefined ? [] : [{ role: "user", content: input }];
  const turn: Turn = { messages, ledger: EMPTY_LEDGER, text: "" };
  yield { type: "turn_start", ...(input !== undefined && { input }) };
  let ending: Ending;
  try {
    ending = yield* playSteps(options, watchdog, turn);
  } catch (error) {
    ending = endingByError(error, { ...options, watchdog });
  } finally {
    await watchdog.close();
  }
  const { error, ...told } = ending;
  const end: TurnEnd = { ...told, text: turn.text, ledger: options.spent(turn.ledger) };
  yield { type: "turn_end", ...end };
  return { ...end, messages: turn.messages, ...(error !== undefined && { error }) };
}

async function* playSteps(
  options: ResolvedOptions,
  watchdog: Watchdog,
  turn: Turn,
): AsyncGenerator<LoopEvent, Ending> {
  const repeated = new RepeatedCalls();
  if (options.answered.length > 0) {
    turn.messages = yield* runAnswered(repeated, { ...options, step: 1, watchdog });
    watchdog.signal.throwIfAborted();
  }
  const usedUp = options.overBudget(options.spent(turn.ledger));
  if (usedUp !== undefined) return { reason: "budget", message: usedUp };
  const book = (more: TurnLedger) => {
    turn.ledger = addLedgers(turn.ledger, more);
    options.spent(turn.ledger);
  };
  for (let step = 1;; step++) {
    yield { type: "step_start", step };
    yield* steer(options.steering(), turn, step);
    const stepOptions: StepOptions = { ...options, step, watchdog };
    const view = yield* makeView(turn.messages, stepOptions);
    const { costOf } = options;
    if (view.usage) {
      book({ ...EMPTY_LEDGER, ...spentOn(view.usage), ...costOf?.(view.usage) });
    }
    const reply = yield* callModel(view, stepOptions);
    let isHandedOver = false;
    let asked: ToolAnswers["asked"] = [];
    const { message, finishReason, usage } = reply;
    const ledger = view.succeeded?.(usage);
    const cost = costOf?.(usage);
    book({ calls: 1, ...spentOn(usage), saved: view.saved ?? {}, ...cost });
    if (isEmptyReply(message)) {
      yield { type: "warning", message: EMPTY_REPLY };
    } else {
      yield { type: "assistant_message", step, message };
      turn.text = contentText(message.content) || message.refusal || turn.text;
      const calls = message.tool_calls ?? [];
      for (const call of calls) yield { type: "tool_call", step, id: call.id, ...describeCall(call) };
      const isWhole = finishReason === "stop" || finishReason === "tool_calls";
      const done: ToolAnswers = isWhole
        ? yield* runTools(calls, { ...stepOptions, answered: [], repeated, visible: view.messages })
        : { answers: yield* refuseCalls(calls, step, CUT_OFF), asked: [] };
      turn.messages = [...turn.messages, message, ...done.answers];
      isHandedOver = done.answers.length < calls.length;
      asked = done.asked;
    }
    yield { type: "step_end", step, usage, ...(cost && { cost }), finishReason, ...(ledger && { ledger }) };
    for (const one of asked) yield { type: "approval_asked", step, ...one };
    const ending = isHandedOver
      ? { reason: asked.length > 0 ? "approval" : "tool_calls" } as const
      : endingByReply(reply);
    const steering = ending?.reason === "completed" ? options.steering() : [];
    if (ending && steering.length === 0) return ending;
    watchdog.signal.throwIfAborted();
    yield* steer(steering, turn, step);
    const limit = endingByLimit(options.spent(turn.ledger), { ...options, step });
    if (limit) return limit;
  }
}

/** Runs those of the calls that an earlier turn asked for which may run, and gives the answers to all. */
async function* runAnswered(
  repeated: RepeatedCalls,
  options: StepOptions,
): AsyncGenerator<LoopEvent, readonly Message[]> {
  const { answered, history } = options;
  const { answers } = yield* runTools(answered.map(({ call }) => call), {
    ...options,
    clientTools: [],
    repeated,
    visible: history,
  });
  return answers;
}

function spentOn({ promptTokens, cachedTokens, outputTokens, estimated = false }: Usage) {
  return { promptTokens, cachedTokens, outputTokens, estimated };
}

/** Adds what the user said in the middle of the turn. */
function* steer(inputs: readonly Content[], turn: Turn, step: number): Generator<LoopEvent> {
  for (const input of inputs) {
    turn.messages = [...turn.messages, { role: "user", content: input }];
    yield { type: "user_message", step, input };
  }
}

/** Asks the context hook what the next model call sends, and tells what the hook changed. */
async function* makeView(
  messages: readonly Message[],
  { history, input, tools, clientTools, context, step, watchdog }: StepOptions,
): AsyncGenerator<LoopEvent, ContextView> {
  const { signal, progress } = watchdog;
  const view = await watchdog.wait(() =>
    context({
      messages: [...history, ...messages],
      turnStart: activeTurnStart(history, input !== undefined),
      tools: [
        ...[...tools.values()].flatMap(({ tool, isListed }) => isListed ? [tool.definition] : []),
        ...clientTools,
      ],
      step,
      signal,
      progress,
    })
  );
  for (const rewrite of view.rewrites ?? []) yield { type: "context_rewritten", step, ...rewrite };
  for (const message of view.warnings ?? []) yield { type: "warning", message };
  return view;
}

/**
 * Several user messages in a row open one turn: an unanswered one at the end of the history belongs to a turn that
 * starts now. A turn that goes on started with the last user message.
 */
function activeTurnStart(history: readonly Message[], startsNow: boolean): number {
  let start = startsNow ? history.length : history.findLastIndex(({ role }) => role === "user") + 1;
  while (history[start - 1]?.role === "user") start--;
  return start;
}

/**
 * Calls the model once: yields its text and reasoning as they come and returns the whole reply.
 *
 * @throws {ModelError} if the model fails or its stream ends without a reply.
 */
async function* callModel(
  view: View,
  { model, settings, countTokens, step, watchdog }: StepOptions,
): AsyncGenerator<LoopEvent, Reply> {
  const { messages, tools, stable } = view;
  const { signal, progress } = watchdog;
  const events = model({
    messages,
    tools,
    ...(settings && { settings }),
    ...(stable && { stable }),
    signal,
    progress,
  })
    [Symbol.asyncIterator]();
  try {
    for (;;) {
      const { done, value: event } = await watchdog.wait(() => events.next());
      if (done) throw new ModelError("bad_response", "The model's stream ended without a reply.");
      if (event.type === "completed") {
        const { message, finishReason, usage = countUsage(view, message, countTokens) } = event;
        return { message, finishReason, usage };
      }
      if (event.type !== "tool_call_delta") yield { ...event, step };
    }
  } finally {
    // Not awaited: a generator that hangs in next() would never return.
    if (events.return) watchdog.track(events.return());
  }
}

function countUsage(view: View, message: AssistantMessage, countTokens: CountTokens): Usage {
  return {
    promptTokens: countRequestTokens(view, countTokens),
    cachedTokens: 0,
    outputTokens: countMessageTokens(message, countTokens) - MESSAGE_OVERHEAD_TOKENS,
    estimated: true,
  };
}

/** A model's whole reply. */
interface Reply {
  readonly message: AssistantMessage;
  readonly finishReason: FinishReason;
  /** What it cost: as the provider says, or else counted. */
  readonly usage: Usage;
}

/** Why a turn ends, and the error if one was thrown. */
interface Ending extends Pick<TurnEnd, "reason" | "message" | "code"> {
  readonly error?: unknown;
}

/** What people are told of a reply that says nothing. */
const EMPTY_REPLY = "The model's reply was empty.";

/** Whether a reply says nothing and calls nothing. Providers refuse a history that holds one. */
function isEmptyReply({ content, refusal, tool_calls: calls }: AssistantMessage): boolean {
  const said = typeof content === "string" ? content.trim() : content ?? "";
  return said.length === 0 && !refusal && !calls?.length;
}

/** The ending that a reply brings about, or nothing if the turn goes on. */
function endingByReply({ message, finishReason }: Reply): Ending | undefined {
  if (finishReason === "length") {
    return {
      reason: "output_limit",
      message: "The reply was cut off: it reached the provider's limit on output tokens.",
    };
  }
  if (finishReason === "content_filter") {
    return { reason: "model_error", message: "The provider's content filter stopped the reply." };
  }
  if (isEmptyReply(message)) return { reason: "completed", message: EMPTY_REPLY };
  return message.tool_calls?.length ? undefined : { reason: "completed" };
}

/** The ending by the turn's budget or its own limits after a step, or nothing if none is reached. */
function endingByLimit(
  ledger: TurnLedger,
  { step, maxSteps, maxOutputTokens, overBudget }:
    & Pick<ResolvedOptions, "maxSteps" | "maxOutputTokens" | "overBudget">
    & { readonly step: number },
): Ending | undefined {
  const { outputTokens } = ledger;
  const spent = overBudget(ledger);
  if (spent !== undefined) return { reason: "budget", message: spent };
  if (outputTokens >= maxOutputTokens) {
    return {
      reason: "output_limit",
      message: `The turn reached its limit of ${maxOutputTokens} output tokens (it has ${outputTokens}).`,
    };
  }
  if (step >= maxSteps) {
    return { reason: "step_limit", message: `The turn reached its limit of ${maxSteps} model calls.` };
  }
  return undefined;
}

/** The ending when something was thrown: the turn was stopped, the model failed, or there is a bug. */
function endingByError(
  error: unknown,
  { watchdog, idleTimeoutMs }: { readonly watchdog: Watchdog; readonly idleTimeoutMs: number },
): Ending {
  if (watchdog.stalled) {
    return { reason: "stalled", message: `Nothing moved for ${idleTimeoutMs / 1000} s.` };
  }
  if (watchdog.signal.aborted) return { reason: "cancelled", message: "The turn was cancelled." };
  if (error instanceof ModelError) {
    return { reason: "model_error", code: error.code, message: error.message, error };
  }
  return { reason: "internal_error", message: error instanceof Error ? error.message : String(error), error };
}
