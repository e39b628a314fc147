import { Lexer, type MarkedToken, type Token, type Tokens } from "marked";
import { highlightCode } from "@tare/server/internal/highlight";
import stringWidth from "string-width";
import { printableText } from "./printable_text.ts";
import { wordWrap, wrappedRows } from "./word_wrap.ts";

export interface DrawnMarkdown {
  /** Adds a piece. Open marks, such as `**`, are buffered within the line. */
  readonly write: (piece: string) => void;
  readonly end: () => void;
}

/** Longest buffered part of a line, in UTF-16 code units: each piece parses it again. */
const MAX_HELD = 500;

/** Longer lines stay as written: parsing unclosed marks takes quadratic time. */
const MAX_DRAWN = 4_000;

const MAX_TABLE = 100_000;

/** Columns of a narrower table column: its rows are drawn as lists. */
const LEAST_COLUMN = 6;

/** Most code that is highlighted again for each of its lines. */
const MAX_CODE = 4_000;

/** Text that may begin inline markup, alone or together with what follows. */
const OPENS = /[`[<]|[*~](?=\S)|(?<!\w)_(?=\S)|(?:[*_~!\\&]|https?:\S*|www\.\S*|\S+@\S*)$/;

const FENCE = /^\s*(`{3,}|~{3,})/;
const ROW = /^\s*\|/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const RULE = /^ {0,3}(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,})$/;
const ITEM = /^(\s*)(?:[-*+]|(\d{1,9}[.)]))\s+(?:\[([ xX])\]\s+)?/;
const QUOTE = /^((?:\s*>)+)\s?/;

const UNSURE = /^\s*(?:$|[#\-*+>`~|_\d=]{1,10}[.)]?\s*$|[-*+]\s+\[.?\]?\s*$|\d+[.)]\s+\[?.?\]?\s*$)/;

const style = (on: number, off: number) => (text: string) =>
  text === "" ? "" : `\x1b[${on}m${text}\x1b[${off}m`;
const bold = style(1, 22);
const dim = style(2, 22);
const italic = style(3, 23);
const underlined = style(4, 24);
const struck = style(9, 29);
const code = style(36, 39);

const KINDS: Readonly<Record<string, (text: string) => string>> = {
  ...{ kwd: style(35, 39), str: style(32, 39), num: style(33, 39), bool: style(33, 39), cmnt: dim },
  ...{ func: style(34, 39), class: style(36, 39), type: style(36, 39), section: bold, esc: style(36, 39) },
  ...{ deleted: style(31, 39), insert: style(32, 39), err: style(31, 39) },
};

const CODE_INDENT = "  ";

const RULE_COLUMNS = 40;

/**
 * Renders streamed Markdown for a terminal, escaped.
 *
 * @param options.columns Returns the width. Default: unlimited.
 */
export function drawnMarkdown(
  put: (text: string) => void,
  { columns = () => Infinity }: { readonly columns?: (() => number) | undefined } = {},
): DrawnMarkdown {
  const wrap = wordWrap(put, { columns });
  const { write } = wrap;
  let line = "";
  /** Written length of the line; undefined while its kind is unknown. */
  let written: number | undefined;
  let fence: string | undefined;
  let language = "";
  let codeLines: string[] = [];
  let rows: string[] = [];

  const flow = () => {
    if (fence !== undefined || rows.length > 0) return;
    if (written === undefined) {
      const isHeld = UNSURE.test(line) || FENCE.test(line) || ROW.test(line) || /^ {0,3}#{1,6}\s/.test(line);
      if (isHeld && line.length < MAX_HELD) return;
      written = open(line);
    }
    const rest = line.slice(written);
    const settled = rest.length < MAX_HELD ? settledLength(rest) : rest.length;
    if (settled === 0) return;
    write(drawInline(rest.slice(0, settled)));
    written += settled;
  };
  /** Writes a list or quote mark, below whose text the next rows are aligned. Returns its length. */
  const open = (line: string) => {
    const { drawn, length, hang } = opening(line);
    write(drawn);
    wrap.hang(hang);
    return length;
  };
  const flushTable = () => {
    const table = rows;
    rows = [];
    if (table.length > 0) write(drawTable(table, columns()));
  };
  const writeCode = (line: string) => {
    codeLines.push(line);
    while (codeLines.length > 1 && codeLines.join("\n").length > MAX_CODE) codeLines.shift();
    let drawn = "";
    for (const { text, kind } of highlightCode(codeLines.join("\n"), language)) {
      const last = text.slice(text.lastIndexOf("\n") + 1);
      if (last !== text) drawn = "";
      drawn += (KINDS[kind ?? ""] ?? String)(printableText(last));
    }
    wrap.hang(CODE_INDENT + /^ */.exec(line)![0] + CODE_INDENT);
    write(CODE_INDENT + drawn);
  };
  const finish = (end: "\n" | "") => {
    const [whole, done] = [line, written];
    line = "";
    written = undefined;
    if (done !== undefined) return write(drawInline(whole.slice(done)) + end);
    if (fence !== undefined) {
      const isEnd = FENCE.test(whole) && whole.trim().startsWith(fence) && /^[`~]+$/.test(whole.trim());
      if (isEnd) {
        fence = undefined;
        return;
      }
      writeCode(whole);
      return write(end);
    }
    if (ROW.test(whole)) {
      rows.push(whole);
      return;
    }
    flushTable();
    const [, opens] = FENCE.exec(whole) ?? [];
    if (opens !== undefined) {
      fence = opens;
      [language = ""] = /[^\s`~{]+/.exec(whole) ?? [];
      codeLines = [];
      return;
    }
    write(drawWhole(whole) ?? drawInline(whole.slice(open(whole))));
    write(end);
  };
  return {
    write(piece) {
      const [first = "", ...more] = piece.split("\n");
      line += first;
      for (const next of more) {
        finish("\n");
        line = next;
      }
      if (line !== "") flow();
    },
    end() {
      if (line !== "" || written !== undefined) finish("");
      flushTable();
      wrap.end();
      fence = undefined;
    },
  };
}

/** Returns a heading or a rule. */
function drawWhole(line: string): string | undefined {
  const [, prefix = "", title = ""] = HEADING.exec(line) ?? [];
  if (prefix !== "") {
    const drawn = drawInline(title, true);
    return bold(prefix.length < 3 ? underlined(drawn) : drawn);
  }
  return RULE.test(line) ? dim("─".repeat(RULE_COLUMNS)) : undefined;
}

/** Returns the rendered list or quote mark of a line, its length, and what the next rows begin with. */
function opening(line: string): { readonly drawn: string; readonly length: number; readonly hang: string } {
  const [quote, prefix] = QUOTE.exec(line) ?? [];
  if (quote !== undefined) {
    const bars = dim("│ ".repeat(prefix!.replaceAll(/\s/g, "").length));
    return { drawn: bars, length: quote.length, hang: bars };
  }
  const [item, indent = "", number = "•", box] = ITEM.exec(line) ?? [];
  if (item === undefined) return { drawn: "", length: 0, hang: "" };
  const ticked = box === undefined ? "" : box === " " ? "☐ " : "☑ ";
  const drawn = `${indent}${number} ${ticked}`;
  return { drawn, length: item.length, hang: " ".repeat(stringWidth(drawn)) };
}

/** Returns the length of the text whose rendering can't change, whatever follows. */
function settledLength(text: string): number {
  let at = 0;
  let settled = 0;
  for (const { type, raw } of Lexer.lexInline(text)) {
    const open = type === "text" ? OPENS.exec(raw) : null;
    if (open) return at + open.index;
    // The last word or markup may continue.
    settled = type === "text" ? at + /^(?:[^]*\s)?/.exec(raw)![0].length : at;
    at += raw.length;
  }
  return settled;
}

function drawInline(text: string, isBold = false): string {
  return text.length > MAX_DRAWN ? printableText(text) : drawTokens(Lexer.lexInline(text), isBold);
}

function drawTokens(tokens: readonly Token[], isBold: boolean): string {
  return tokens.map((token) => draw(token as MarkedToken, isBold)).join("");
}

function draw(token: MarkedToken, isBold: boolean): string {
  switch (token.type) {
    case "strong":
      return isBold ? drawTokens(token.tokens, true) : bold(drawTokens(token.tokens, true));
    case "em":
      return italic(drawTokens(token.tokens, isBold));
    case "del":
      return struck(drawTokens(token.tokens, isBold));
    case "codespan":
      return code(printableText(token.text));
    case "link": {
      const href = printableText(token.href);
      const isSame = token.text === token.href || `mailto:${token.text}` === token.href;
      return isSame
        ? underlined(printableText(token.text))
        : `${underlined(drawTokens(token.tokens, isBold))}${dim(` (${href})`)}`;
    }
    case "image":
      return `${underlined(printableText(token.text))}${dim(` (${printableText(token.href)})`)}`;
    case "escape":
      return printableText(token.text);
    default:
      return printableText(token.raw);
  }
}

/** Renders a table within `columns`; returns it as written if it is invalid or too long. */
function drawTable(rows: readonly string[], columns: number): string {
  const text = rows.join("\n");
  const isLong = text.length > MAX_TABLE || rows.some(({ length }) => length > MAX_DRAWN);
  const [table] = isLong ? [] : Lexer.lex(text);
  if (table?.type !== "table") return rows.map((row) => `${drawInline(row)}\n`).join("");
  const { header, rows: body, align } = table as Tokens.Table;
  const heads = header.map(({ tokens }) => bold(drawTokens(tokens, true)));
  const cells = body.map((row) => row.map(({ tokens }) => drawTokens(tokens, false)));
  const widths = columnWidths([heads, ...cells], columns);
  if (!widths) {
    const item = (row: readonly string[]) => row.map((cell, at) => `${heads[at]}: ${cell}\n`).join("");
    return cells.map(item).join(`${dim("─".repeat(Math.min(columns, RULE_COLUMNS)))}\n`);
  }
  const drawRow = (row: readonly string[]) => {
    const parts = row.map((cell, at) => wrappedRows(cell, { columns: () => widths[at]! }));
    return Array.from(
      { length: Math.max(...parts.map(({ length }) => length)) },
      (_, line) =>
        parts.map((part, at) => {
          const drawn = part[line] ?? "";
          const room = Math.max(0, widths[at]! - stringWidth(drawn));
          const before = align[at] === "right" ? room : align[at] === "center" ? Math.floor(room / 2) : 0;
          return " ".repeat(before) + drawn + " ".repeat(room - before);
        }).join(dim(" │ ")).trimEnd() + "\n",
    ).join("");
  };
  const under = dim(widths.map((width) => "─".repeat(width)).join("─┼─"));
  return `${drawRow(heads)}${under}\n${cells.map(drawRow).join("")}`;
}

/** Returns widths that fit: wide columns share what narrow ones don't need. Undefined if they are too narrow. */
function columnWidths(rows: readonly (readonly string[])[], columns: number): readonly number[] | undefined {
  const wanted = rows[0]!.map((_, at) => Math.max(1, ...rows.map((row) => stringWidth(row[at] ?? ""))));
  let room = columns - 3 * (wanted.length - 1);
  const widths: number[] = [];
  const ascending = [...wanted.entries()].sort(([, one], [, other]) => one - other);
  for (const [taken, [at, width]] of ascending.entries()) {
    const fair = Math.floor(room / (wanted.length - taken));
    widths[at] = Math.min(width, fair);
    if (widths[at]! < Math.min(width, LEAST_COLUMN)) return undefined;
    room -= widths[at]!;
  }
  return widths;
}
