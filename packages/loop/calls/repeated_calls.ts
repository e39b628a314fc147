import { describeCall, type Message, type ToolCall } from "@tare/messages";
import type { CallOutcome } from "./run_call.ts";

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
    message.role === "tool" && message.tool_call_id === id && message.content === content
  );
}
