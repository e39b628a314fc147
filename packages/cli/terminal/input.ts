import { fenced } from "@tare/server/internal/format";
import { PassThrough } from "node:stream";

/** So much of what is piped in is sent: some 60,000 tokens. */
const MOST_BYTES = 256 * 1024;

/** Where binary data is told from text, in bytes from the start. */
const HEAD_BYTES = 8 * 1024;

/** What was piped in. */
export interface PipedInput {
  readonly text: string;
  /** Whether there was more than is sent. */
  readonly isCut: boolean;
}

/**
 * Reads what is piped in to its end, or as much as is sent: of more whole lines, and no further.
 *
 * @returns Nothing if nothing but blanks was piped in.
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
    // A letter that is cut in two isn't sent.
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: isCut });
  } catch (cause) {
    throw new Error(
      "Cannot send what is piped in: it isn't text in UTF-8. Name the file in the question, or convert it.",
      { cause },
    );
  }
}

/** A question with what was piped in behind it; without a question that is the question. */
export function withPiped(question: string, { text, isCut }: PipedInput): string {
  const note = isCut ? ` (only its first ${text.length} characters)` : "";
  if (question === "") return isCut ? `${text}\n\n${note.trim()}` : text;
  return `${question}\n\nFrom standard input${note}:\n\n${fenced(text)}`;
}

/** What a terminal is told, so that it puts marks around what is pasted, and so that it no longer does. */
export const MARKS_PASTES = { on: "\x1b[?2004h", off: "\x1b[?2004l" } as const;

const BEGIN = "\x1b[200~";
const END = "\x1b[201~";

/** A terminal's input, as far as it is read. */
interface TerminalInput {
  on(event: "data", told: (chunk: Uint8Array) => void): unknown;
  on(event: "end", told: () => void): unknown;
  readonly setRawMode?: (isRaw: boolean) => unknown;
}

/** Input in which whatever was pasted is one piece of a line. */
interface PastedInput {
  /** What a line editor reads. Several pasted lines stand in it as a mark that names them. */
  readonly input: PassThrough & { readonly setRawMode: (isRaw: boolean) => void };
  /** The mark of a text of several lines that is to stand in a line as if it had been pasted. */
  readonly markOf: (text: string) => string;
  /** A line with what its marks stand for. */
  readonly whole: (line: string) => string;
}

/**
 * Reads a terminal that marks pastes. One line is pasted as if it was typed, several are kept and named by a mark, such as
 * `[paste 1: 200 lines]`: the line editor would take each for a line of its own.
 */
export function pastedInput(terminal: TerminalInput): PastedInput {
  const pastes: string[] = [];
  const decoder = new TextDecoder();
  /** What was pasted so far, while a paste comes in. */
  let pasted: string | undefined;
  /** The beginning of a mark that is cut in two. */
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
      // A lone Escape is a key.
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
    // What commands a line editor isn't what somebody has typed.
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

/** How many characters at the end of a text may be the beginning of a mark; none if fewer than `least` are. */
function cutMark(text: string, mark: string, least: number): number {
  for (let length = mark.length - 1; length >= least; length--) {
    if (text.endsWith(mark.slice(0, length))) return length;
  }
  return 0;
}
