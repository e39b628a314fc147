import type { Message } from "@tare/messages";
import { checkGiven, pairCalls } from "@tare/messages/internal";

/** A range of messages: one or more user messages and everything up to the next. */
export interface Turn {
  /** Index of its first message. */
  readonly start: number;
  /** Index of the first message after it. */
  readonly end: number;
}

/**
 * Groups a conversation into turns, oldest first. The last one is the active turn.
 *
 * A turn is a user message, or several in a row, and all that follows up to the next. What comes before the first
 * user message is a turn of its own; a conversation without any user message is one turn. System and developer
 * messages belong to no turn: those before the first turn are in no range, those further on lie inside ranges
 * without ending anything. A user message between a call and its answer opens no turn: calls and their answers
 * stay together.
 *
 * @param activeTurnStart Index of the first message of the active turn, which then reaches to the end, whatever it
 * holds. It may be `messages.length`, if nothing of the turn is stored yet. If a call in front of it is answered
 * behind it, the active turn begins with the turn of that call.
 * @throws {RangeError} if `activeTurnStart` is no index of `messages`, nor their number.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { groupTurns } from "@tare/context";
 *
 * const messages = (["user", "assistant", "user"] as const).map((role) => ({ role, content: "" }));
 * assertEquals(groupTurns(messages), [{ start: 0, end: 2 }, { start: 2, end: 3 }]);
 * ```
 */
export function groupTurns(messages: readonly Message[], activeTurnStart?: number): readonly Turn[] {
  checkGiven("groupTurns()", { messages }, { messages: "messages" });
  const { length } = messages;
  const before = activeTurnStart ?? length;
  if (!Number.isInteger(before) || before < 0 || before > length) {
    throw new RangeError(
      `Cannot group turns: activeTurnStart is ${activeTurnStart}, it must be an integer from 0 to ${length}`,
    );
  }
  const starts = findStarts(messages.slice(0, before));
  if (activeTurnStart !== undefined) starts.push(activeTurnStart);
  const whole = withoutThoseInsidePairs(starts, messages);
  return whole.map((start, i) => ({ start, end: whole[i + 1] ?? length }));
}

/** True of the messages that are core context wherever they stand: those of the operator. */
export function isInstruction(message: Message): boolean {
  return message.role === "system" || message.role === "developer";
}

function findStarts(messages: readonly Message[]): number[] {
  const starts: number[] = [];
  let previous: Message["role"] | undefined;
  messages.forEach((message, at) => {
    if (isInstruction(message)) return;
    if (previous === undefined || message.role === "user" && previous !== "user") starts.push(at);
    previous = message.role;
  });
  return starts;
}

function withoutThoseInsidePairs(starts: readonly number[], messages: readonly Message[]): readonly number[] {
  const pairs = pairCalls(messages);
  let next = 0;
  let answeredUpTo = -1;
  return starts.filter((start) => {
    for (let pair = pairs[next]; pair && pair.at < start; pair = pairs[++next]) {
      answeredUpTo = Math.max(answeredUpTo, pair.answer?.at ?? -1);
    }
    return answeredUpTo < start;
  });
}
