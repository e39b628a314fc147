import {
  contentText,
  countMessageTokens,
  type CountTokens,
  type Message,
  type ToolCall,
} from "@tare/messages";

/** What a retention rule knows of a message. Made once, when the message comes. */
export interface Facts {
  readonly message: Message;
  readonly tokens: number;
  /** Whether it shows a file: a read's result, or a call that edits or writes. */
  readonly fileText: boolean;
  /** Whether it edits or writes. */
  readonly edits: boolean;
  /** Names of the files that it reads or writes, without their folders. */
  readonly files: readonly string[];
  readonly lines: ReadonlySet<string>;
  readonly names: ReadonlySet<string>;
  /** Lines and names that its calls refer to. */
  readonly wants: { readonly lines: ReadonlySet<string>; readonly names: ReadonlySet<string> };
  /** Names of the tools that it calls. */
  readonly calls: readonly string[];
  readonly error: boolean;
}

const READS = /^(?:read|read_?file|view|open|cat|notebook_?read)$/i;
const EDITS =
  /^(?:(?:multi|notebook)?_?edit(?:_?file)?|write(?:_?file)?|create|apply_?patch|str_replace\w*)$/i;
const SHELLS = /^(?:bash|shell|exec_command|power_?shell|run_command|local_shell|terminal)$/i;
const READING_COMMAND = /(?:^|[\s;&|(])(?:cat|sed -n|nl|head)\s(?!.*(?:<<|>\s*\S))/;
const FILE_IN_COMMAND = /[\w@./-]*[\w-]\.[A-Za-z]\w{0,5}\b/g;
const FILE_IN_PATCH = /^\*\*\* (?:Update|Add) File: (.+)$/gm;
const NAME = /[A-Za-z0-9_][A-Za-z0-9_./-]{6,}[A-Za-z0-9_]/g;

/** Learns what rules want to know of each message of one session, in order. */
export class FactFinder {
  readonly #countTokens: CountTokens;
  readonly #isError: (message: Message) => boolean;
  readonly #calls = new Map<string, ToolCall>();

  constructor(
    options: { readonly countTokens: CountTokens; readonly isError: (message: Message) => boolean },
  ) {
    this.#countTokens = options.countTokens;
    this.#isError = options.isError;
  }

  /** The facts of the next message. */
  find(message: Message): Facts {
    const calls = message.role === "assistant" ? message.tool_calls ?? [] : [];
    for (const call of calls) this.#calls.set(call.id, call);
    const answered = message.role === "tool" ? this.#calls.get(message.tool_call_id) : undefined;
    const subjects = calls.map(readCall);
    const about = answered && readCall(answered);
    const reads = about?.reads === true;
    const edits = subjects.some((call) => call.edits);
    const texts = [contentText(message.content), ...subjects.flatMap((call) => call.texts)];
    return {
      message,
      tokens: countMessageTokens(message, this.#countTokens),
      fileText: reads || edits,
      edits,
      files: [...new Set([...subjects.flatMap(({ files }) => files), ...(reads ? about.files : [])])],
      lines: new Set(texts.flatMap(linesIn)),
      names: new Set(texts.flatMap(namesIn)),
      wants: {
        lines: new Set(subjects.flatMap((call) => call.oldTexts.flatMap(linesIn))),
        names: new Set(subjects.flatMap((call) => call.texts.flatMap(namesIn))),
      },
      calls: subjects.map(({ tool }) => tool),
      error: this.#isError(message),
    };
  }
}

/** What a call is about. */
interface CallFacts {
  readonly tool: string;
  readonly reads: boolean;
  readonly edits: boolean;
  readonly files: readonly string[];
  readonly texts: readonly string[];
  readonly oldTexts: readonly string[];
}

function readCall(call: ToolCall): CallFacts {
  const tool = call.type === "custom" ? call.custom.name : call.function.name;
  const values = argumentsOf(call);
  const texts = values.map(({ text }) => text);
  const patch = texts.filter((text) => text.includes("*** Begin Patch"));
  const command = SHELLS.test(tool) ? texts.find((text) => READING_COMMAND.test(text)) : undefined;
  const edits = EDITS.test(tool) || patch.length > 0;
  const reads = READS.test(tool) || (command !== undefined && patch.length === 0);
  const paths = edits || READS.test(tool)
    ? values.filter(({ name }) => /^(?:file_?)?(?:path|name)$|^file$/i.test(name)).map(({ text }) => text)
    : [];
  const files = [
    ...paths,
    ...patch.flatMap((text) => [...text.matchAll(FILE_IN_PATCH)].flatMap(([, file]) => file ?? [])),
    ...(command?.match(FILE_IN_COMMAND) ?? []),
  ];
  return {
    tool,
    reads,
    edits,
    files: files.map((file) => file.split(/[/\\]/).findLast((part) => part !== "") ?? file),
    texts,
    oldTexts: [
      ...values.filter(({ name }) => /^old(?:_?string|_?text|_?str)?$/i.test(name)).map(({ text }) => text),
      ...patch.map((text) => text.split("\n").filter((line) => /^[ -]/.test(line)).join("\n")),
    ],
  };
}

interface Argument {
  readonly name: string;
  readonly text: string;
}

/** Every text in a call's arguments, with the name of the argument that holds it. */
function argumentsOf(call: ToolCall): Argument[] {
  const text = call.type === "custom" ? call.custom.input : call.function.arguments;
  try {
    return textsIn("", JSON.parse(text));
  } catch {
    return [{ name: "", text }];
  }
}

function textsIn(name: string, value: unknown): Argument[] {
  if (typeof value === "string") return [{ name, text: value }];
  if (Array.isArray(value)) return value.flatMap((part) => textsIn(name, part));
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, part]) => textsIn(key, part));
}

function linesIn(text: string): string[] {
  return text.split("\n")
    .map((line) => line.replace(/^\s*\d+\s*[→:|]?\s*/, "").replace(/^[+\- ]/, "").trim())
    .filter((line) => line.length >= 10);
}

function namesIn(text: string): string[] {
  return (text.match(NAME) ?? []).filter((word) => /[0-9_./-]|[a-z][A-Z]/.test(word));
}
