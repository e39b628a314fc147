import { fenced } from "@tare/server/internal/format";
import { PassThrough } from "node:stream";

/** Most bytes of piped input that are sent: some 60,000 tokens. */
const MOST_BYTES = 256 * 1024;

/** Bytes that are searched for NUL, which only binary data has. */
const HEAD_BYTES = 8 * 1024;

export interface PipedInput {
  readonly text: string;
  /** Whether there was more. */
  readonly isCut: boolean;
}

/**
 * Reads piped input, or the whole lines of its beginning if it is too long. Returns undefined if it is blank.
 *
 * @throws {Error} if it is no text.
 */
export async function readPiped(
  stream: ReadableStream<Uint8Array>,
  { mostBytes = MOST_BYTES }: { readonly mostBytes?: number } = {},
): Promise<PipedInput | undefined> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of stream) {
    chunks.push(chunk);
    length += chunk.length;
    if (length > mostBytes) break;
  }
  const isCut = length > mostBytes;
  const bytes = new Uint8Array(await new Blob(chunks.map((chunk) => new Uint8Array(chunk))).arrayBuffer());
  const text = textOf(bytes.subarray(0, mostBytes), isCut);
  if (text.trim() === "") return undefined;
  return { text: isCut && text.includes("\n") ? text.slice(0, text.lastIndexOf("\n")) : text, isCut };
}

function textOf(bytes: Uint8Array, isCut: boolean): string {
  try {
    if (bytes.subarray(0, HEAD_BYTES).includes(0)) throw new TypeError("there is a NUL byte in it");
    // An incomplete character at the end is omitted.
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: isCut });
  } catch (cause) {
    throw new Error(
      "Cannot send what is piped in: it isn't text in UTF-8. Name the file in the question, or convert it.",
      { cause },
    );
  }
}

/** Returns a question with piped input after it, or the input if there is no question. */
export function withPiped(question: string, { text, isCut }: PipedInput): string {
  const note = isCut ? ` (only its first ${text.length} characters)` : "";
  if (question === "") return isCut ? `${text}\n\n${note.trim()}` : text;
  return `${question}\n\nFrom standard input${note}:\n\n${fenced(text)}`;
}

/** Switch bracketed paste on and off. */
export const MARKS_PASTES = { on: "\x1b[?2004h", off: "\x1b[?2004l" } as const;

const BEGIN = "\x1b[200~";
const END = "\x1b[201~";

interface TerminalInput {
  on(event: "data", told: (chunk: Uint8Array) => void): unknown;
  on(event: "end", told: () => void): unknown;
  readonly setRawMode?: (isRaw: boolean) => unknown;
}

/** Input in which each paste is part of one line. */
interface PastedInput {
  /** Input of a line editor, with a mark for several pasted lines. */
  readonly input: PassThrough & { readonly setRawMode: (isRaw: boolean) => void };
  readonly markOf: (text: string) => string;
  /** Returns a line with the texts of its marks. */
  readonly whole: (line: string) => string;
}

/**
 * Reads a terminal with bracketed paste. One pasted line is input as if it was typed; several are stored and replaced by a
 * mark such as `[paste 1: 200 lines]`, because the line editor would take each for a message.
 */
export function pastedInput(terminal: TerminalInput): PastedInput {
  const pastes: string[] = [];
  const decoder = new TextDecoder();
  let pasted: string | undefined;
  /** Beginning of an incomplete escape sequence. */
  let held = "";
  const input = Object.assign(new PassThrough(), {
    setRawMode(isRaw: boolean) {
      terminal.setRawMode?.(isRaw);
    },
  });
  const take = (text: string) => {
    let rest = held + text;
    held = "";
    while (rest !== "") {
      const mark = pasted === undefined ? BEGIN : END;
      const at = rest.indexOf(mark);
      // Escape by itself is a key.
      const cut = at >= 0 ? 0 : cutMark(rest, mark, pasted === undefined ? 2 : 1);
      const before = at >= 0 ? rest.slice(0, at) : rest.slice(0, rest.length - cut);
      held = cut === 0 ? "" : rest.slice(-cut);
      rest = at >= 0 ? rest.slice(at + mark.length) : "";
      if (pasted === undefined) {
        if (before !== "") input.write(before);
        if (at >= 0) pasted = "";
        continue;
      }
      pasted += before;
      if (at < 0) continue;
      const shown = shownPaste(pasted);
      if (shown !== "") input.write(shown);
      pasted = undefined;
    }
  };
  const shownPaste = (text: string): string => {
    const lines = text.replaceAll(/\r\n?/g, "\n").replace(/\n+$/, "");
    // Control characters would command the line editor.
    if (!lines.includes("\n")) return lines.replaceAll(/\t/g, " ").replaceAll(/\p{Cc}/gu, "");
    return keep(lines);
  };
  const keep = (lines: string) => markOf(pastes.push(lines), lines);
  terminal.on("data", (chunk) => take(decoder.decode(chunk, { stream: true })));
  terminal.on("end", () => input.end());
  return {
    input,
    markOf: keep,
    whole: (line) =>
      pastes.reduce((text, lines, at) => text.replaceAll(markOf(at + 1, lines), () => lines), line),
  };
}

function markOf(number: number, lines: string): string {
  return `[paste ${number}: ${lines.split("\n").length} lines]`;
}

/** Returns how many characters at the end may begin a sequence; 0 if fewer than `least`. */
function cutMark(text: string, mark: string, least: number): number {
  for (let length = mark.length - 1; length >= least; length--) {
    if (text.endsWith(mark.slice(0, length))) return length;
  }
  return 0;
}
