import { contentText, meantCall, type Message, type ToolCall } from "@tare/messages";
import { type ToolTraits, traitsOf } from "@tare/prune";

/** What a message says of itself, as far as a retention rule asks. */
export interface Facts {
  /** Whether it shows a file: a read's result, or a call that edits or writes. */
  readonly fileText: boolean;
  /** Whether it edits or writes. */
  readonly edits: boolean;
  /** Names of the files that it reads or writes, without their folders. */
  readonly files: readonly string[];
  /** The names in it. */
  readonly names: ReadonlySet<string>;
  /** Names to which its calls refer. */
  readonly wants: ReadonlySet<string>;
}

/** What a call is about. */
interface CallFacts {
  readonly reads: boolean;
  readonly edits: boolean;
  readonly files: readonly string[];
  /** Every text in its arguments. */
  readonly texts: readonly string[];
}

const READS = /^(?:read|read_?file|view|open|cat|notebook_?read)$/i;
const EDITS =
  /^(?:(?:multi|notebook)?_?edit(?:_?file)?|write(?:_?file)?|create|apply_?patch|str_replace\w*)$/i;
const SHELLS = /^(?:bash|shell|exec_command|power_?shell|run_command|local_shell|terminal)$/i;
const READING_COMMAND = /(?:^|[\s;&|(])(?:cat|sed -n|nl|head)\s(?!.*(?:<<|>\s*\S))/;
const FILE_IN_COMMAND = /[\w@./-]*[\w-]\.[A-Za-z]\w{0,5}\b/g;
const FILE_IN_PATCH = /^\*\*\* (?:Update|Add) File: (.+)$/gm;
const PATH_ARGUMENT = /^(?:file_?)?(?:path|name)$|^file$/i;
/** Of longer texts head and tail are looked at. */
const MAX_CHARS = 200_000;

/**
 * The facts of a message. Tools say by their traits what they read and write; those of other people's agents are known
 * by the names that tools commonly have.
 *
 * @param answered The call that it answers.
 */
export function findFacts(
  message: Message,
  { answered, tools }: {
    readonly answered: ToolCall | undefined;
    readonly tools: Readonly<Record<string, ToolTraits>> | undefined;
  },
): Facts {
  const calls = message.role === "assistant"
    ? (message.tool_calls ?? []).map((call) => readCall(call, tools))
    : [];
  const about = answered && readCall(answered, tools);
  const reads = about?.reads === true;
  const edits = calls.some((call) => call.edits);
  const wants = new Set<string>();
  for (const { texts } of calls) for (const text of texts) addNames(wants, text);
  const names = new Set(wants);
  addNames(names, contentText(message.content));
  return {
    fileText: reads || edits,
    edits,
    files: [...new Set([...calls.flatMap(({ files }) => files), ...(reads ? about.files : [])])],
    names,
    wants,
  };
}

/** The words of a text that could name a file, without folders. */
export function fileNamesIn(text: string): string[] {
  return (headAndTail(text).match(/[\w@.-]+/g) ?? []).map((word) => word.replace(/\.+$/, ""));
}

const known = new WeakMap<ToolCall, CallFacts>();

function readCall(call: ToolCall, tools: Readonly<Record<string, ToolTraits>> | undefined): CallFacts {
  let facts = known.get(call);
  if (!facts) known.set(call, facts = parseCall(call, tools));
  return facts;
}

function parseCall(call: ToolCall, tools: Readonly<Record<string, ToolTraits>> | undefined): CallFacts {
  const { name: tool, arguments: input } = meantCall(call);
  const traits = traitsOf(tool, { ...(tools && { tools }) });
  const values = argumentsIn(input);
  const texts = values.map(({ text }) => text);
  const patches = texts.filter((text) => text.includes("*** Begin Patch"));
  const edits = EDITS.test(tool) || patches.length > 0 || traits.writes !== undefined;
  const readsFile = !edits && (READS.test(tool) || traits.reads !== undefined);
  const command = SHELLS.test(tool) && !edits ? texts.find((text) => READING_COMMAND.test(text)) : undefined;
  const isPath = (name: string) =>
    name === traits.reads || name === traits.writes || PATH_ARGUMENT.test(name);
  const files = [
    ...(edits || readsFile ? values.flatMap(({ name, text }) => isPath(name) ? [text] : []) : []),
    ...patches.flatMap((text) => [...text.matchAll(FILE_IN_PATCH)].flatMap(([, file]) => file ?? [])),
    ...(command?.match(FILE_IN_COMMAND) ?? []),
  ];
  return {
    reads: readsFile || command !== undefined,
    edits,
    files: files.map((file) => file.split(/[/\\]/).findLast((part) => part !== "") ?? file),
    texts,
  };
}

interface Argument {
  readonly name: string;
  readonly text: string;
}

/** Every text in a call's arguments, with the name of the argument that holds it. */
function argumentsIn(input: string): Argument[] {
  try {
    return textsIn("", JSON.parse(input));
  } catch {
    // No JSON, or nested too deep to walk.
    return [{ name: "", text: input }];
  }
}

function textsIn(name: string, value: unknown): Argument[] {
  if (typeof value === "string") return [{ name, text: value }];
  if (Array.isArray(value)) return value.flatMap((part) => textsIn(name, part));
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, part]) => textsIn(key, part));
}

/** Kinds of the characters that names are made of; a sign stands inside of names alone. */
const [SIGN, LOWER, UPPER, OTHER] = [1, 2, 3, 4];

/** By code of an ASCII character; 0 is no part of a name. */
const KINDS = Uint8Array.from({ length: 128 }, (_, code) => {
  const character = String.fromCharCode(code);
  if (/[./-]/.test(character)) return SIGN;
  if (/[a-z]/.test(character)) return LOWER;
  if (/[A-Z]/.test(character)) return UPPER;
  return /[0-9_]/.test(character) ? OTHER : 0;
});

/** Length of the shortest name. */
const SHORTEST_NAME = 8;

/**
 * Adds the names in a text: words that prose doesn't hold, with a digit, a sign or an inner capital. Every text that
 * comes is looked through, and character by character that takes half the time that a pattern takes.
 */
function addNames(names: Set<string>, text: string): void {
  const seen = headAndTail(text);
  const kindAt = (at: number) => KINDS[seen.charCodeAt(at)] ?? 0;
  for (let at = 0; at < seen.length; at++) {
    if (kindAt(at) <= SIGN) continue;
    const start = at;
    let end = at;
    let isName = false;
    let hasSign = false;
    for (let kind = 0, before = 0; at < seen.length && (kind = kindAt(at)) > 0; at++, before = kind) {
      if (kind === SIGN) hasSign = true;
      else {
        end = at + 1;
        isName ||= hasSign || kind === OTHER || kind === UPPER && before === LOWER;
      }
    }
    if (isName && end - start >= SHORTEST_NAME) names.add(seen.slice(start, end));
  }
}

function headAndTail(text: string): string {
  if (text.length <= MAX_CHARS) return text;
  return `${text.slice(0, MAX_CHARS / 2)}\n${text.slice(-MAX_CHARS / 2)}`;
}
