import { type Content, contentText, describeCall, type Message } from "@tare/messages";
import { addLedgers, EMPTY_LEDGER } from "./add_ledgers.ts";
import { callModel } from "./call_model.ts";
import type { LoopEvent, TurnEnd, TurnLedger } from "./event.ts";
import {
  EMPTY_REPLY,
  type Ending,
  endingByError,
  endingByLimit,
  endingByReply,
  isEmptyReply,
} from "./ending.ts";
import { makeView } from "./make_view.ts";
import { RepeatedCalls } from "./repeated_calls.ts";
import { resolveOptions, type RunOptions, type Settings } from "./run_options.ts";
import { refuseCalls, runTools } from "./run_tools.ts";
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
  const messages: readonly Message[] = input === undefined ? [] : [{ role: "user", content: input }];
  const turn: Turn = { messages, ledger: EMPTY_LEDGER, text: "" };
  yield { type: "turn_start", ...(input !== undefined && { input }) };
  let ending: Ending;
  try {
    ending = yield* playSteps(settings, watchdog, turn);
  } catch (error) {
    ending = endingByError(error, { ...settings, watchdog });
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
  const spent = settings.overBudget(turn.ledger);
  if (spent !== undefined) return { reason: "budget", message: spent };
  for (let step = 1;; step++) {
    yield { type: "step_start", step };
    yield* steer(settings.steering(), turn, step);
    const view = yield* makeView(settings, { messages: turn.messages, step, watchdog });
    const reply = yield* callModel(view, { ...settings, step, watchdog });
    const { message, finishReason, usage } = reply;
    const ledger = view.succeeded?.(usage);
    turn.ledger = addLedgers(turn.ledger, {
      calls: 1,
      promptTokens: usage.promptTokens,
      cachedTokens: usage.cachedTokens,
      outputTokens: usage.outputTokens,
      saved: view.saved ?? {},
      estimated: usage.estimated ?? false,
    });
    if (isEmptyReply(message)) {
      yield { type: "warning", message: EMPTY_REPLY };
    } else {
      yield { type: "assistant_message", step, message };
      turn.text = contentText(message.content) || message.refusal || turn.text;
      const calls = message.tool_calls ?? [];
      for (const call of calls) yield { type: "tool_call", step, id: call.id, ...describeCall(call) };
      const answers = finishReason === "stop" || finishReason === "tool_calls"
        ? yield* runTools(calls, { ...settings, step, repeated, visible: view.messages, watchdog })
        : yield* refuseCalls(calls, step);
      turn.messages = [...turn.messages, message, ...answers];
    }
    yield { type: "step_end", step, usage, finishReason, ...(ledger && { ledger }) };
    const ending = endingByReply(reply);
    const steering = ending?.reason === "completed" ? settings.steering() : [];
    if (ending && steering.length === 0) return ending;
    watchdog.signal.throwIfAborted();
    yield* steer(steering, turn, step);
    const limit = endingByLimit(turn.ledger, settings);
    if (limit) return limit;
  }
}

/** Adds what the user said in the middle of the turn. */
function* steer(inputs: readonly Content[], turn: Turn, step: number): Generator<LoopEvent> {
  for (const input of inputs) {
    turn.messages = [...turn.messages, { role: "user", content: input }];
    yield { type: "user_message", step, input };
  }
}
