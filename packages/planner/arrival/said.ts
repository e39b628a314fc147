import type { Message } from "@tare/messages";
import { sliceText } from "@tare/messages/internal";
import { resultText } from "@tare/prune/internal";
import type { LineNumbers } from "../tools_of_agents.ts";

/** Lines in a row whose numbers count up by one. Plain data. */
export interface NumberedLines {
  /** The first of them in the text, from 0. */
  readonly at: number;
  /** The numbers of the first and the last. */
  readonly first: number;
  readonly last: number;
}

/**
 * How a text becomes shorter: chosen so that it can be rebuilt byte for byte from what is visible, but for terminal codes
 * (see {@linkcode chooseCompression}). Plain data.
 */
export interface Compression {
  /** Removes terminal codes, with `progress` also overwritten progress. The original is recalled by the edit's reference. */
  readonly terminal?: "codes" | "progress";
  /** Removes the numbers of lines, those of one form. Excludes all else. */
  readonly numbers?: LineNumbers & { readonly runs: readonly NumberedLines[] };
  /** Removes the white space of JSON: the indentation of a level, or "" for the spaces behind `,` and `:`. */
  readonly json?: string;
  /** Replaces the path in front of each hit of a search by a heading. */
  readonly headings?: true;
  /** Removes this folder, which all paths of a list share. */
  readonly folder?: string;
  /** Replaces lines that are equal to the one above by their number. */
  readonly repeats?: true;
}

/** A compressed text as lines. */
export interface CompressedText extends Compression {
  /** Its lines without their numbers. */
  readonly lines: readonly string[];
  /** Of a numbered text, each line's number; −1 of a line that has none. */
  readonly lineNumbers?: readonly number[];
}

/** How the first line of a compressed text begins. */
export const COMPRESSED = "[compressed: ";

/** So many equal lines behind the first become their number. */
export const LEAST_EQUAL = 3;

const HIT = /^((?:[A-Za-z]:)?[^:\s][^:\n]*):(\d+):/;
/** What tells a file's path from a time or the name of a host. */
const FILE = /[/\\]|\.[A-Za-z]\w*$/;
// deno-lint-ignore no-control-regex
const TERMINAL_CODE = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])/g;
/** What a line that shows progress holds: the columns of curl, a share, a count, or a bar or a spinner. */
const PROGRESS =
  /^[\d\s.:kKMGT-]*--:--|(\d+(?:\.\d+)?) ?%|(?<![\d/])(\d+(?:\.\d+)?) ?\/ ?(\d+(?:\.\d+)?)(?![\d/])|[\u2580-\u259f\u2800-\u28ff━╸╺]|\[[=#>. -]{3,}\]/;

/** Longest state of a line that shows progress, in UTF-16 code units; {@linkcode PROGRESS} takes quadratic time. */
const MAX_FRAME_CHARS = 1_000;

/** Compresses a text as it was chosen for it. */
export function compress(text: string, how: Compression): CompressedText {
  let lines: readonly string[] = text.split("\n");
  const { terminal } = how;
  if (terminal) lines = lines.map((line) => asInTerminal(line, terminal));
  if (how.numbers) return { ...how, ...withoutNumbers(lines, how.numbers) };
  if (how.json !== undefined) lines = [compactJson(lines.join("\n"))];
  if (how.headings) lines = withHeadings(lines);
  const { folder } = how;
  if (folder !== undefined) lines = lines.map((line) => isPath(line) ? line.slice(folder.length) : line);
  if (how.repeats) lines = withoutRepeats(lines);
  return { ...how, lines };
}

/** Writes a number as it stands in front of its line. */
export function numberMark({ width, pad = " ", mark }: LineNumbers, number: number): string {
  return `${String(number).padStart(width, pad)}${mark}`;
}

function withoutNumbers(
  raw: readonly string[],
  how: NonNullable<Compression["numbers"]>,
): Required<Pick<CompressedText, "lines" | "lineNumbers">> {
  const lines = [...raw];
  const lineNumbers = new Array<number>(raw.length).fill(-1);
  for (const { at: start, first, last } of how.runs) {
    for (let at = start, number = first; number <= last; at++) {
      if (raw[at] === how.blank) continue;
      lines[at] = raw[at]!.slice(numberMark(how, number).length);
      lineNumbers[at] = number++;
    }
  }
  return { lines, lineNumbers };
}

/** Returns a line without terminal codes, and as a terminal shows it in the end. */
export function asInTerminal(line: string, terminal: NonNullable<Compression["terminal"]>): string {
  const plain = line.includes("\x1b") ? line.replace(TERMINAL_CODE, "") : line;
  if (terminal === "codes" || !plain.includes("\r")) return plain;
  const end = plain.endsWith("\r") ? plain.length - 1 : plain.length;
  const frames = plain.slice(0, end).split("\r");
  return frames.length > 1 && areProgress(frames)
    ? `${frames.findLast(Boolean) ?? ""}${plain.slice(end)}`
    : plain;
}

/**
 * Whether texts are states of one line that a program wrote over and over: all but the last show how far it is, behind the
 * same words, and come to more in the end.
 */
function areProgress(frames: readonly string[]): boolean {
  if (frames.some(({ length }) => length > MAX_FRAME_CHARS)) return false;
  const states = frames.filter((frame) => frame !== "").slice(0, -1).map((frame) => {
    const found = PROGRESS.exec(frame);
    const [, share, count, of = share && "%"] = found ?? [];
    return {
      found,
      what: `${frame.slice(0, found?.index).trimEnd()} ${of}`,
      value: Number(share ?? count ?? NaN),
    };
  });
  const [first, ...others] = states;
  if (!first || others.length === 0) return false;
  return states.every(({ found, what, value }, at) =>
    found && what === first.what && !(value < states[at - 1]?.value!)
  ) && !(states.at(-1)!.value <= first.value);
}

/** Returns JSON without the white space between its parts. White space behind it stays, and numbers stay as written. */
export function compactJson(text: string): string {
  const end = text.trimEnd().length;
  return text.slice(0, end).replace(/("[^"\\]*(?:\\.[^"\\]*)*")|\s+/g, (_, string?: string) => string ?? "") +
    text.slice(end);
}

/** Returns the path of a hit of a search, such as `a.ts` of `a.ts:12:text`. */
export function hitPath(line: string): string | undefined {
  const path = HIT.exec(line)?.[1];
  return path !== undefined && FILE.test(path) ? path : undefined;
}

function withHeadings(lines: readonly string[]): readonly string[] {
  const shown: string[] = [];
  let heading: string | undefined;
  for (const line of lines) {
    let path = hitPath(line);
    // Lines around a hit have a dash for the colon.
    if (path === undefined && heading !== undefined && isAround(line, heading)) path = heading;
    if (path === undefined) {
      shown.push(line);
      if (line !== "--") heading = undefined;
      continue;
    }
    if (path !== heading) shown.push(path);
    heading = path;
    shown.push(line.slice(path.length + 1));
  }
  return shown;
}

function isAround(line: string, path: string): boolean {
  return line.startsWith(`${path}-`) && /^\d+-/.test(line.slice(path.length + 1));
}

/** Whether a line is a path where all lines without white space are. */
export function isPath(line: string): boolean {
  return line !== "" && !/\s/.test(line);
}

function withoutRepeats(lines: readonly string[]): readonly string[] {
  const shown: string[] = [];
  for (let at = 0; at < lines.length;) {
    const line = lines[at]!;
    let end = at + 1;
    while (end < lines.length && lines[end] === line) end++;
    const more = end - at - 1;
    if (more >= LEAST_EQUAL && line !== "") shown.push(line, `(${more} more lines like this)`);
    else for (; at < end; at++) shown.push(line);
    at = end;
  }
  return shown;
}

/** States what a compressed text is shown without; nothing if nothing was removed. */
function headerOf(
  { numbers, json, headings, folder, repeats, terminal }: Compression,
  { notation, ref }: { readonly notation: boolean; readonly ref: string },
): string[] {
  const parts: string[] = [];
  if (numbers) {
    const runs = numbers.runs.map(({ first, last }) =>
      `${JSON.stringify(numberMark(numbers, first))} to ${last}`
    );
    const none = numbers.blank === undefined ? "" : ` (none on ${JSON.stringify(numbers.blank)})`;
    const which = notation ? "only on the first and each tenth line" : "but in references";
    parts.push(`line numbers ${runs.join(", ")}${none} ${which}`);
  }
  if (json === "") parts.push("JSON without spaces");
  else if (json !== undefined) parts.push(`JSON without its indentation by ${JSON.stringify(json)}`);
  if (headings) parts.push("hits by file");
  if (folder !== undefined) parts.push(`paths are in ${folder}`);
  if (repeats) parts.push("equal lines are counted");
  const overwritten = terminal === "progress" ? " and overwritten progress" : "";
  if (terminal) parts.push(`terminal codes${overwritten} omitted; recall with ref ${ref}`);
  return parts.length > 0 ? [`${COMPRESSED}${parts.join("; ")}]`] : [];
}

/** A stretch of lines that is shown as one line. */
interface Labelled {
  /** The first line, and the one behind the last. */
  readonly from: number;
  readonly to: number;
  /** What is shown instead. */
  readonly label: string;
}

/**
 * The text again, with labels in place of stretches, which stand in order. With `notation` a numbered text keeps the
 * numbers of the first line of each run, of each tenth, and of lines behind a label; otherwise all numbers. The first line
 * states what was removed.
 */
export function render(
  text: CompressedText,
  { stretches, notation, ref }: {
    readonly stretches: readonly Labelled[];
    readonly notation: boolean;
    readonly ref: string;
  },
): string {
  const { lines, lineNumbers, numbers } = text;
  const isShorter = notation || stretches.length > 0;
  const shown = isShorter ? headerOf(text, { notation, ref }) : [];
  let at = 0;
  let before = NaN;
  const showTo = (end: number) => {
    for (; at < end; at++) {
      const number = lineNumbers?.[at] ?? -1;
      const isMarked = number >= 0 && (!notation || number !== before + 1 || number % 10 === 0);
      shown.push(isMarked ? `${numberMark(numbers!, number)}${lines[at]}` : lines[at]!);
      if (lines[at] !== numbers?.blank) before = number < 0 ? NaN : number;
    }
  };
  for (const { from, to, label } of stretches) {
    showTo(from);
    shown.push(label);
    at = to;
    before = NaN;
  }
  showTo(lines.length);
  return shown.join("\n");
}

/** Lines of a result that are shown as a reference to where they stand already. Plain data. */
export interface Reference {
  /** The first of the result's lines, as {@linkcode compress} returns them, and the one behind the last. */
  readonly from: number;
  readonly to: number;
  /** Position in the history of the message in which the lines stand. */
  readonly source: number;
  /** Tells that message from any other that may come to stand there. */
  readonly hash: number;
  /** What the model knows it by: a file, or a tool. */
  readonly as: string;
  /** Tokens that saying the lines would take. */
  readonly tokens: number;
}

/** Shows a tool result compressed, or without what stands in the prompt already, from its first send on. */
export interface SayEdit {
  /** Which kind of edit it is. */
  readonly type: "say";
  /** Position of the result in the history. */
  readonly index: number;
  /** Its `tool_call_id`. */
  readonly toolCallId: string;
  /** Tells the result from any other under this id. */
  readonly hash: number;
  /** Archive reference of the original. */
  readonly ref: string;
  /** How its text is compressed. */
  readonly how: Compression;
  /** Whether what the compression removes is left out. Otherwise it only tells which lines are equal. */
  readonly notation: boolean;
  /** Tokens that this saves. */
  readonly notationTokens: number;
  /** In order. */
  readonly references: readonly Reference[];
}

/** What a label quotes, in characters: how the block starts, and how it ends. */
const FIRST_CHARACTERS = 40;
const LAST_CHARACTERS = 24;

/** How the first and the last line of a block are quoted. */
export function quotesOf(lines: readonly string[], { from, to }: Pick<Reference, "from" | "to">): {
  readonly first: string;
  readonly last: string;
} {
  const last = lines[to - 1]!.trim();
  return {
    first: sliceText(lines[from]!.trim(), 0, FIRST_CHARACTERS),
    last: sliceText(last, Math.max(0, last.length - LAST_CHARACTERS), last.length),
  };
}

/** The line that the model sees in place of a block; a numbered text says which lines it has. */
export function labelOf(
  { lines, lineNumbers }: CompressedText,
  reference: Pick<Reference, "from" | "to" | "as">,
): string {
  const { from, to, as } = reference;
  const { first, last } = quotesOf(lines, reference);
  const [start = -1, end = -1] = [lineNumbers?.[from], lineNumbers?.[to - 1]];
  const which = start >= 0 && end - start === to - 1 - from ? `lines ${start}-${end}` : `${to - from} lines`;
  return `[${which} unchanged, as in ${as} above: "${first}" to "${last}"]`;
}

/** What the model sees of a result after this edit; the same object each time. */
export function said(message: Message, edit: SayEdit): Message {
  const known = shown.get(message);
  if (known?.edit === edit) return known.shown;
  const made = { ...message, content: saidText(message, edit) } as Message;
  shown.set(message, { edit, shown: made });
  return made;
}

const shown = new WeakMap<Message, { readonly edit: SayEdit; readonly shown: Message }>();

/** The text of a result after this edit. */
export function saidText(
  message: Message,
  { how, notation, references, ref = LIKE_A_REF }:
    & Pick<SayEdit, "how" | "notation" | "references">
    & Partial<Pick<SayEdit, "ref">>,
): string {
  const text = message.role === "tool" ? resultText(message) : undefined;
  const compressed = compress(text ?? "", how);
  const stretches = references.map((one) => ({ ...one, label: labelOf(compressed, one) }));
  return render(compressed, { notation, stretches, ref });
}

/** As long as any reference of an archive. */
const LIKE_A_REF = "0123456789abcdef";
