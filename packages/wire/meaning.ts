/**
 * Normal form of items, by which spellings are compared, and detection of failed results.
 * @module
 */
import { type Content, contentText, type ToolMessage } from "@tare/messages";
import { exitCodeIn } from "@tare/messages/internal";
import { isRecord, type JsonRecord } from "./json.ts";

/** Fields without meaning, which clients send back inconsistently. */
const UNTOLD: readonly string[] = ["annotations", "logprobs"];

/** Prefix of a program's own fields, which some programs add in one process and omit in the next. */
const NOTE = "_";

/** Deepest nesting of compared values. */
const MAX_DEPTH = 200;

/** Numbers that lose precision when parsed. */
const INEXACT = /\d{16}|\d[eE][+-]?\d{3}/;

/** Returns whether an optional field with this value equals an absent one. */
export function isNothing(value: unknown): boolean {
  return value === null || value === undefined || value === "" ||
    (Array.isArray(value) && value.length === 0);
}

/** Returns the meaningful fields, except the given ones. */
export function toldFields(record: JsonRecord, without: readonly string[] = []): JsonRecord {
  const isTold = (name: string) =>
    !name.startsWith(NOTE) && !UNTOLD.includes(name) && !without.includes(name);
  return Object.fromEntries(
    Object.entries(record).filter(([name, value]) => isTold(name) && !isNothing(value)),
  );
}

/** Returns a value with sorted object fields. @throws {RangeError} if it is nested too deeply. */
export function inOrder(value: unknown, depth = 0): unknown {
  if (depth > MAX_DEPTH) {
    throw new RangeError(`Cannot compare a value: it is nested more than ${MAX_DEPTH} deep`);
  }
  if (Array.isArray(value)) return value.map((one) => inOrder(one, depth + 1));
  if (!isRecord(value)) return value;
  const sorted = Object.entries(value).toSorted(([a], [b]) => a < b ? -1 : 1);
  return Object.fromEntries(sorted.map(([name, field]) => [name, inOrder(field, depth + 1)]));
}

/**
 * Returns the meaning of content: adjacent texts joined by newlines and trimmed, and the fields of other
 * parts.
 */
export function saidParts(content: unknown, said: (part: JsonRecord) => unknown = toldFields): unknown[] {
  const parts: readonly unknown[] = Array.isArray(content) ? content : [content];
  const all: unknown[] = [];
  let texts: string[] = [];
  const endText = () => {
    const text = texts.join("\n").trim();
    texts = [];
    if (text !== "") all.push(text);
  };
  for (const part of parts) {
    if (isNothing(part)) continue;
    const text = plainText(part);
    if (text === undefined) {
      endText();
      all.push(isRecord(part) ? inOrder(said(part)) : [part]);
    } else if (text !== "") texts.push(text);
  }
  endText();
  return all;
}

/** Returns the text of a part that only consists of it. */
function plainText(part: unknown): string | undefined {
  if (typeof part === "string") return part;
  if (!isRecord(part) || part.type !== "text" || typeof part.text !== "string") return undefined;
  return Object.keys(toldFields(part, ["type", "text"])).length === 0 ? part.text : undefined;
}

/** Returns content of a single text as that text; other content unchanged. */
export function plainContent<T>(content: T): T | string {
  if (!Array.isArray(content) || content.length !== 1) return content;
  return plainText(content[0]) ?? content;
}

/** Returns the meaning of a call's JSON arguments; invalid JSON as text. */
export function saidArguments(text: string): unknown {
  if (INEXACT.test(text)) return { text };
  try {
    return { json: inOrder(JSON.parse(text.trim() || "{}")) };
  } catch {
    // Invalid JSON of a model, which clients send back unchanged.
    return { text };
  }
}

/**
 * Returns whether a result reports that its call failed: by a flag of the protocol, or else by an exit code
 * that clients add to the output, in a line of its own or a JSON field. Empty if unknown.
 * @param flag The protocol's flag. Default: unknown.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { statedFailure } from "@tare/wire/internal";
 *
 * assertEquals(statedFailure("Exit code: 2\nOutput:\nNo such file."), { failed: true });
 * assertEquals(statedFailure('{"output":"Error: 0","metadata":{"exit_code":0}}'), { failed: false });
 * assertEquals(statedFailure("Exit code: 2", false), { failed: false });
 * assertEquals(statedFailure("Error: 0"), {});
 * ```
 */
export function statedFailure(content: Content, flag?: boolean): Pick<ToolMessage, "failed"> {
  if (flag !== undefined) return { failed: flag };
  const code = exitCodeIn(contentText(content));
  return code === undefined ? {} : { failed: code !== 0 };
}
