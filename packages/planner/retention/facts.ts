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
const NAME = /[A-Za-z0-9_][A-Za-z0-9_./-]{6,}[A-Za-z0-9_]/g;
/** A word that prose doesn't hold: with a digit, a sign or an inner capital. */
const NO_PLAIN_WORD = /[0-9_./-]|[a-z][A-Z]/;
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
  const wants = new Set(calls.flatMap(({ texts }) => texts.flatMap(namesIn)));
  const names = new Set(wants);
  for (const name of namesIn(contentText(message.content))) names.add(name);
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

function namesIn(text: string): string[] {
  return (headAndTail(text).match(NAME) ?? []).filter((word) => NO_PLAIN_WORD.test(word));
}

function headAndTail(text: string): string {
  if (text.length <= MAX_CHARS) return text;
  return `${text.slice(0, MAX_CHARS / 2)}\n${text.slice(-MAX_CHARS / 2)}`;
}
