import { checkGiven } from "./check_given.ts";
import { describeCall, type Message, type ToolCall, type ToolMessage } from "./message.ts";

/** Name of the tool that stands for others: a call of it names the tool that is meant, and holds that one's arguments. */
export const CALL_TOOL_NAME = "call_tool";

/**
 * Name and arguments of the call that is meant: where it is one of `call_tool`, those of the tool that it names; of
 * any other, and of one that names none, its own.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { meantCall } from "@tare/messages";
 *
 * const inner = '{"name":"read_file","arguments":{"path":"a.txt"}}';
 * const call = { id: "1", type: "function", function: { name: "call_tool", arguments: inner } } as const;
 * assertEquals(meantCall(call), { name: "read_file", arguments: '{"path":"a.txt"}' });
 * ```
 */
export function meantCall(call: ToolCall): { readonly name: string; readonly arguments: string } {
  const made = describeCall(call);
  if (made.name !== CALL_TOOL_NAME) return made;
  try {
    const { name, arguments: args = {} } = JSON.parse(made.arguments);
    if (typeof name === "string") return { name, arguments: JSON.stringify(args) };
  } catch {
    // Whoever runs it tells the model what is wrong.
  }
  return made;
}

/**
 * All calls of a conversation, in order, each with its answer. Ids may repeat, within a message and over messages, and
 * may be empty: an answer takes, of the newest message that has an unanswered call of its id, the first unanswered
 * call. An answer that finds none belongs to no call.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { type Message, pairCalls } from "@tare/messages";
 *
 * const call = { id: "1", type: "function", function: { name: "clock", arguments: "{}" } } as const;
 * const message = { role: "tool", tool_call_id: "1", content: "noon" } as const;
 * const messages: Message[] = [{ role: "assistant", tool_calls: [call] }, message];
 * assertEquals(pairCalls(messages), [{ call, at: 0, answer: { at: 1, message } }]);
 * ```
 */
export function pairCalls(messages: readonly Message[]): CallPairing["pairs"] {
  checkGiven("pairCalls()", { messages }, { messages: "array" });
  const pairing = new CallPairing();
  for (const message of messages) pairing.add(message);
  return pairing.pairs;
}

/** Pairs the calls of a growing conversation (see {@linkcode pairCalls}), message by message. */
export class CallPairing {
  /** All calls so far. Positions are those of the messages. */
  readonly pairs: {
    /** The call as the model made it. */
    readonly call: ToolCall;
    /** Position of the assistant message that made it. */
    readonly at: number;
    /** Absent as long as nothing answers it. */
    readonly answer?: { readonly at: number; readonly message: ToolMessage };
  }[] = [];
  /** Places in `pairs` of the open calls of each id: a list for each message that made some. */
  readonly #open = new Map<string, number[][]>();
  #length = 0;

  /** Takes the next message, and gives the call that it answers. */
  add(message: Message): CallPairing["pairs"][number] | undefined {
    const at = this.#length++;
    if (message.role === "assistant") {
      for (const call of message.tool_calls ?? []) {
        const place = this.pairs.push({ call, at }) - 1;
        const lists = this.#open.get(call.id);
        if (!lists) this.#open.set(call.id, [[place]]);
        else if (this.pairs[lists.at(-1)?.[0] ?? -1]?.at === at) lists.at(-1)?.push(place);
        else lists.push([place]);
      }
    } else if (message.role === "tool") {
      const lists = this.#open.get(message.tool_call_id);
      const place = lists?.at(-1)?.shift();
      const pair = this.pairs[place ?? -1];
      if (place === undefined || !pair) return undefined;
      if (lists?.at(-1)?.length === 0) lists.pop();
      return this.pairs[place] = { ...pair, answer: { at, message } };
    }
    return undefined;
  }
}
