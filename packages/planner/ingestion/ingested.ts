import type { Message } from "@tare/messages";
import { sliceText } from "@tare/messages/internal";
import { resultText } from "@tare/prune/internal";
import type { LineNumbers } from "../tools_of_agents.ts";

/** Consecutive lines whose numbers count up by one. Plain data. */
export interface NumberedLines {
  readonly at: number;
  readonly first: number;
  readonly last: number;
}

/** Compression of a text (see {@linkcode chooseCompression}). Plain data. */
export interface Compression {
  /** Removal of terminal codes, with `progress` also of overwritten progress. */
  readonly terminal?: "codes" | "progress";
  /** Removal of line numbers of one form. Excludes all other parts. */
  readonly numbers?: LineNumbers & { readonly runs: readonly NumberedLines[] };
  /** Removal of the white space of JSON: the indentation of a level, or `""` for spaces after `,` and `:`. */
  readonly json?: string;
  readonly headings?: true;
  /** Removal of this folder, which all paths of a list share. */
  readonly folder?: string;
  readonly repeats?: true;
}

export interface CompressedText extends Compression {
  readonly lines: readonly string[];
  /** Number of each line of a numbered text; −1 if it has none. */
  readonly lineNumbers?: readonly number[];
}

export const COMPRESSED = "[compressed: ";

export const LEAST_EQUAL = 3;

const HIT = /^((?:[A-Za-z]:)?[^:\s][^:\n]*):(\d+):/;
const FILE = /[/\\]|\.[A-Za-z]\w*$/;
// deno-lint-ignore no-control-regex
const TERMINAL_CODE = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])/g;
/** Progress in a line: columns of curl, a share, a count, a bar or a spinner. */
const PROGRESS =
  /^[\d\s.:kKMGT-]*--:--|(\d+(?:\.\d+)?) ?%|(?<![\d/])(\d+(?:\.\d+)?) ?\/ ?(\d+(?:\.\d+)?)(?![\d/])|[\u2580-\u259f\u2800-\u28ff━╸╺]|\[[=#>. -]{3,}\]/;

/** Longest state of a progress line, in UTF-16 code units; {@linkcode PROGRESS} takes quadratic time. */
const MAX_FRAME_CHARS = 1_000;

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
 * Returns whether texts are successive states of one progress line: all but the last show progress after the
 * same words, and it grows.
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

/**
 * Returns JSON without white space between tokens. White space at the end and the spelling of numbers stay.
 */
export function compactJson(text: string): string {
  const end = text.trimEnd().length;
  return text.slice(0, end).replace(/("[^"\\]*(?:\\.[^"\\]*)*")|\s+/g, (_, string?: string) => string ?? "") +
    text.slice(end);
}

/** Returns the path of a search hit, such as `a.ts` of `a.ts:12:text`. */
export function hitPath(line: string): string | undefined {
  const path = HIT.exec(line)?.[1];
  return path !== undefined && FILE.test(path) ? path : undefined;
}

function withHeadings(lines: readonly string[]): readonly string[] {
  const output: string[] = [];
  let heading: string | undefined;
  for (const line of lines) {
    let path = hitPath(line);
    if (path === undefined && heading !== undefined && isAround(line, heading)) path = heading;
    if (path === undefined) {
      output.push(line);
      if (line !== "--") heading = undefined;
      continue;
    }
    if (path !== heading) output.push(path);
    heading = path;
    output.push(line.slice(path.length + 1));
  }
  return output;
}

function isAround(line: string, path: string): boolean {
  return line.startsWith(`${path}-`) && /^\d+-/.test(line.slice(path.length + 1));
}

/** Returns whether a line is a path, if all lines without white space are paths. */
export function isPath(line: string): boolean {
  return line !== "" && !/\s/.test(line);
}

function withoutRepeats(lines: readonly string[]): readonly string[] {
  const output: string[] = [];
  for (let at = 0; at < lines.length;) {
    const line = lines[at]!;
    let end = at + 1;
    while (end < lines.length && lines[end] === line) end++;
    const more = end - at - 1;
    if (more >= LEAST_EQUAL && line !== "") output.push(line, `(${more} more lines like this)`);
    else for (; at < end; at++) output.push(line);
    at = end;
  }
  return output;
}

function headerOf(
  { numbers, json, headings, folder, repeats, terminal }: Compression,
  { normalization, ref }: { readonly normalization: boolean; readonly ref: string },
): string[] {
  const parts: string[] = [];
  if (numbers) {
    const runs = numbers.runs.map(({ first, last }) =>
      `${JSON.stringify(numberMark(numbers, first))} to ${last}`
    );
    const none = numbers.blank === undefined ? "" : ` (none on ${JSON.stringify(numbers.blank)})`;
    const which = normalization ? "only on the first and each tenth line" : "but in references";
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

interface Labelled {
  readonly from: number;
  readonly to: number;
  readonly label: string;
}

/**
 * Returns the text with labels in place of blocks, which are in order. With `normalization`, a numbered text keeps
 * the numbers of the first line of each run, of every tenth, and of lines after a label; otherwise all. The
 * first line states what was removed.
 */
export function render(
  text: CompressedText,
  { stretches, normalization, ref }: {
    readonly stretches: readonly Labelled[];
    readonly normalization: boolean;
    readonly ref: string;
  },
): string {
  const { lines, lineNumbers, numbers } = text;
  const isShorter = normalization || stretches.length > 0;
  const output = isShorter ? headerOf(text, { normalization, ref }) : [];
  let at = 0;
  let before = NaN;
  const showTo = (end: number) => {
    for (; at < end; at++) {
      const number = lineNumbers?.[at] ?? -1;
      const isMarked = number >= 0 && (!normalization || number !== before + 1 || number % 10 === 0);
      output.push(isMarked ? `${numberMark(numbers!, number)}${lines[at]}` : lines[at]!);
      if (lines[at] !== numbers?.blank) before = number < 0 ? NaN : number;
    }
  };
  for (const { from, to, label } of stretches) {
    showTo(from);
    output.push(label);
    at = to;
    before = NaN;
  }
  showTo(lines.length);
  return output.join("\n");
}

/** Reference to lines that are already visible above. Plain data. */
export interface Reference {
  /** The first line, as {@linkcode compress} returns them, and the line after the last. */
  readonly from: number;
  readonly to: number;
  readonly source: number;
  readonly hash: number;
  /** Name of the source: a file or a tool. */
  readonly as: string;
  /** Tokens of the lines, less those of the label. */
  readonly tokens: number;
}

export interface IngestEdit {
  readonly type: "ingest";
  readonly index: number;
  readonly toolCallId: string;
  readonly hash: number;
  readonly ref: string;
  readonly how: Compression;
  /** Whether the compressed text is visible. Otherwise the compression only finds equal lines. */
  readonly normalization: boolean;
  /** Tokens removed by normalization. */
  readonly normalizationTokens: number;
  readonly references: readonly Reference[];
}

const FIRST_CHARACTERS = 40;
const LAST_CHARACTERS = 24;

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

/** Returns a result after this edit; the same object on each call. */
export function ingested(message: Message, edit: IngestEdit): Message {
  const known = visible.get(message);
  if (known?.edit === edit) return known.visible;
  const made = { ...message, content: ingestedText(message, edit) } as Message;
  visible.set(message, { edit, visible: made });
  return made;
}

const visible = new WeakMap<Message, { readonly edit: IngestEdit; readonly visible: Message }>();

export function ingestedText(
  message: Message,
  { how, normalization, references, ref = LIKE_A_REF }:
    & Pick<IngestEdit, "how" | "normalization" | "references">
    & Partial<Pick<IngestEdit, "ref">>,
): string {
  const text = message.role === "tool" ? resultText(message) : undefined;
  const compressed = compress(text ?? "", how);
  const stretches = references.map((one) => ({ ...one, label: labelOf(compressed, one) }));
  return render(compressed, { normalization, stretches, ref });
}

const LIKE_A_REF = "0123456789abcdef";
