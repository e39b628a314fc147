import { parse } from "unbash";

/** A word of a command, as the program receives it. */
export interface CommandWord {
  readonly text: string;
  /** Whether the shell expands it to file names: then `text` is the pattern. */
  readonly isPattern: boolean;
}

interface Node {
  readonly type?: string;
  readonly text?: string;
  readonly value?: unknown;
  readonly parts?: readonly Node[];
  readonly script?: unknown;
}

/** Unquoted characters that may have a meaning in other shells. */
const SPECIAL = /[$`()<>|&;!]|^~|\{[^{}]*(?:,|\.\.)[^{}]*\}/;

/** Invisible characters except blank and tab. */
const CONTROL = /[^\P{Cc}\t]/u;

/** Longest command that is read. */
const MAX_CHARS = 16_384;

/**
 * Returns the words of a simple command: without operators, redirections, assignments and expansions other than file
 * patterns; `undefined` for others, and if it can't be read.
 */
export function readCommand(command: string): readonly CommandWord[] | undefined {
  if (command.length > MAX_CHARS || CONTROL.test(command)) return undefined;
  const { commands, errors = [] } = parse(command);
  const [statement, ...others] = commands;
  if (errors.length > 0 || others.length > 0 || statement === undefined) return undefined;
  const { type: _type, pos: _pos, end: _end, command: only, ...more } = statement;
  if (only.type !== "Command" || holdsMore(more)) return undefined;
  const { name, prefix, suffix, type: _kind, pos: _from, end: _to, ...rest } = only;
  if (!name || prefix.length > 0 || holdsMore(rest)) return undefined;
  // The parser continues after an error: then the text between words isn't blank.
  const ends = [0, name.end, ...suffix.map(({ end }) => end)];
  const gaps = [...[name, ...suffix].map(({ pos }) => pos), command.length]
    .map((pos, index) => command.slice(ends[index], pos));
  if (
    gaps.some((gap, index) => !(index < gaps.length - 1 ? /^[ \t]*$/ : /^[ \t]*(?:[ \t]#.*)?$/).test(gap))
  ) {
    return undefined;
  }
  const words = [name, ...suffix].map((node) => readWord(node as Node));
  return words.every((word) => word !== undefined) && !words[0]!.isPattern ? words : undefined;
}

/** Returns every readable word of any command, for denials. */
export function wordsIn(command: string): readonly string[] {
  const words: string[] = [];
  const look = (node: unknown): void => {
    if (typeof node !== "object" || node === null) return;
    const { type, value, text, parts, script } = node as Node;
    if (type === "Word") words.push(...[value, text].filter((one) => typeof one === "string"));
    for (const part of [...Object.values(node), parts, script]) look(part);
  };
  if (command.length <= MAX_CHARS) look(parse(command));
  return words;
}

/** Returns whether a node is more than simple: background, redirections, or unknown fields. */
function holdsMore(fields: Readonly<Record<string, unknown>>): boolean {
  return Object.values(fields).some((value) => value !== undefined);
}

function readWord({ type, text = "", value, parts }: Node): CommandWord | undefined {
  if (type !== "Word" || typeof value !== "string") return undefined;
  let isPattern = false;
  let unquoted = parts ? "" : text;
  for (const part of parts ?? []) {
    switch (part.type) {
      case "SingleQuoted":
        // A tilde after it is then not the first character.
        unquoted += "_";
        break;
      case "DoubleQuoted":
        if (part.parts?.some((inner) => inner.type !== "Literal")) return undefined;
        unquoted += "_";
        break;
      case "Glob":
        if (part.parts?.some((inner) => inner.type !== "Literal")) return undefined;
        isPattern = true;
        unquoted += "_";
        break;
      case "Literal":
        unquoted += part.text ?? "";
        break;
      default:
        return undefined;
    }
  }
  return SPECIAL.test(unquoted.replaceAll(/\\[^]/g, "_")) ? undefined : { text: value, isPattern };
}
