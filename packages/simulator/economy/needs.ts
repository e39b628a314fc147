import { contentText, type Message, type ToolCall } from "@tare/messages";

interface VisibleSet {
  readonly lines: ReadonlySet<string>;
  readonly names: ReadonlySet<string>;
}

export interface Wanted extends VisibleSet {
  /** Old lines of each call that replaces a text. */
  readonly edits: readonly ReadonlySet<string>[];
}

/** Shortest line that identifies its source, in characters after normalizing white space. */
const LINE_CHARACTERS = 12;

const WORD = /[A-Za-z0-9_./-]{8,}/g;

const PART = /[A-Za-z0-9_]{2,}/g;

/** A word that doesn't occur in prose: with a digit, a symbol or an inner capital. */
const NO_PLAIN_WORD = /[0-9_./-]|[a-z][A-Z]/;

/** A line number prefix as written by `cat -n`, `nl`, `grep -n` and read tools, optionally with a file name. */
const LINE_NUMBER = /^\s*(?:[\w./@-]+[:-])?\d+[→\t:|-]/;

const OLD_TEXT = new Set(["old_string", "oldText", "old_str", "old"]);

const visibleSets = new WeakMap<Message, VisibleSet>();
const partSets = new WeakMap<Message, ReadonlySet<string>>();

/** Returns the visible lines and names of a message, without placeholders and references. */
export function visibleSetsOf(message: Message): VisibleSet {
  let visibleSet = visibleSets.get(message);
  if (!visibleSet) {
    const texts = visibleTexts(message);
    visibleSet = { lines: new Set(texts.flatMap(linesOf)), names: new Set(texts.flatMap(namesOf)) };
    visibleSets.set(message, visibleSet);
  }
  return visibleSet;
}

/** Returns the visible words and parts of names of a message, without placeholders and references. */
export function visibleParts(message: Message): ReadonlySet<string> {
  let parts = partSets.get(message);
  if (!parts) {
    parts = new Set(visibleTexts(message).flatMap(partsOf));
    partSets.set(message, parts);
  }
  return parts;
}

export function partsOf(text: string): readonly string[] {
  return text.match(PART) ?? [];
}

function visibleTexts(message: Message): string[] {
  return messageTexts(message).map((text) => {
    const lines = text.split("\n");
    return lines.filter((line, at) => !isStandIn(line, lines[at - 1])).join("\n");
  });
}

/**
 * Returns whether a line is a placeholder of evicted content (`[elided: …]`, and the list of names after it) or a reference
 * to lines elsewhere (`[lines 3-40 unchanged, as in a.ts above: "…" to "…"]`). Its quotes and names aren't visible content.
 * Implemented independently of all policies, so that none is judged by its own criterion.
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

/** Returns what calls depend on: lines that an edit replaces, and names in arguments; only if they occurred before. */
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

function linesOf(text: string): string[] {
  return text.split("\n").map(plainLine).filter((line) => line.length >= LINE_CHARACTERS);
}

function plainLine(line: string): string {
  return line.replace(LINE_NUMBER, "").trim().replace(/^[+-]/, "").replaceAll(/\s+/g, " ").trim();
}

/** Returns the words of at least eight characters that don't occur in prose. */
function namesOf(text: string): string[] {
  return (text.match(WORD) ?? [])
    .map((word) => word.replace(/^[.-]+|[./-]+$/g, ""))
    .filter((word) => word.length >= 8 && NO_PLAIN_WORD.test(word) && /[A-Za-z]/.test(word));
}

export function messageTexts(message: Message): string[] {
  const calls = message.role === "assistant" ? message.tool_calls ?? [] : [];
  return [contentText(message.content), ...calls.flatMap(argumentTexts)];
}

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
