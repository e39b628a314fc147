import type { Message } from "@tare/messages";

/**
 * Why a result left the prompt: `superseded` by a later result, `old` (behind the protected tail), or `bound`,
 * cut to head and tail because it was too long when it arrived.
 */
export type ElisionReason = "superseded" | "old" | "bound";

/**
 * One tool result whose text gives way to a shorter one. Plain data: it can be stored, and applied again to the
 * same history gives the same bytes. Its original stands in the archive.
 */
export interface Elision {
  /** Position of the result in the messages. */
  readonly index: number;
  /** Its `tool_call_id`, as a check that the index still means the same message. */
  readonly toolCallId: string;
  /** Name of the tool that gave it. */
  readonly tool: string;
  /** Archive reference of the original. */
  readonly ref: string;
  /** What stands in the message instead. */
  readonly text: string;
  /** Tokens of the message before. */
  readonly tokensBefore: number;
  /** Tokens of the message after. */
  readonly tokensAfter: number;
  /** Why it went. */
  readonly reason: ElisionReason;
}

/**
 * The messages with each elision's text in place of the result's content; everything else is the same object. Meant
 * to be applied to a growing history again and again: an elided message is made once and then reused. Of several
 * elisions of the same message the last counts.
 *
 * @throws {RangeError} if an elision points to anything but the tool result that it was made for.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { applyElisions } from "@tare/prune";
 *
 * const messages = applyElisions(
 *   [{ role: "tool", tool_call_id: "a", content: "long" }],
 *   [{ index: 0, toolCallId: "a", text: "short" }],
 * );
 * assertEquals(messages[0]?.content, "short");
 * ```
 */
export function applyElisions<M extends Message>(
  messages: readonly M[],
  elisions: readonly Pick<Elision, "index" | "toolCallId" | "text">[],
): M[] {
  const view = [...messages];
  for (const { index, toolCallId, text } of elisions) {
    const message = messages[index];
    if (message?.role !== "tool" || message.tool_call_id !== toolCallId) {
      throw new RangeError(`Cannot elide message ${index}: it is no tool result with the id '${toolCallId}'`);
    }
    view[index] = withText(message, text);
  }
  return view;
}

const elided = new WeakMap<Message, Message>();

function withText<M extends Message>(message: M, text: string): M {
  if (message.content === text) return message;
  let result = elided.get(message);
  if (result?.content !== text) elided.set(message, result = { ...message, content: text });
  return result as M;
}
