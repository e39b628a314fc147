import { contentText, type Message, type ToolCall } from "@tare/messages";

/** What a message shows: the lines and the names in it, those of its calls' arguments included. */
interface Shown {
  readonly lines: ReadonlySet<string>;
  readonly names: ReadonlySet<string>;
}

/** What the calls of a message rely on, whether or not it is shown. */
export interface Wanted extends Shown {
  /** Calls that replace a text by another and so must know the old one. */
  readonly edits: readonly ReadonlySet<string>[];
}

/** Characters of a line, white space normalised, below which it says nothing of where it is from. */
const LINE_CHARACTERS = 12;

const WORD = /[A-Za-z0-9_./-]{8,}/g;

/** A part of a name: what stands between its dots, slashes and hyphens. */
const PART = /[A-Za-z0-9_]{2,}/g;

/** A word that no prose holds: with a digit, a sign or an inner capital. */
const NO_PLAIN_WORD = /[0-9_./-]|[a-z][A-Z]/;

/** The number in front of a line, perhaps with the file's name, as `cat -n`, `nl`, `grep -n` and read tools write it. */
const LINE_NUMBER = /^\s*(?:[\w./@-]+[:-])?\d+[→\t:|-]/;

/** Names under which tools take the text that an edit replaces. */
const OLD_TEXT = new Set(["old_string", "oldText", "old_str", "old"]);

const shownSets = new WeakMap<Message, Shown>();
const partSets = new WeakMap<Message, ReadonlySet<string>>();

/** What a message shows, whatever stands in it for something else left out. */
export function shownBy(message: Message): Shown {
  let shown = shownSets.get(message);
  if (!shown) {
    const texts = shownTexts(message);
    shown = { lines: new Set(texts.flatMap(linesOf)), names: new Set(texts.flatMap(namesOf)) };
    shownSets.set(message, shown);
  }
  return shown;
}

/** The parts of names, and all other words, that a message shows, likewise. */
export function partsShownBy(message: Message): ReadonlySet<string> {
  let parts = partSets.get(message);
  if (!parts) {
    parts = new Set(shownTexts(message).flatMap(partsOf));
    partSets.set(message, parts);
  }
  return parts;
}

/** The parts of a name or of all words of a text. */
export function partsOf(text: string): readonly string[] {
  return text.match(PART) ?? [];
}

/** The texts of a message without the lines that stand in them for something else. */
function shownTexts(message: Message): string[] {
  return messageTexts(message).map((text) => {
    const lines = text.split("\n");
    return lines.filter((line, at) => !isStandIn(line, lines[at - 1])).join("\n");
  });
}

/**
 * Whether a line stands for what isn't there: for what left (`[elided: …]`, and a list of names behind it), or, as a
 * reference, for lines that are shown elsewhere (`[lines 3-40 unchanged, as in a.ts above: "…" to "…"]`, or a number
 * of lines). What it
 * quotes or lists isn't shown by it. Read apart from every policy on purpose: a policy must not choose by what it is
 * judged by.
 */
function isStandIn(line: string, before = ""): boolean {
  return isPlaceholder(line) || isReference(line) || (line.startsWith("It names: ") && isPlaceholder(before));
}

function isPlaceholder(line: string): boolean {
  return line.startsWith("[elided: ") && line.endsWith("]");
}

function isReference(line: string): boolean {
  const label = line.trim();
  return label.startsWith("[") && label.includes(" unchanged, as in ") && label.endsWith("]");
}

/** Returns what calls rely on: lines that an edit replaces, and names in arguments; only if they occurred before. */
export function wantedBy(answer: Message | undefined): Wanted {
  const names = new Set<string>();
  const edits: ReadonlySet<string>[] = [];
  for (const call of answer?.role === "assistant" ? answer.tool_calls ?? [] : []) {
    const old = new Set(oldTexts(call).flatMap(linesOf));
    if (old.size > 0) edits.push(old);
    for (const text of argumentTexts(call)) for (const name of namesOf(text)) names.add(name);
  }
  return { lines: new Set(edits.flatMap((lines) => [...lines])), names, edits };
}

/** The lines of a text, without line numbers and diff signs, white space normalised. */
function linesOf(text: string): string[] {
  return text.split("\n").map(plainLine).filter((line) => line.length >= LINE_CHARACTERS);
}

function plainLine(line: string): string {
  return line.replace(LINE_NUMBER, "").trim().replace(/^[+-]/, "").replaceAll(/\s+/g, " ").trim();
}

/** Words of at least eight characters that are no plain words. */
function namesOf(text: string): string[] {
  return (text.match(WORD) ?? [])
    .map((word) => word.replace(/^[.-]+|[./-]+$/g, ""))
    .filter((word) => word.length >= 8 && NO_PLAIN_WORD.test(word) && /[A-Za-z]/.test(word));
}

/** Every text of a message: its content, and the texts in its calls' arguments. */
export function messageTexts(message: Message): string[] {
  const calls = message.role === "assistant" ? message.tool_calls ?? [] : [];
  return [contentText(message.content), ...calls.flatMap(argumentTexts)];
}

/** Every text in a call's arguments; the arguments themselves if they are no JSON. */
function argumentTexts(call: ToolCall): string[] {
  return textsIn(parsedArguments(call));
}

function textsIn(value: unknown): string[] {
  if (typeof value === "string") return [value];
  if (typeof value !== "object" || value === null) return [];
  return Object.values(value).flatMap(textsIn);
}

function oldTexts(call: ToolCall): string[] {
  const texts: string[] = [];
  const visit = (value: unknown): void => {
    if (typeof value === "string") texts.push(...patchedLines(value));
    if (typeof value !== "object" || value === null) return;
    for (const [name, part] of Object.entries(value)) {
      if (OLD_TEXT.has(name) && typeof part === "string") texts.push(part);
      else visit(part);
    }
  };
  visit(parsedArguments(call));
  return texts;
}

/** The context and minus lines of a patch. */
function patchedLines(text: string): string[] {
  const start = text.indexOf("*** Begin Patch");
  if (start < 0) return [];
  const lines: string[] = [];
  let updating = false;
  for (const line of text.slice(start).split("\n")) {
    if (line.startsWith("*** ")) updating = /^\*\*\* (?:Update File|Move to): /.test(line);
    else if (updating && /^[ -]/.test(line)) lines.push(line.slice(1));
  }
  return lines;
}

function parsedArguments(call: ToolCall): unknown {
  const text = call.type === "custom" ? call.custom.input : call.function.arguments;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
