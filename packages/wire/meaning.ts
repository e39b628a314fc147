/**
 * What items say, however their clients spell them: the normal form by which they are told apart, and whether a result
 * says that its call failed.
 *
 * @module
 */
import { type Content, contentText, type ToolMessage } from "@tare/messages";
import { exitCodeIn } from "@tare/messages/internal";
import { isRecord, type JsonRecord } from "./json.ts";

/** What clients send back as they like, and what says nothing. */
const UNTOLD: readonly string[] = ["annotations", "logprobs"];

/** How the fields begin that a program notes for itself: some add them in one process and leave them out in the next. */
const NOTE = "_";

/** So deep may arguments be nested that are compared as JSON. */
const MAX_DEPTH = 200;

/** Numbers that are others than they read once they are parsed. */
const INEXACT = /\d{16}|\d[eE][+-]?\d{3}/;

/** Whether an optional field says no more with this value than if it weren't there. */
export function isNothing(value: unknown): boolean {
  return value === null || value === undefined || value === "" ||
    (Array.isArray(value) && value.length === 0);
}

/** The fields that say something, but for these. */
export function toldFields(record: JsonRecord, without: readonly string[] = []): JsonRecord {
  const isTold = (name: string) =>
    !name.startsWith(NOTE) && !UNTOLD.includes(name) && !without.includes(name);
  return Object.fromEntries(
    Object.entries(record).filter(([name, value]) => isTold(name) && !isNothing(value)),
  );
}

/** A value whose objects have their fields in one order. @throws {RangeError} if it is nested too deep. */
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
 * What a content says: texts that stand side by side are one, as if they stood on lines of their own, without white space
 * at its ends; of another part its fields.
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

/** The text of a part that says nothing else; nothing of another part. */
function plainText(part: unknown): string | undefined {
  if (typeof part === "string") return part;
  if (!isRecord(part) || part.type !== "text" || typeof part.text !== "string") return undefined;
  return Object.keys(toldFields(part, ["type", "text"])).length === 0 ? part.text : undefined;
}

/** A content of one text as that text; any other as it is. */
export function plainContent<T>(content: T): T | string {
  if (!Array.isArray(content) || content.length !== 1) return content;
  return plainText(content[0]) ?? content;
}

/** What the JSON of a call's arguments says; what is none says itself. */
export function saidArguments(text: string): unknown {
  if (INEXACT.test(text)) return { text };
  try {
    return { json: inOrder(JSON.parse(text.trim() || "{}")) };
  } catch {
    // A model may spoil it; it comes back as it was.
    return { text };
  }
}

/**
 * Whether a result says that its call failed: by a flag of the protocol, else by the exit code that clients state beside
 * what a program has written, in a line of its own or in a field of JSON. Nothing if it doesn't say.
 *
 * @param flag What the protocol says. Default: it doesn't.
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
