import type { ToolCall } from "@tare/messages";
import { meantCall } from "@tare/messages/internal";
import type { ToolTraits } from "@tare/prune";
import { traitsOf } from "@tare/prune/internal";
import { readScript, type ShellCommand, type ShellScript } from "./shell_script.ts";

/** How a tool or a command writes the number of a line in front of it. Plain data. */
export interface LineNumbers {
  /** Numbers with fewer characters are right-aligned to so many. */
  readonly width: number;
  /** Character on their left. Default: a space. */
  readonly pad?: string;
  /** What stands between a number and its line. */
  readonly mark: string;
  /** A line that is this has no number and isn't counted. Default: all lines are counted. */
  readonly blank?: string;
  /** The line right above the first one. Default: with a width any, without one there is none. */
  readonly below?: string;
}

/**
 * What a tool does: `reads` files, `edits` or writes them, does either by its argument `command`, `runs` commands, shows
 * what one that was run before goes on to write (`continues`), `finds` lines in files, or `lists` names of files.
 */
export type ToolUse = "reads" | "edits" | "readsOrEdits" | "runs" | "continues" | "finds" | "lists";

/**
 * The tools of known agents, by what they do. It is all that Tare knows of tools that say nothing of themselves. What
 * `reads`, `finds` or `lists` gives the same again as long as nothing was written. A name stands with the first agent
 * that has it.
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

/**
 * How tools number lines, by their exact names. Where another agent has a tool of that name without numbers, an argument
 * that only this one has tells them apart.
 */
const NUMBERED: Readonly<Record<string, readonly (LineNumbers & { readonly argument?: string })[]>> = {
  // Claude Code, whose newer versions write no spaces.
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
  // OpenHands, and Anthropic's editor.
  str_replace_editor: [CAT],
  str_replace_based_edit_tool: [CAT],
  file_editor: [CAT],
};

/** What tools do, by their names without case and separators. */
const USES = new Map(
  Object.entries(TOOLS).flatMap(([use, names]) =>
    names.join(" ").split(" ").map((name) => [plainName(name), use as ToolUse])
  ),
);

function plainName(name: string): string {
  return name.replace(/[^A-Za-z0-9]+/g, "").toLowerCase();
}

/** Longest name of a tool with what stands for its server, in UTF-16 code units. A model may make up any. */
const MAX_NAME_CHARS = 256;

/** What a tool does by its name; nothing if it isn't known. What clients put in front of a server's tools doesn't count. */
function useOf(tool: string): ToolUse | undefined {
  if (tool.length > MAX_NAME_CHARS) return undefined;
  const whole = USES.get(plainName(tool));
  if (whole) return whole;
  const server = /^.*(?:__|[.:/])/.exec(tool)?.[0] ?? "";
  const bare = USES.get(plainName(tool.slice(server.length)));
  if (bare) return bare;
  // Some write one separator, which is also part of names: then only a name of several words is known.
  const words = tool.split(/[^A-Za-z0-9]+/);
  for (let at = 1; at < words.length - 1; at++) {
    const use = USES.get(plainName(words.slice(at).join("")));
    if (use) return use;
  }
  return undefined;
}

/** What a call is about. */
export interface CallFacts {
  /** What its tool does; nothing if that isn't known. */
  readonly use?: ToolUse | undefined;
  /** Whether it shows a file, as far as that is known. */
  readonly reads: boolean;
  /** Whether it edits or writes. */
  readonly edits: boolean;
  /** Names of the files that it reads or writes, without their folders. */
  readonly files: readonly string[];
  /** Every text in its arguments. */
  readonly texts: readonly string[];
  /** Whether any of its arguments names a file. */
  readonly namesFile: boolean;
  /** The script that it runs. */
  readonly script?: ShellScript | undefined;
  /** How its tool numbers lines. */
  readonly numbers: readonly LineNumbers[];
}

const PATH_ARGUMENT = /^(?:(?:absolute|relative|target|file|notebook)_?)*(?:path|name|file)s?$|^uri$/i;
const PATH = /^(?:\.{0,2}|~|[A-Za-z]:)[/\\]\S*$|^[\w@.~/\\-]*[\w-]\.[A-Za-z]\w{0,5}$|^file:/;
const COMMAND_ARGUMENT = /^(?:command|cmd|script)(?:s|_?line)?$/i;
const FILE_IN_COMMAND = /[\w@./-]*[\w-]\.[A-Za-z]\w{0,5}\b/g;
const FILE_IN_PATCH = /^\*\*\* (?:Update|Add) File: (.+)$/gm;

const known = new WeakMap<ToolCall, CallFacts>();

/** What a call is about: tools say by their traits what they read and write; others are known by their names. */
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

/** Commands that show files which their words name, or what they are given. */
const READERS = /^(?:cat|bat|batcat|nl|head|tail|sed|g?awk|less|more|tac|type|gc|get-content)$/;
const EDITING_WORD = /^(?:-i|--in-place)/;

/** Whether a command shows a file as it is, with or without numbers of lines. */
export function isReader({ name, words }: ShellCommand): boolean {
  if (name === "git") {
    const [command, ...rest] = gitCommand(words);
    return command === "cat-file" || command === "show" && rest.some((word) => /^[^-].*:./.test(word));
  }
  return READERS.test(name) && !(name === "sed" && words.some((word) => EDITING_WORD.test(word)));
}

/** The command that git is given, and what stands behind it. */
export function gitCommand(words: readonly string[]): readonly string[] {
  let at = 0;
  while (words[at]?.startsWith("-")) at += /^-[cC]$/.test(words[at]!) ? 2 : 1;
  return words.slice(at);
}

function readsFiles(pipeline: readonly ShellCommand[]): boolean {
  return !pipeline.some(({ isSilent }) => isSilent) && pipeline[0] !== undefined && isReader(pipeline[0]);
}

/** The script that a call runs: its words may be apart, and there may be several. */
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

/** Every text in a call's arguments, with the name of the argument that holds it; none if they are no JSON. */
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
