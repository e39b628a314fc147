import type { Message } from "@tare/messages";

export interface CallPairs {
  /** Assistant message and answering tool message of each answered call. */
  readonly pairs: readonly { readonly call: number; readonly answer: number }[];
  /** Assistant messages, once for each unanswered call. */
  readonly unanswered: readonly number[];
  /** Tool messages that answer no call. */
  readonly orphans: readonly number[];
}

/**
 * Matches answers to the latest earlier open call of the same id, also for empty or repeated ids.
 *
 * A conversation is complete if `unanswered` and `orphans` are empty.
 */
export function callPairs(messages: readonly Message[]): CallPairs {
  const open: { at: number; id: string }[] = [];
  const pairs: { call: number; answer: number }[] = [];
  const orphans: number[] = [];
  messages.forEach((message, at) => {
    if (message.role === "assistant") {
      for (const call of message.tool_calls ?? []) open.push({ at, id: call.id });
    } else if (message.role === "tool") {
      const found = open.findLastIndex((call) => call.id === message.tool_call_id);
      const [call] = found < 0 ? [] : open.splice(found, 1);
      if (call) pairs.push({ call: call.at, answer: at });
      else orphans.push(at);
    }
  });
  return { pairs, unanswered: open.map((call) => call.at), orphans };
}
