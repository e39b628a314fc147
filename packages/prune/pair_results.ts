import {
  contentText,
  meantCall,
  type Message,
  pairCalls,
  type ToolCall,
  type ToolMessage,
} from "@tare/messages";

/** A tool call as pruning sees it. */
export interface ParsedCall {
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
  readonly call: ParsedCall;
}

/** The results whose calls are known, in order, each with its call (see `pairCalls`). */
export function pairResults(messages: readonly Message[]): PairedResult[] {
  return pairCalls(messages)
    .flatMap(({ call, answer }) =>
      answer ? [{ index: answer.at, message: answer.message, call: readCall(call) }] : []
    )
    .sort((a, b) => a.index - b.index);
}

/** The text of a result; `undefined` if it has to stay, or holds anything but text, which pruning leaves alone. */
export function resultText({ content, keep }: ToolMessage): string | undefined {
  if (keep) return undefined;
  if (typeof content === "string") return content;
  return content.every((part) => part.type === "text") ? contentText(content) : undefined;
}

/** Arguments longer than this are kept and compared as the model wrote them: nobody reads them as a path. */
const SHORT_CHARS = 1024;

const known = new WeakMap<ToolCall, ParsedCall>();

function readCall(call: ToolCall): ParsedCall {
  let read = known.get(call);
  if (!read) known.set(call, read = parseCall(call));
  return read;
}

function parseCall(call: ToolCall): ParsedCall {
  const { name: tool, arguments: text } = meantCall(call);
  if (call.type === "custom") return { tool, key: text, args: new Map() };
  try {
    const value: unknown = JSON.parse(text);
    const args = new Map(Object.entries(value ?? {}).filter(isShortText));
    return { tool, key: text.length > SHORT_CHARS ? text : canonicalJson(value), args };
  } catch {
    // Arguments that are no JSON, or nested too deep to walk, are equal only to the same text.
    return { tool, key: text, args: new Map() };
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
