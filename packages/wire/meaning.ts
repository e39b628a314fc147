/**
 * Normal form of items, and detection of failed results.
 * @module
 */
import { type Content, contentText, type ToolMessage } from "@tare/messages";
import { exitCodeIn } from "@tare/messages/internal";
import { isRecord, type JsonRecord } from "./json.ts";

/** Meaningless fields, sent back inconsistently. */
const MEANINGLESS_FIELDS: readonly string[] = ["annotations", "logprobs"];

/** Prefix of a client's private fields, sent inconsistently. */
const NOTE = "_";

const MAX_DEPTH = 200;

/** Numbers that lose precision when parsed. */
const INEXACT = /\d{16}|\d[eE][+-]?\d{3}/;

export function isNothing(value: unknown): boolean {
  return value === null || value === undefined || value === "" ||
    (Array.isArray(value) && value.length === 0);
}

/** Returns meaningful fields. */
export function meaningfulFields(record: JsonRecord, without: readonly string[] = []): JsonRecord {
  const isMeaningful = (name: string) =>
    !name.startsWith(NOTE) && !MEANINGLESS_FIELDS.includes(name) && !without.includes(name);
  return Object.fromEntries(
    Object.entries(record).filter(([name, value]) => isMeaningful(name) && !isNothing(value)),
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

/** Returns the meaning of content: joined, trimmed texts and the fields of other parts. */
export function meaningfulParts(
  content: unknown,
  meaning: (part: JsonRecord) => unknown = meaningfulFields,
): unknown[] {
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
      all.push(isRecord(part) ? inOrder(meaning(part)) : [part]);
    } else if (text !== "") texts.push(text);
  }
  endText();
  return all;
}

function plainText(part: unknown): string | undefined {
  if (typeof part === "string") return part;
  if (!isRecord(part) || part.type !== "text" || typeof part.text !== "string") return undefined;
  return Object.keys(meaningfulFields(part, ["type", "text"])).length === 0 ? part.text : undefined;
}

/** Returns a single text as a string; other content unchanged. */
export function plainContent<T>(content: T): T | string {
  if (!Array.isArray(content) || content.length !== 1) return content;
  return plainText(content[0]) ?? content;
}

/** Returns the meaning of JSON arguments; invalid JSON as text. */
export function argumentsMeaning(text: string): unknown {
  if (INEXACT.test(text)) return { text };
  try {
    return { json: inOrder(JSON.parse(text.trim() || "{}")) };
  } catch {
    return { text };
  }
}

/**
 * Returns whether a result reports failure: by a protocol's flag, or by an exit code in a line of its own or
 * a JSON field. Empty if unknown.
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
