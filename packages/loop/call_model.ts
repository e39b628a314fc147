import {
  type AssistantMessage,
  countMessageTokens,
  countRequestTokens,
  type CountTokens,
  MESSAGE_OVERHEAD_TOKENS,
  type Usage,
} from "@tare/messages";
import type { LoopEvent } from "./event.ts";
import type { FinishReason, Model, ModelRequest } from "@tare/messages";
import { ModelError } from "./model_error.ts";
import type { Watchdog } from "./watchdog.ts";

/** A model's whole reply. */
export interface Reply {
  /** What it said. */
  readonly message: AssistantMessage;
  /** Why it stopped. */
  readonly finishReason: FinishReason;
  /** What it cost: as the provider says, or else counted. */
  readonly usage: Usage;
}

/** What the model is sent. */
type View = Pick<ModelRequest, "messages" | "tools">;

/** What a model call needs beside its prompt. */
export interface CallModelOptions {
  /** Answers. */
  readonly model: Model;
  /** Number of the step, for the events. */
  readonly step: number;
  /** Counts usage that the provider doesn't report. */
  readonly countTokens: CountTokens;
  /** Watches over the wait. */
  readonly watchdog: Watchdog;
}

/**
 * Calls the model once: yields its text and reasoning as they come and returns the whole reply.
 *
 * @throws {ModelError} if the model fails or its stream ends without a reply.
 */
export async function* callModel(
  view: View,
  { model, step, countTokens, watchdog }: CallModelOptions,
): AsyncGenerator<LoopEvent, Reply> {
  const { messages, tools } = view;
  const { signal, progress } = watchdog;
  const events = model({ messages, tools, signal, progress })[Symbol.asyncIterator]();
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

function countUsage(
  view: View,
  message: AssistantMessage,
  countTokens: CountTokens,
): Usage {
  return {
    promptTokens: countRequestTokens(view, countTokens),
    cachedTokens: 0,
    outputTokens: countMessageTokens(message, countTokens) - MESSAGE_OVERHEAD_TOKENS,
    estimated: true,
  };
}
