import { contentText } from "@tare/messages";
import type { AssistantMessage, Message, ToolCall, ToolMessage } from "@tare/messages";
import { addLedgers, EMPTY_LEDGER } from "./add_ledgers.ts";
import { callModel, type Reply } from "./call_model.ts";
import type { LoopEvent, TurnEnd, TurnLedger } from "./event.ts";
import { makeView } from "./make_view.ts";
import { ModelError } from "./model_error.ts";
import { RepeatedCalls } from "./repeated_calls.ts";
import { describeCall } from "./run_call.ts";
import { resolveOptions, type RunOptions, type Settings } from "./run_options.ts";
import { resultEvent, runTools } from "./run_tools.ts";
import { Watchdog } from "./watchdog.ts";

/** How a turn ended and what it left. */
export interface TurnResult extends TurnEnd {
  /**
   * What the turn adds to the history: the user message, and each reply with the answers to all its calls. A reply
   * that was broken off, or was empty, is not in it.
   */
  readonly messages: readonly Message[];
  /** What was thrown, if the turn ended by an error; for a log, not for clients. */
  readonly error?: unknown;
}

/** What changes in the course of a turn. */
interface Turn {
  messages: readonly Message[];
  ledger: TurnLedger;
  text: string;
}

const EMPTY_REPLY = "The model's reply was empty.";

type Ending = Pick<TurnResult, "reason" | "message" | "code" | "error">;

/**
 * Runs one turn: calls the model, runs the tools that it calls, and goes on until it answers without a call.
 *
 * The events of a step are `step_start`, `context_rewritten` and `warning`, deltas, `assistant_message`, `tool_call`
 * (in the order of the calls), `tool_result` (as each ends), `step_end`; a step whose reply was broken off has no
 * `step_end`. A turn starts with `turn_start` and ends with exactly one `turn_end`, whatever fails: the model, a tool,
 * the context hook. When the turn is stopped by its signal, calls that have no answer yet are answered with an error,
 * so that the history stays whole. Leaving the loop over the events stops everything too, but then nobody gets the
 * result.
 *
 * @throws {TypeError} if two tools have one name, or a tool's parameters are no JSON Schema.
 * @throws {RangeError} if a limit is out of its range.
 */
export function run(options: RunOptions): AsyncGenerator<LoopEvent, TurnResult> {
  const settings = resolveOptions(options);
  const watchdog = new Watchdog(settings);
  const turn = playTurn(settings, watchdog);
  const finish = turn.return.bind(turn);
  // By itself, return() would first wait for what the turn is waiting for.
  turn.return = (value) => {
    watchdog.stop();
    return finish(value);
  };
  return turn;
}

async function* playTurn(settings: Settings, watchdog: Watchdog): AsyncGenerator<LoopEvent, TurnResult> {
  const { input } = settings;
  const turn: Turn = { messages: [{ role: "user", content: input }], ledger: EMPTY_LEDGER, text: "" };
  yield { type: "turn_start", input };
  let ending: Ending;
  try {
    ending = yield* playSteps(settings, watchdog, turn);
  } catch (error) {
    ending = failure(error, settings, watchdog);
  } finally {
    await watchdog.close();
  }
  const { error, ...told } = ending;
  const end: TurnEnd = { ...told, text: turn.text, ledger: turn.ledger };
  yield { type: "turn_end", ...end };
  return { ...end, messages: turn.messages, ...(error !== undefined && { error }) };
}

async function* playSteps(
  settings: Settings,
  watchdog: Watchdog,
  turn: Turn,
): AsyncGenerator<LoopEvent, Ending> {
  const repeated = new RepeatedCalls();
  for (let step = 1;; step++) {
    yield { type: "step_start", step };
    const view = yield* makeView(settings, { messages: turn.messages, step, watchdog });
    const reply = yield* callModel(view, { ...settings, step, watchdog });
    const { message, finishReason, usage } = reply;
    turn.ledger = addLedgers(turn.ledger, {
      calls: 1,
      promptTokens: usage.promptTokens,
      cachedTokens: usage.cachedTokens,
      outputTokens: usage.outputTokens,
      saved: view.saved ?? {},
      estimated: usage.estimated ?? false,
    });
    if (isEmpty(message)) {
      yield { type: "warning", message: EMPTY_REPLY };
    } else {
      yield { type: "assistant_message", step, message };
      turn.text = textOf(message) || turn.text;
      const calls = message.tool_calls ?? [];
      for (const call of calls) yield { type: "tool_call", step, id: call.id, ...describeCall(call) };
      const answers = isWhole(reply)
        ? yield* runTools(calls, { ...settings, step, repeated, visible: view.messages, watchdog })
        : yield* refuse(calls, step);
      turn.messages = [...turn.messages, message, ...answers];
    }
    yield { type: "step_end", step, usage, finishReason };
    const ending = endingOf(reply);
    if (ending) return ending;
    watchdog.signal.throwIfAborted();
    const limit = limitReached(settings, turn.ledger, step);
    if (limit) return limit;
  }
}

/** A reply that was cut off may hold half-made calls. */
function isWhole({ finishReason }: Reply): boolean {
  return finishReason === "stop" || finishReason === "tool_calls";
}

/** Providers refuse a history with a reply that says nothing. */
function isEmpty({ content, refusal, tool_calls: calls }: AssistantMessage): boolean {
  const said = typeof content === "string" ? content.trim() : content ?? "";
  return said.length === 0 && !refusal && !calls?.length;
}

function textOf({ content, refusal }: AssistantMessage): string {
  return contentText(content) || (refusal ?? "");
}

function* refuse(calls: readonly ToolCall[], step: number): Generator<LoopEvent, readonly ToolMessage[]> {
  const answers: ToolMessage[] = [];
  for (const call of calls) {
    const content =
      `Cannot run ${describeCall(call).name}: the reply was cut off, so that its calls may be ` +
      "incomplete and none was run. Make the call again.";
    answers.push({ role: "tool", tool_call_id: call.id, content });
    yield resultEvent(step, call, { content, error: true, durationMs: 0 });
  }
  return answers;
}

function endingOf({ message, finishReason }: Reply): Ending | undefined {
  if (finishReason === "length") {
    return {
      reason: "output_limit",
      message: "The reply was cut off: it reached the provider's limit on output tokens.",
    };
  }
  if (finishReason === "content_filter") {
    return { reason: "model_error", message: "The provider's content filter stopped the reply." };
  }
  if (isEmpty(message)) return { reason: "completed", message: EMPTY_REPLY };
  return message.tool_calls?.length ? undefined : { reason: "completed" };
}

function limitReached(
  { maxOutputTokens, maxSteps }: Settings,
  { outputTokens }: TurnLedger,
  step: number,
): Ending | undefined {
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

function failure(error: unknown, { idleTimeoutMs }: Settings, watchdog: Watchdog): Ending {
  if (watchdog.stalled) {
    return { reason: "stalled", message: `Nothing moved for ${idleTimeoutMs / 1000} s.` };
  }
  if (watchdog.signal.aborted) return { reason: "cancelled", message: "The turn was cancelled." };
  if (error instanceof ModelError) {
    return { reason: "model_error", code: error.code, message: error.message, error };
  }
  return { reason: "internal_error", message: error instanceof Error ? error.message : String(error), error };
}
