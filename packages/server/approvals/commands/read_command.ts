import { parse } from "unbash";

/** A word of a command, as the program gets it. */
export interface CommandWord {
  readonly text: string;
  /** Whether the shell puts names of files in its place: then `text` is the pattern. */
  readonly isPattern: boolean;
}

/** The parts of a command's syntax tree that are looked at. */
interface Node {
  readonly type?: string;
  readonly text?: string;
  readonly value?: unknown;
  readonly parts?: readonly Node[];
  /** Of what the shell replaces by a command's output. */
  readonly script?: unknown;
}

/** What could be something else to another shell than to the one whose grammar is read here, unquoted. */
const SPECIAL = /[$`()<>|&;!]|^~|\{[^{}]*(?:,|\.\.)[^{}]*\}/;

/** All that is no character to see, but for the blank and the tab. */
const CONTROL = /[^\P{Cc}\t]/u;

/** Nobody reads a longer one. */
const MAX_CHARS = 16_384;

/**
 * The words of a command, if it is one plain command and nothing else: no operator, no redirection, nothing that the shell
 * sets or replaces but patterns of files. Undefined if it isn't, or can't be read.
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
  // Where the grammar is broken the parser goes on behind it: then what lies between the words isn't blank.
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

/** Every word of a command, whatever it is made of, as far as it can be read: what it may be about. */
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

/** Whether a node has what a plain one hasn't: in the background, with redirections, or what the grammar gets to know. */
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
        // So that a tilde behind it isn't the first character.
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
