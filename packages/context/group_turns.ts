import type { Message } from "@tare/messages";
import { checkGiven, pairCalls } from "@tare/messages/internal";

/** Range of messages: one or more user messages and everything up to the next. */
export interface Turn {
  /** Index of its first message. */
  readonly start: number;
  /** Index of the first message after it. */
  readonly end: number;
}

/**
 * Groups a conversation into turns, oldest first. The last one is the active turn.
 *
 * A turn is a user message, or several in a row, and everything up to the next. Messages before the first
 * user message form a turn; so does a conversation without user messages. System and developer messages
 * neither start nor end a turn: leading ones are in no range. A user message between a call and its answer
 * starts no turn.
 *
 * @param activeTurnStart Index of the first message of the active turn, which reaches to the end;
 * `messages.length` if nothing of it is stored yet. If a call before it is answered after it, the active turn
 * starts with that call's turn.
 * @throws {RangeError} if `activeTurnStart` is no integer from 0 to `messages.length`.
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

/** Returns whether a message is a system or developer message, which every view retains. */
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
