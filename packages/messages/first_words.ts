import { type Content, contentText } from "./message.ts";

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
