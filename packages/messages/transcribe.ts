import { describeCall } from "./calls.ts";
import { type Content, contentText, type Message, type ToolCall } from "./message.ts";

/**
 * A message as text that reads well and can be searched line by line: who says it, its text, its calls with their
 * arguments. Line breaks stand as they are, not escaped as in JSON. Of pictures and the like only the kind is named.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { transcribe } from "@tare/messages";
 *
 * const call = { name: "edit_file", arguments: '{"path":"a.ts","new_text":"one\\ntwo"}' };
 * assertEquals(
 *   transcribe({ role: "assistant", tool_calls: [{ id: "1", type: "function", function: call }] }),
 *   "assistant:\ncalls edit_file\npath: a.ts\nnew_text: one\ntwo",
 * );
 * ```
 */
export function transcribe(message: Message): string {
  const { role, content } = message;
  const others = Array.isArray(content)
    ? content.flatMap(({ type }) => isText(type) ? [] : [`(${type})`])
    : [];
  const calls = message.role === "assistant" ? message.tool_calls ?? [] : [];
  return [`${role}:`, contentText(content), ...others, ...calls.map(transcribeCall)].filter(Boolean).join(
    "\n",
  );
}

function isText(type: string): boolean {
  return type === "text" || type === "refusal";
}

function transcribeCall(call: ToolCall): string {
  const { name, arguments: input } = describeCall(call);
  return [`calls ${name}`, ...argumentLines(input)].join("\n");
}

function argumentLines(input: string): string[] {
  try {
    const values: unknown = JSON.parse(input);
    if (typeof values !== "object" || values === null || Array.isArray(values)) return [input];
    return Object.entries(values).map(([name, value]) =>
      `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`
    );
  } catch {
    // Free text, or JSON that a model has spoilt.
    return [input];
  }
}

/**
 * What a message begins with, in one line: at most 120 UTF-16 code units, no character cut in two.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { firstWords } from "@tare/messages";
 *
 * assertEquals(firstWords("Find it,\n  please."), "Find it, please.");
 * ```
 */
export function firstWords(content: Content | null | undefined): string {
  const line = contentText(content).slice(0, 10 * MAX_CHARS).replaceAll(/\s+/g, " ").trim();
  return line.slice(0, MAX_CHARS).toWellFormed().replace(/\ufffd$/, "");
}

const MAX_CHARS = 120;
