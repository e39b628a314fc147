import stringWidth from "string-width";

/** Begins each row of an approval request. {@linkcode printableText} escapes it elsewhere, so no reply imitates one. */
export const QUESTION_MARK = "▌";

/** Control characters: C0 without line feed and tab, DEL, and C1. */
const CONTROLS = /[^\P{Cc}\n\t]/u;

/** Invisible characters and those that reorder their neighbors. */
const DECEIVING =
  /[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufeff\uffa0\ufff0-\ufffb\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]/u;

/** Joiners next to ASCII; emoji and some scripts need them elsewhere. */
const JOINERS = /(?<![^\0-\x7f])[\u200c\u200d](?![^\0-\x7f])/u;

const HIDDEN = new RegExp(`${CONTROLS.source}|${DECEIVING.source}|${JOINERS.source}|${QUESTION_MARK}`, "gu");

/** The same with line breaks, tabs and all joiners, for approval requests. */
const ANY_HIDDEN = new RegExp(`[\\p{Cc}\\p{Cf}\\p{Zl}\\p{Zp}]|${HIDDEN.source}`, "gu");

/**
 * Escapes untrusted text for a terminal: control, invisible and reordering characters become `\x1b` or `\u{202e}`.
 *
 * @param options.isWhole Whether to escape line breaks, tabs and joiners too. Default: false.
 */
export function printableText(
  text: string,
  { isWhole = false }: { readonly isWhole?: boolean } = {},
): string {
  return text.toWellFormed().replaceAll("\r\n", isWhole ? "\r\n" : "\n").replaceAll(
    isWhole ? ANY_HIDDEN : HIDDEN,
    written,
  );
}

export function printableJson(value: unknown): string {
  return printableLines(JSON.stringify(value));
}

export function printableLines(json: string): string {
  const units = (char: string) =>
    char.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join("");
  return json.replaceAll(ANY_HIDDEN, (char) => char === "\n" ? char : units(char));
}

function written(char: string): string {
  const code = char.codePointAt(0)!;
  return code < 0x100 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u{${code.toString(16)}}`;
}

const letters = new Intl.Segmenter();

/** Returns the beginning of a text that fits into `columns`. */
export function cutTo(columns: number, text: string): string {
  let taken = 0;
  for (const { segment, index } of letters.segment(text)) {
    taken += stringWidth(segment);
    if (taken > columns) return text.slice(0, index);
  }
  return text;
}

export function writeAll(to: Pick<typeof Deno.stdout, "writeSync">, text: string): void {
  const bytes = new TextEncoder().encode(text);
  for (let written = 0; written < bytes.length;) written += to.writeSync(bytes.subarray(written));
}
