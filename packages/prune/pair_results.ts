import { contentText, type Message, type ToolCall, type ToolMessage } from "@tare/messages";

/** A tool call as pruning sees it. */
export interface Call {
  readonly id: string;
  /** Name of the tool. */
  readonly tool: string;
  /** The same for calls with the same arguments, whatever the order of keys and the spacing. */
  readonly key: string;
  /** The arguments that are short texts: paths, references. */
  readonly args: ReadonlyMap<string, string>;
}

/** A tool message and the call that it answers. */
export interface PairedResult {
  readonly index: number;
  readonly message: ToolMessage;
  readonly call: Call;
}

/**
 * Finds the call of each tool message. Ids may repeat, also within one assistant message, and may be empty: each
 * answer takes the first call with its id that has none yet, of the last assistant message that used the id.
 * Results without a call are left out.
 */
export function pairResults(messages: readonly Message[]): PairedResult[] {
  const results: PairedResult[] = [];
  const unanswered = new Map<string, Call[]>();
  for (const [index, message] of messages.entries()) {
    if (message.role === "assistant") {
      if (message.tool_calls === undefined) continue;
      const calls = callsOf(message.tool_calls);
      for (const call of calls) unanswered.set(call.id, []);
      for (const call of calls) unanswered.get(call.id)?.push(call);
    } else if (message.role === "tool") {
      const call = unanswered.get(message.tool_call_id)?.shift();
      if (call !== undefined) results.push({ index, message, call });
    }
  }
  return results;
}

/** The text of a result; `undefined` if it holds anything but text, which pruning leaves alone. */
export function resultText(message: ToolMessage): string | undefined {
  const { content } = message;
  if (typeof content === "string") return content;
  return content.every((part) => part.type === "text") ? contentText(content) : undefined;
}

/** Arguments longer than this are kept and compared as the model wrote them: nobody reads them as a path. */
const SHORT_CHARS = 1024;

const known = new WeakMap<readonly ToolCall[], readonly Call[]>();

function callsOf(toolCalls: readonly ToolCall[]): readonly Call[] {
  let calls = known.get(toolCalls);
  if (calls === undefined) known.set(toolCalls, calls = toolCalls.map(readCall));
  return calls;
}

function readCall(call: ToolCall): Call {
  if (call.type === "custom") {
    return { id: call.id, tool: call.custom.name, key: call.custom.input, args: new Map() };
  }
  const { name: tool, arguments: text } = call.function;
  try {
    const value: unknown = JSON.parse(text);
    const args = new Map(Object.entries(value ?? {}).filter(isShortText));
    return { id: call.id, tool, key: text.length > SHORT_CHARS ? text : canonicalJson(value), args };
  } catch {
    // Arguments that are no JSON, or nested too deep to walk, are equal only to the same text.
    return { id: call.id, tool, key: text, args: new Map() };
  }
}

function isShortText(entry: [string, unknown]): entry is [string, string] {
  return typeof entry[1] === "string" && entry[1].length <= SHORT_CHARS;
}

function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_, inner) => {
    if (typeof inner !== "object" || inner === null || Array.isArray(inner)) return inner;
    return Object.fromEntries(Object.entries(inner).sort(([a], [b]) => a < b ? -1 : 1));
  });
}
