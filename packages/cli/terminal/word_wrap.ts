import stringWidth from "string-width";

const letters = new Intl.Segmenter();

const TAB = 8;

/** Scripts that break between any characters. */
const UNSPACED = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}]/u;

/** Styles, spaces, line breaks and words. */
// deno-lint-ignore no-control-regex
const TOKENS = /\x1b\[(\d+)m|\n|[ \t]+|[^\s\x1b]+|[^]/gu;

/** Codes of styles that an ending code ends. */
const ENDS: Readonly<Record<string, RegExp>> = {
  ...{ 22: /^[12]$/, 23: /^3$/, 24: /^4$/, 27: /^7$/, 29: /^9$/, 39: /^(3|9)[0-7]$/ },
};

export interface WordWrap {
  /** Writes text, whose last word is buffered. Its only escape codes are styles. */
  readonly write: (text: string) => void;
  /** Sets what rows after the first begin with, until the next line. */
  readonly hang: (text: string) => void;
  /** Writes the buffered word. Later text begins a line. */
  readonly end: () => void;
}

/**
 * Breaks lines at words, and longer words anywhere, as streamed text arrives.
 *
 * @param options.columns Returns the width. Default: unlimited.
 * @param options.start What each line begins with, such as an indentation. Default: nothing.
 */
export function wordWrap(
  put: (text: string) => void,
  { columns = () => Infinity, start = "" }: {
    readonly columns?: (() => number) | undefined;
    readonly start?: string;
  } = {},
): WordWrap {
  let column: number | undefined;
  let hanging = "";
  let spaces = "";
  let word = "";
  let styles: readonly string[] = [];
  let out = "";
  const breakRow = () => {
    const restyle = styles.map((code) => `\x1b[${code}m`).join("");
    out += `${restyle && "\x1b[0m"}\n${start}${hanging}${restyle}`;
    column = stringWidth(start + hanging);
    spaces = "";
  };
  const add = (text: string, width: number) => {
    out += text;
    column! += width;
  };
  const begin = () => {
    if (column !== undefined) return;
    out += start;
    column = stringWidth(start);
  };
  const flush = () => {
    if (word === "") return;
    begin();
    const width = stringWidth(word);
    const room = Math.max(columns(), 2);
    const least = stringWidth(start + hanging);
    const taken = column! + widthOfSpaces(spaces, column!);
    if (taken + (UNSPACED.test(word) ? 1 : width) > room && column! > least) breakRow();
    else {
      add(spaces, widthOfSpaces(spaces, column!));
      spaces = "";
    }
    for (const [token, code] of word.matchAll(TOKENS)) {
      if (code !== undefined) {
        styles = code === "0" ? [] : [...styles.filter((on) => !ENDS[code]?.test(on)), code]
          .filter((on) => !(on in ENDS));
        out += token;
      } else if (column! + stringWidth(token) <= room) add(token, stringWidth(token));
      else {
        for (const { segment } of letters.segment(token)) {
          const wide = stringWidth(segment);
          if (column! + wide > room && column! > least) breakRow();
          add(segment, wide);
        }
      }
    }
    word = "";
  };
  const deliver = () => {
    if (out !== "") put(out);
    out = "";
  };
  return {
    write(text) {
      for (const [token] of text.matchAll(TOKENS)) {
        if (token === "\n") {
          flush();
          if (styles.length > 0) out += "\x1b[0m";
          out += "\n";
          styles = [];
          column = undefined;
          hanging = spaces = "";
        } else if (/^[ \t]/.test(token)) {
          flush();
          spaces += token;
        } else word += token;
      }
      deliver();
    },
    hang: (text) => void (hanging = text),
    end() {
      flush();
      deliver();
      column = undefined;
      styles = [];
      hanging = spaces = "";
    },
  };
}

function widthOfSpaces(spaces: string, column: number): number {
  let end = column;
  for (const one of spaces) end += one === "\t" ? TAB - end % TAB : 1;
  return end - column;
}

/** Returns the rows of lines. @param options.hang What rows after the first of a line begin with. Default: nothing. */
export function wrappedRows(
  text: string,
  { columns, start = "", hang = "" }: {
    readonly columns: (() => number) | undefined;
    readonly start?: string;
    readonly hang?: string;
  },
): readonly string[] {
  let all = "";
  const wrap = wordWrap((text) => all += text, { columns, start });
  for (const [at, line] of text.split("\n").entries()) {
    if (at > 0) wrap.write("\n");
    wrap.hang(hang);
    wrap.write(line);
  }
  wrap.end();
  return all.split("\n");
}

/** Returns the rows of a text of lines or a list. Rows after a line's first begin below its second column. */
export function alignedRows(text: string, columns: (() => number) | undefined): readonly string[] {
  return text.split("\n").flatMap((line) => {
    const [first = ""] = /^\s*\S+(?: \S+)*? {2,}(?=\S)/.exec(line) ?? [];
    const indent = stringWidth(first);
    const isNarrow = columns !== undefined && indent > columns() / 2;
    return wrappedRows(line, { columns, hang: " ".repeat(first === "" ? 0 : isNarrow ? 4 : indent) });
  });
}
