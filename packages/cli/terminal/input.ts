import { fenced } from "@tare/server/internal/format";
import { PassThrough } from "node:stream";

/** Most bytes of piped input: about 60,000 tokens. */
const MAX_BYTES = 256 * 1024;

/** Bytes searched for NUL, which marks binary data. */
const HEAD_BYTES = 8 * 1024;

export interface PipedInput {
  readonly text: string;
  readonly isCut: boolean;
}

/**
 * Reads piped input, truncated to whole lines. Resolves to undefined if it is blank.
 *
 * @throws {Error} if it isn't text.
 */
export async function readPiped(
  stream: ReadableStream<Uint8Array>,
  { mostBytes = MAX_BYTES }: { readonly mostBytes?: number } = {},
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
    if (bytes.subarray(0, HEAD_BYTES).includes(0)) throw new TypeError("it contains a NUL byte");
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: isCut });
  } catch (cause) {
    throw new Error(
      "Cannot send standard input: it isn't UTF-8 text. Name the file in the message, or convert it.",
      { cause },
    );
  }
}

/** Appends piped input to a message, which may be empty. */
export function withPiped(question: string, { text, isCut }: PipedInput): string {
  const note = isCut ? ` (only its first ${text.length} characters)` : "";
  if (question === "") return isCut ? `${text}\n\n${note.trim()}` : text;
  return `${question}\n\nFrom standard input${note}:\n\n${fenced(text)}`;
}

export const MARKS_PASTES = { on: "\x1b[?2004h", off: "\x1b[?2004l" } as const;

const BEGIN = "\x1b[200~";
const END = "\x1b[201~";

interface TerminalInput {
  on(event: "data", listener: (chunk: Uint8Array) => void): unknown;
  on(event: "end", listener: () => void): unknown;
  readonly setRawMode?: (isRaw: boolean) => unknown;
}

interface PastedInput {
  /** Input of a line editor, with marks instead of multi-line pastes. */
  readonly input: PassThrough & { readonly setRawMode: (isRaw: boolean) => void };
  readonly markOf: (text: string) => string;
  readonly whole: (line: string) => string;
}

/**
 * Reads a terminal with bracketed paste. Several pasted lines are stored and replaced by a mark, such as
 * `[paste 1: 200 lines]`, because the line editor would treat each as a message.
 */
export function pastedInput(terminal: TerminalInput): PastedInput {
  const pastes: string[] = [];
  const decoder = new TextDecoder();
  let pasted: string | undefined;
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
      const pasteLabel = pasteLabelOf(pasted);
      if (pasteLabel !== "") input.write(pasteLabel);
      pasted = undefined;
    }
  };
  const pasteLabelOf = (text: string): string => {
    const lines = text.replaceAll(/\r\n?/g, "\n").replace(/\n+$/, "");
    // The line editor would execute control characters.
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

/** Returns the length of a partial `mark` at the end; 0 if shorter than `least`. */
function cutMark(text: string, mark: string, least: number): number {
  for (let length = mark.length - 1; length >= least; length--) {
    if (text.endsWith(mark.slice(0, length))) return length;
  }
  return 0;
}
