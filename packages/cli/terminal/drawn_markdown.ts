import { Lexer, type MarkedToken, type Token, type Tokens } from "marked";
import { columnsOf, printableText } from "./printable_text.ts";

export interface DrawnMarkdown {
  /** Adds a piece. Open marks, such as `**`, are buffered within the line. */
  readonly write: (piece: string) => void;
  readonly end: () => void;
}

/** Longest buffered part of a line, in UTF-16 code units: each piece parses it again. */
const MAX_HELD = 500;

/** Longer lines and tables stay as written: parsing unclosed marks takes quadratic time. */
const MAX_DRAWN = 4_000;

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

/** Renders streamed Markdown for a terminal, escaped. Tables wider than `columns` (default: 100) stay as written. */
export function drawnMarkdown(
  write: (text: string) => void,
  { columns = 100 }: { readonly columns?: number } = {},
): DrawnMarkdown {
  let line = "";
  /** Written length of the line; undefined while its kind is unknown. */
  let written: number | undefined;
  let fence: string | undefined;
  let rows: string[] = [];

  const flow = () => {
    if (fence !== undefined || rows.length > 0) return;
    if (written === undefined) {
      const isHeld = UNSURE.test(line) || FENCE.test(line) || ROW.test(line) || /^ {0,3}#{1,6}\s/.test(line);
      if (isHeld && line.length < MAX_HELD) return;
      const { drawn, length } = opening(line);
      write(drawn);
      written = length;
    }
    const rest = line.slice(written);
    const settled = rest.length < MAX_HELD ? settledLength(rest) : rest.length;
    if (settled === 0) return;
    write(drawInline(rest.slice(0, settled)));
    written += settled;
  };
  const flushTable = () => {
    const table = rows;
    rows = [];
    if (table.length > 0) write(drawTable(table, columns));
  };
  const finish = (end: "\n" | "") => {
    const [whole, done] = [line, written];
    line = "";
    written = undefined;
    if (done !== undefined) return write(drawInline(whole.slice(done)) + end);
    if (fence !== undefined) {
      const isEnd = FENCE.test(whole) && whole.trim().startsWith(fence) && /^[`~]+$/.test(whole.trim());
      if (isEnd) fence = undefined;
      return write((isEnd ? dim : code)(printableText(whole)) + end);
    }
    if (ROW.test(whole)) {
      rows.push(whole);
      return;
    }
    flushTable();
    const [, opens] = FENCE.exec(whole) ?? [];
    if (opens !== undefined) {
      fence = opens;
      return write(dim(printableText(whole)) + end);
    }
    write(drawLine(whole) + end);
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
      fence = undefined;
    },
  };
}

function drawLine(line: string): string {
  const [, prefix = "", title = ""] = HEADING.exec(line) ?? [];
  if (prefix !== "") {
    const drawn = drawInline(title, true);
    return bold(prefix.length < 3 ? underlined(drawn) : drawn);
  }
  if (RULE.test(line)) return dim("─".repeat(40));
  const { drawn, length } = opening(line);
  return drawn + drawInline(line.slice(length));
}

/** Returns the rendered list or quote mark at the beginning of a line, and its length. */
function opening(line: string): { readonly drawn: string; readonly length: number } {
  const [quote, prefix] = QUOTE.exec(line) ?? [];
  if (quote !== undefined) {
    return { drawn: dim("│ ".repeat(prefix!.replaceAll(/\s/g, "").length)), length: quote.length };
  }
  const [item, indent = "", number = "•", box] = ITEM.exec(line) ?? [];
  if (item === undefined) return { drawn: "", length: 0 };
  const ticked = box === undefined ? "" : box === " " ? "☐ " : "☑ ";
  return { drawn: `${indent}${number} ${ticked}`, length: item.length };
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

/** Renders a table; returns it as written if it is invalid or too wide. */
function drawTable(rows: readonly string[], columns: number): string {
  const text = rows.join("\n");
  const [table] = text.length > MAX_DRAWN ? [] : Lexer.lex(text);
  const asWritten = () => rows.map((row) => `${drawInline(row)}\n`).join("");
  if (table?.type !== "table") return asWritten();
  const { header, rows: body, align } = table as Tokens.Table;
  const cells = [header, ...body].map((row, at) =>
    row.map(({ tokens }) => {
      const drawn = drawTokens(tokens, at === 0);
      return { drawn, width: widthOf(drawn) };
    })
  );
  const widths = header.map((_, at) => Math.max(...cells.map((row) => row[at]?.width ?? 0)));
  if (widths.reduce((sum, width) => sum + width + 3, -3) > columns) return asWritten();
  const lines = cells.map((row) =>
    row.map(({ drawn, width }, at) => {
      const room = widths[at]! - width;
      const before = align[at] === "right" ? room : align[at] === "center" ? Math.floor(room / 2) : 0;
      return " ".repeat(before) + drawn + " ".repeat(room - before);
    }).join(dim(" │ ")).trimEnd()
  );
  const [head = "", ...rest] = lines;
  const under = dim(widths.map((width) => "─".repeat(width)).join("─┼─"));
  return [bold(head), under, ...rest].map((line) => `${line}\n`).join("");
}

const STYLE = new RegExp("\x1b\\[\\d+m", "g");

function widthOf(drawn: string): number {
  return columnsOf(drawn.replaceAll(STYLE, ""));
}
