import { meantCall, type ToolCall } from "@tare/messages";
import { type PruneOptions, traitsOf } from "@tare/prune";

/** What a call is about. */
export interface CallFacts {
  /** Whether it shows a file. */
  readonly reads: boolean;
  /** Whether it edits or writes. */
  readonly edits: boolean;
  /** Names of the files that it reads or writes, without their folders. */
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

const known = new WeakMap<ToolCall, CallFacts>();

/** What a call is about: tools say by their traits what they read and write; others are known by the names that tools commonly have. */
export function readCall(call: ToolCall, tools: PruneOptions["tools"]): CallFacts {
  let facts = known.get(call);
  if (!facts) known.set(call, facts = parseCall(call, tools));
  return facts;
}

function parseCall(call: ToolCall, tools: PruneOptions["tools"]): CallFacts {
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
