import type { ToolCall } from "@tare/messages";
import { meantCall } from "@tare/messages/internal";
import type { ToolTraits } from "@tare/prune";
import { traitsOf } from "@tare/prune/internal";
import { readScript, type ShellCommand, type ShellScript } from "./shell_script.ts";

/** Form of line numbers of a tool or command. Plain data. */
export interface LineNumbers {
  readonly width: number;
  /** Padding character. Default: a space. */
  readonly pad?: string;
  readonly mark: string;
  /** A line that has no number and isn't counted. Default: all lines are counted. */
  readonly blank?: string;
  /** The line above the first one. Default: any if there is a width, otherwise none. */
  readonly below?: string;
}

/**
 * Use of a tool: `reads` files, `edits` or writes them, either by its argument `command`, `runs` commands,
 * `continues` the output of one, `finds` lines in files, or `lists` files.
 */
export type ToolUse = "reads" | "edits" | "readsOrEdits" | "runs" | "continues" | "finds" | "lists";

/**
 * Tools of known agents by use, for tools without traits. Repeated calls that read, find or list return the
 * same until a write. A name is listed with its first agent.
 */
const TOOLS: Readonly<Record<ToolUse, readonly string[]>> = {
  reads: [
    "Read NotebookRead", // Claude Code, Continue; `read` of opencode, Kilo, pi, OpenClaw
    "read_file read_many_files", // Qwen Code, Gemini CLI, Codex, Cline, Roo, Cursor, Tare, MCP servers; `ReadFile` of Kimi Code
    "read_files", // Cline
    "view", // Copilot CLI, Crush
    "read_currently_open_file read_file_range", // Continue
    "read_text_file read_multiple_files get_file_contents read_resource", // MCP servers
    "open cat",
  ],
  edits: [
    "Edit MultiEdit Write NotebookEdit", // Claude Code; `edit`, `write` of opencode, pi, Qwen Code, Copilot
    "apply_patch patch", // Codex, opencode
    "write_file replace", // Qwen Code, Gemini CLI, Tare, MCP servers
    "write_to_file replace_in_file apply_diff insert_content search_and_replace", // Cline, Roo
    "create create_file replace_string_in_file multi_replace_string_in_file insert_edit_into_file", // Copilot
    "edit_existing_file single_find_and_replace multi_edit create_new_file", // Continue
    "StrReplaceFile", // Kimi Code
    "edit_file search_replace create_or_update_file", // Cursor, Zed, Tare, MCP servers
  ],
  readsOrEdits: ["str_replace_editor str_replace_based_edit_tool file_editor text_editor"], // OpenHands, Goose
  runs: [
    "Bash PowerShell", // Claude Code; `bash` of opencode, pi, Copilot
    "exec_command shell shell_command local_shell container.exec", // Codex; `shell` of Tare, Kimi Code
    "run_shell_command", // Qwen Code, Gemini CLI
    "execute_command run_commands", // Cline, Roo
    "run_in_terminal run_terminal_command", // Copilot, Continue
    "exec execute_bash terminal run_terminal_cmd", // OpenClaw, OpenHands, Zed, Cursor
    "run_command execute_shell_command start_process", // MCP servers
  ],
  continues: [
    "BashOutput TaskOutput write_stdin process job_output background", // Claude Code, Codex, OpenClaw, Crush, Tare
    "read_bash write_bash read_powershell write_powershell get_terminal_output", // Copilot
    "read_process_output interact_with_process", // MCP servers
  ],
  finds: ["Grep grep_files search_file_content grep_search search_files"],
  lists: ["Glob LS list list_dir list_files list_directory file_search file_glob_search"],
};

const CAT: LineNumbers = { width: 6, mark: "\t" };
const ARROW: LineNumbers = { width: 6, mark: "→" };

/** Line numbers by exact tool name. An argument distinguishes tools of the same name without numbers. */
const NUMBERED: Readonly<Record<string, readonly (LineNumbers & { readonly argument?: string })[]>> = {
  // Claude Code; newer versions have no padding.
  Read: [
    ARROW,
    { ...CAT, argument: "file_path" },
    { width: 0, mark: "\t", argument: "file_path" },
  ],
  Edit: [ARROW],
  MultiEdit: [ARROW],
  // opencode and Kilo.
  read: [
    { width: 0, mark: ": ", below: "<content>" },
    { width: 5, pad: "0", mark: "| ", below: "<file>" },
  ],
  // Crush.
  view: [{ width: 6, mark: "|", below: "<file>" }],
  // Kimi Code.
  ReadFile: [CAT],
  // OpenHands, Anthropic's editor.
  str_replace_editor: [CAT],
  str_replace_based_edit_tool: [CAT],
  file_editor: [CAT],
};

const USES = new Map(
  Object.entries(TOOLS).flatMap(([use, names]) =>
    names.join(" ").split(" ").map((name) => [plainName(name), use as ToolUse])
  ),
);

function plainName(name: string): string {
  return name.replace(/[^A-Za-z0-9]+/g, "").toLowerCase();
}

const MAX_NAME_CHARS = 256;

/** Returns the use of a tool by its name without the server's prefix; `undefined` if unknown. */
function useOf(tool: string): ToolUse | undefined {
  if (tool.length > MAX_NAME_CHARS) return undefined;
  const whole = USES.get(plainName(tool));
  if (whole) return whole;
  const server = /^.*(?:__|[.:/])/.exec(tool)?.[0] ?? "";
  const bare = USES.get(plainName(tool.slice(server.length)));
  if (bare) return bare;
  // With an ambiguous separator only names of several words are recognized.
  const words = tool.split(/[^A-Za-z0-9]+/);
  for (let at = 1; at < words.length - 1; at++) {
    const use = USES.get(plainName(words.slice(at).join("")));
    if (use) return use;
  }
  return undefined;
}

/** First words of names of built-in tools, in agents with five or more. */
const BUILT_IN_WORDS: readonly string[] = [
  "team", // Cline
  "sessions", // OpenClaw
];

/** Returns whether the tools whose names begin with this word are an agent's own, and not those of a server. */
export function isBuiltInWord(word: string): boolean {
  return BUILT_IN_WORDS.includes(word);
}

export interface CallFacts {
  readonly use?: ToolUse | undefined;
  readonly reads: boolean;
  readonly edits: boolean;
  /** Base names of the files that it reads or writes. */
  readonly files: readonly string[];
  readonly texts: readonly string[];
  readonly namesFile: boolean;
  readonly script?: ShellScript | undefined;
  readonly numbers: readonly LineNumbers[];
}

const PATH_ARGUMENT = /^(?:(?:absolute|relative|target|file|notebook)_?)*(?:path|name|file)s?$|^uri$/i;
const PATH = /^(?:\.{0,2}|~|[A-Za-z]:)[/\\]\S*$|^[\w@.~/\\-]*[\w-]\.[A-Za-z]\w{0,5}$|^file:/;
const COMMAND_ARGUMENT = /^(?:command|cmd|script)(?:s|_?line)?$/i;
const FILE_IN_COMMAND = /[\w@./-]*[\w-]\.[A-Za-z]\w{0,5}\b/g;
const FILE_IN_PATCH = /^\*\*\* (?:Update|Add) File: (.+)$/gm;

const known = new WeakMap<ToolCall, CallFacts>();

/** Returns the facts of a call, from the tool's traits or its known name. */
export function readCall(call: ToolCall, tools: ToolTraits | undefined): CallFacts {
  let facts = known.get(call);
  if (!facts) known.set(call, facts = parseCall(call, tools));
  return facts;
}

function parseCall(call: ToolCall, tools: ToolTraits | undefined): CallFacts {
  const { name: tool, arguments: input } = meantCall(call);
  const traits = traitsOf(tool, tools);
  const values = argumentsIn(input);
  const texts = values.map(({ text }) => text);
  const patches = texts.filter((text) => text.includes("*** Begin Patch"));
  const named = useOf(tool);
  const isView = values.some(({ name, text }) => name === "command" && text === "view");
  const use = named === "readsOrEdits" ? isView ? "reads" : "edits" : named;
  const edits = use === "edits" || patches.length > 0 || traits.writes !== undefined;
  const readsFile = !edits && (use === "reads" || traits.reads !== undefined);
  const script = use === "runs" && !edits ? scriptIn(values) : undefined;
  const reading = script?.pipelines.filter(readsFiles).flat() ?? [];
  const isPath = (name: string) =>
    name === traits.reads || name === traits.writes || PATH_ARGUMENT.test(name);
  const files = [
    ...(edits || readsFile ? values.flatMap(({ name, text }) => isPath(name) ? [text] : []) : []),
    ...patches.flatMap((text) => [...text.matchAll(FILE_IN_PATCH)].flatMap(([, file]) => file ?? [])),
    ...reading.flatMap(({ words }) => words.flatMap((word) => word.match(FILE_IN_COMMAND) ?? [])),
  ];
  const numbered = Object.hasOwn(NUMBERED, tool) ? NUMBERED[tool]! : [];
  return {
    use,
    reads: readsFile || reading.length > 0,
    edits,
    files: files.map((file) => file.split(/[/\\]/).findLast((part) => part !== "") ?? file),
    texts,
    namesFile: values.some(({ name, text }) =>
      name === "" || name !== "name" && isPath(name) || PATH.test(text)
    ),
    script,
    numbers: numbered.filter(({ argument }) => !argument || values.some(({ name }) => name === argument)),
  };
}

const READERS = /^(?:cat|bat|batcat|nl|head|tail|sed|g?awk|less|more|tac|type|gc|get-content)$/;
const EDITING_WORD = /^(?:-i|--in-place)/;

/** Returns whether a command shows a file unchanged, apart from line numbers. */
export function isReader({ name, words }: ShellCommand): boolean {
  if (name === "git") {
    const [command, ...rest] = gitCommand(words);
    return command === "cat-file" || command === "show" && rest.some((word) => /^[^-].*:./.test(word));
  }
  return READERS.test(name) && !(name === "sed" && words.some((word) => EDITING_WORD.test(word)));
}

export function gitCommand(words: readonly string[]): readonly string[] {
  let at = 0;
  while (words[at]?.startsWith("-")) at += /^-[cC]$/.test(words[at]!) ? 2 : 1;
  return words.slice(at);
}

function readsFiles(pipeline: readonly ShellCommand[]): boolean {
  return !pipeline.some(({ isSilent }) => isSilent) && pipeline[0] !== undefined && isReader(pipeline[0]);
}

function scriptIn(values: readonly Argument[]): ShellScript | undefined {
  const lines = values.filter(({ name }) => COMMAND_ARGUMENT.test(name));
  const [first] = lines;
  if (!first) return undefined;
  const areWords = lines.length > 1 && !/s$/i.test(first.name) &&
    lines.every(({ name }) => name === first.name);
  return readScript(lines.map(({ text }) => areWords ? quoted(text) : text).join(areWords ? " " : "\n"));
}

function quoted(word: string): string {
  return `'${word.replaceAll("'", `'"'"'`)}'`;
}

interface Argument {
  readonly name: string;
  readonly text: string;
}

function argumentsIn(input: string): Argument[] {
  try {
    return textsIn("", JSON.parse(input));
  } catch {
    // Invalid JSON, or nested too deeply.
    return [{ name: "", text: input }];
  }
}

function textsIn(name: string, value: unknown): Argument[] {
  if (typeof value === "string") return [{ name, text: value }];
  if (Array.isArray(value)) return value.flatMap((part) => textsIn(name, part));
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, part]) => textsIn(key, part));
}
