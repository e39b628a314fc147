import { byteLength, MAX_RESULT_BYTES, sliceText } from "../result_text.ts";
import type { SearchPattern } from "./search_pattern.ts";

/** A line of a file that is being searched. */
export interface SearchedLine {
  readonly path: string;
  /** From 1. */
  readonly number: number;
  readonly text: string;
  readonly matched: boolean;
}

/** How much is shown. */
export interface GrepRowsOptions {
  readonly pattern: SearchPattern;
  readonly maxMatches: number;
  /** Lines shown before and after each match. */
  readonly contextLines: number;
}

const MAX_ROW_CHARS = 300;
/** What is shown of a long line in front of the match. */
const LEAD_CHARS = 100;

/**
 * Collects what a search shows, in the manner of grep: `path:line: text` for a match, `path-line- text` for the lines
 * around it, `--` between groups that are apart.
 */
export class GrepRows {
  readonly rows: string[] = [];
  matches = 0;
  /** True once a matching line was left out for lack of room. */
  full = false;
  readonly #options: GrepRowsOptions;
  #bytes = 0;
  /** The last lines that were not shown, for the context of the next match. */
  #before: SearchedLine[] = [];
  #after = 0;
  #last: SearchedLine | undefined;

  constructor(options: GrepRowsOptions) {
    this.#options = options;
  }

  /** Takes the next line. Lines that neither match nor can be context need not be given. */
  add(line: SearchedLine): void {
    const { maxMatches, contextLines } = this.#options;
    if (line.path !== this.#last?.path) this.#after = 0;
    if (line.path !== this.#before[0]?.path) this.#before = [];
    if (line.matched) {
      if (this.matches === maxMatches) this.full = true;
      for (const earlier of this.#before) this.#show(earlier);
      this.#before = [];
      this.#show(line);
      if (!this.full) this.matches++;
      this.#after = contextLines;
    } else if (this.#after > 0) {
      this.#after--;
      this.#show(line);
    } else if (contextLines > 0) {
      this.#before.push(line);
      if (this.#before.length > contextLines) this.#before.shift();
    }
  }

  #show(line: SearchedLine): void {
    const { path, number, matched } = line;
    const mark = matched ? ":" : "-";
    const apart = this.#options.contextLines > 0 && this.#last !== undefined &&
      (this.#last.path !== path || this.#last.number !== number - 1);
    const row = `${apart ? "--\n" : ""}${path}${mark}${number}${mark} ${this.#shorten(line)}`;
    this.#bytes += byteLength(row) + 1;
    if (this.#bytes > MAX_RESULT_BYTES) this.full = true;
    if (this.full) return;
    this.rows.push(row);
    this.#last = line;
  }

  #shorten({ text, matched }: SearchedLine): string {
    if (text.length <= MAX_ROW_CHARS) return text;
    const match = matched ? this.#options.pattern.matchStart(text) : 0;
    const start = Math.max(0, Math.min(match - LEAD_CHARS, text.length - MAX_ROW_CHARS));
    const shown = sliceText(text, start, start + MAX_ROW_CHARS);
    return `${start > 0 ? "…" : ""}${shown}${start + MAX_ROW_CHARS < text.length ? "…" : ""}`;
  }
}
