/**
 * What begins a question to a person. No other text shows it: {@linkcode shownText} writes it out, so that a model's words
 * look like no question.
 */
export const QUESTION_MARK = "▌";

/** What commands a terminal: everything of C0 but the line feed and the tab, DEL, and C1. */
const CONTROLS = /[^\P{Cc}\n\t]/u;

/**
 * What shows as nothing, or turns around what stands beside it: marks of direction, characters without a width, blanks that
 * fill a letter's place, tags, and selectors of variants that no letter has.
 */
const DECEIVING =
  /[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufeff\uffa0\ufff0-\ufffb\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]/u;

/** Joiners belong in emoji and in some scripts; between ASCII letters they only make a word look like another. */
const JOINERS = /(?<![^\0-\x7f])[\u200c\u200d](?![^\0-\x7f])/u;

const HIDDEN = new RegExp(`${CONTROLS.source}|${DECEIVING.source}|${JOINERS.source}|${QUESTION_MARK}`, "gu");

/** All that isn't seen as it is, for where each character counts and stands in one line. */
const ANY_HIDDEN = new RegExp(`[\\p{Cc}\\p{Cf}\\p{Zl}\\p{Zp}]|${HIDDEN.source}`, "gu");

/**
 * Text of models, tools, servers and files as a terminal is sent it: what would command it, show as nothing or move what
 * stands beside it is written out, as `\x1b` or `\u{202e}`.
 *
 * @param options.isWhole Writes out line breaks, tabs and joiners too: for what somebody is asked to allow. Default: false.
 */
export function shownText(text: string, { isWhole = false }: { readonly isWhole?: boolean } = {}): string {
  // A lone half of a pair is no character.
  return text.toWellFormed().replaceAll("\r\n", isWhole ? "\r\n" : "\n").replaceAll(
    isWhole ? ANY_HIDDEN : HIDDEN,
    written,
  );
}

/** The JSON of a value, in which nothing is hidden, and which stays that value's. */
export function shownJson(value: unknown): string {
  return shownLines(JSON.stringify(value));
}

/** The same of texts that are JSON already, one a line. */
export function shownLines(json: string): string {
  const units = (char: string) =>
    char.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join("");
  return json.replaceAll(ANY_HIDDEN, (char) => char === "\n" ? char : units(char));
}

function written(char: string): string {
  const code = char.codePointAt(0)!;
  return code < 0x100 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u{${code.toString(16)}}`;
}

const letters = new Intl.Segmenter();

/** Letters that take two columns. */
const WIDE =
  /\p{Emoji_Presentation}|[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{20000}-\u{3fffd}]/u;

/** How many columns a text takes in a line. */
export function columnsOf(text: string): number {
  return [...letters.segment(text)].reduce((sum, { segment }) => sum + (WIDE.test(segment) ? 2 : 1), 0);
}

/** The text, or as much of its beginning as so many columns hold. */
export function cutTo(columns: number, text: string): string {
  let taken = 0;
  for (const { segment, index } of letters.segment(text)) {
    taken += columnsOf(segment);
    if (taken > columns) return text.slice(0, index);
  }
  return text;
}

/** A line as the rows that it takes in a terminal of so many columns. */
export function rowsOf(columns: number, line: string): readonly string[] {
  const rows = [""];
  let taken = 0;
  for (const { segment } of letters.segment(line)) {
    const wide = columnsOf(segment);
    if (taken + wide > columns && taken > 0) {
      rows.push("");
      taken = 0;
    }
    rows.push(rows.pop() + segment);
    taken += wide;
  }
  return rows;
}

/** Writes a whole text. */
export function writeAll(to: Pick<typeof Deno.stdout, "writeSync">, text: string): void {
  const bytes = new TextEncoder().encode(text);
  for (let written = 0; written < bytes.length;) written += to.writeSync(bytes.subarray(written));
}
