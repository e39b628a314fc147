import type { Message } from "@tare/messages";
import { resultText } from "@tare/prune";

/** A text as lines. Plain data. */
export interface Notated {
  /** Its lines without their numbers, in the form in which they are shown. */
  readonly lines: readonly string[];
  /** Of a numbered text, each line's number; −1 of a line that has none. */
  readonly numbers?: readonly number[];
  /** Of a numbered text, what stands in front of each line. */
  readonly marks?: readonly string[];
}

/** A text that is numbered has more numbers than this, in over half of its lines. */
const LEAST_NUMBERED = 5;

/** Notation is looked for where more lines than this have it. */
const LEAST_HITS = 3;
const LEAST_PATHS = 4;
const LEAST_EQUAL = 3;

/** Share of the paths that stand in one folder. */
const SHARED_FOLDER = 0.6;

const NUMBER = /^\s*(\d{1,7})(?:→|\t|\| ?)/;
const HIT = /^((?:[A-Za-z]:)?[^:\s][^:\n]*):(\d+):/;
/** What tells a file's path from a time or the name of a host. */
const FILE = /[/\\]|\.[A-Za-z]\w*$/;
// deno-lint-ignore no-control-regex
const TERMINAL_CODE = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])/g;
/** Longest path, in characters, and what none holds. */
const LONGEST_PATH = 1_000;
const NO_PATH = /[\s:"'`<>|*?(){}]/;

/**
 * A text without notation that says nothing: terminal codes and what they overwrote, the path in front of each hit of
 * a search, the folder that all paths of a list share, white space between the parts of JSON, lines that repeat the one
 * above. Of a numbered text and of a file's only line numbers go, which edits don't quote (see {@linkcode render}).
 *
 * @param fileText Whether it shows a file: then it is left as it is, but for its numbers.
 * @param notation Whether anything is shortened at all. Default: yes.
 */
export function notate(
  text: string,
  { fileText, notation = true }: { readonly fileText: boolean; readonly notation?: boolean },
): Notated {
  const raw = text.split("\n");
  const numbered = withoutNumbers(raw);
  if (numbered) return numbered;
  if (fileText || !notation) return { lines: raw };
  const plain = withoutTerminalCodes(raw);
  const json = compactJson(plain.length === raw.length ? text : plain.join("\n"));
  if (json !== undefined) return { lines: [json] };
  return { lines: withoutRepeats(withSharedFolder(withHeadings(plain))) };
}

/** The lines of a text that is numbered, apart from their numbers; nothing if it isn't. */
function withoutNumbers(raw: readonly string[]): Required<Notated> | undefined {
  if (!mayBeNumbered(raw)) return undefined;
  const lines: string[] = [];
  const numbers: number[] = [];
  const marks: string[] = [];
  let numbered = 0;
  let last = -1;
  for (const line of raw) {
    const [mark = "", digits] = NUMBER.exec(line) ?? [];
    const number = digits === undefined ? -1 : Number(digits);
    // A table of data counts up too, but not in steps of one.
    const isNext = number > last;
    if (isNext) {
      numbered++;
      last = number;
    }
    numbers.push(isNext ? number : -1);
    marks.push(isNext ? mark : "");
    lines.push(isNext ? line.slice(mark.length) : line);
  }
  const isNumbered = numbered > LEAST_NUMBERED && 2 * numbered > raw.length;
  const steps = numbers.filter((number, at) => number >= 0 && number === (numbers[at - 1] ?? NaN) + 1).length;
  return isNumbered && 2 * steps > numbered ? { lines, numbers, marks } : undefined;
}

/** Whether over half of the lines begin with a number: most texts' don't, and all that come are looked through. */
function mayBeNumbered(raw: readonly string[]): boolean {
  let others = 0;
  for (const line of raw) if (!NUMBER.test(line) && 2 * ++others >= raw.length) return false;
  return raw.length > LEAST_NUMBERED;
}

/** The lines as a terminal shows them in the end. */
function withoutTerminalCodes(lines: readonly string[]): readonly string[] {
  return lines.map((line) => {
    if (!line.includes("\x1b") && !line.includes("\r")) return line;
    const plain = line.replace(TERMINAL_CODE, "");
    const end = plain.endsWith("\r") ? plain.length - 1 : plain.length;
    const over = plain.lastIndexOf("\r", end - 1);
    return over < 0 ? plain : plain.slice(over + 1);
  });
}

/** JSON without the white space between its parts; nothing if the text is none. */
function compactJson(text: string): string | undefined {
  const first = text.trimStart()[0];
  if (first !== "{" && first !== "[") return undefined;
  try {
    JSON.parse(text);
  } catch {
    return undefined;
  }
  // Numbers stay as they are written.
  return text.replace(/("[^"\\]*(?:\\.[^"\\]*)*")|\s+/g, (_, string?: string) => string ?? "");
}

/** Hits of a search under a heading for each file in place of its path in front of each. */
function withHeadings(lines: readonly string[]): readonly string[] {
  const hits = lines.map((line) => {
    const path = HIT.exec(line)?.[1];
    return path !== undefined && FILE.test(path) ? path : undefined;
  });
  const count = hits.filter((path) => path !== undefined).length;
  if (count <= LEAST_HITS || 2 * count <= lines.length) return lines;
  const shown: string[] = [];
  let heading: string | undefined;
  for (const [at, line] of lines.entries()) {
    let path = hits[at];
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
  return shorter(shown, lines);
}

function isAround(line: string, path: string): boolean {
  return line.startsWith(`${path}-`) && /^\d+-/.test(line.slice(path.length + 1));
}

/** Paths behind the folder that they share, which is said once. */
function withSharedFolder(lines: readonly string[]): readonly string[] {
  const words = lines.filter((line) => line !== "" && !/\s/.test(line));
  const paths = words.filter(isPath);
  if (paths.length <= LEAST_PATHS || paths.length <= SHARED_FOLDER * lines.length) return lines;
  const folder = sharedFolder(paths);
  // A path from elsewhere would read like one from there.
  if (folder === "" || words.some((line) => !line.startsWith(folder) || line === folder)) return lines;
  const shown = lines.map((line) => line.startsWith(folder) ? line.slice(folder.length) : line);
  return shorter([`${folder}:`, ...shown], lines);
}

function isPath(line: string): boolean {
  if (line.length > LONGEST_PATH || !/[/\\]/.test(line)) return false;
  // A drive's letter has a colon behind it.
  return !NO_PATH.test(line.replace(/^[A-Za-z]:/, ""));
}

function sharedFolder([first = "", ...others]: readonly string[]): string {
  let length = first.length;
  for (const path of others) {
    let at = 0;
    while (at < length && path[at] === first[at]) at++;
    length = at;
  }
  const folder = first.slice(0, length);
  return folder.slice(0, 1 + Math.max(folder.lastIndexOf("/"), folder.lastIndexOf("\\")));
}

/** One line and a count in place of several that are equal. */
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

function shorter(shown: readonly string[], lines: readonly string[]): readonly string[] {
  const length = (all: readonly string[]) => all.reduce((sum, line) => sum + line.length + 1, 0);
  return length(shown) < length(lines) ? shown : lines;
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
 * number of its first line, of each tenth, and of lines behind a gap; otherwise all numbers.
 */
export function render(
  { lines, numbers, marks }: Notated,
  { stretches = [], notation = true }: {
    readonly stretches?: readonly Labelled[];
    readonly notation?: boolean;
  } = {},
): string {
  if (stretches.length === 0 && !numbers) return lines.join("\n");
  const shown: string[] = [];
  let at = 0;
  let before = NaN;
  const showTo = (end: number) => {
    for (; at < end; at++) {
      const number = numbers?.[at] ?? -1;
      const isMarked = !notation || number !== before + 1 || number % 10 === 0;
      shown.push(isMarked ? `${marks?.[at] ?? ""}${lines[at]}` : lines[at]!);
      before = number < 0 ? NaN : number;
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
  /** The first of the result's lines, as {@linkcode notate} gives them, and the one behind the last. */
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

/** Shows a tool result without what says nothing or stands in the prompt already, from its first send on. */
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
  /** Whether it shows a file. */
  readonly fileText: boolean;
  /** Whether notation that says nothing is left out. */
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
  return {
    first: lines[from]!.trim().slice(0, FIRST_CHARACTERS),
    last: lines[to - 1]!.trim().slice(-LAST_CHARACTERS),
  };
}

/** The line that the model sees in place of a block; a numbered text says which lines it has. */
export function labelOf(
  { lines, numbers }: ReturnType<typeof notate>,
  reference: Pick<Reference, "from" | "to" | "as">,
): string {
  const { from, to, as } = reference;
  const { first, last } = quotesOf(lines, reference);
  const [start = -1, end = -1] = [numbers?.[from], numbers?.[to - 1]];
  const which = start >= 0 && end >= 0 ? `lines ${start}-${end}` : `${to - from} lines`;
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
  { fileText, notation, references }: Pick<SayEdit, "fileText" | "notation" | "references">,
): string {
  const text = message.role === "tool" ? resultText(message) : undefined;
  const notated = notate(text ?? "", { fileText, notation });
  const stretches = references.map((one) => ({ ...one, label: labelOf(notated, one) }));
  return render(notated, { notation, stretches });
}
