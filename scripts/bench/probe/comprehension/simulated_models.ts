import { contentText, type Message, type ToolMessage } from "@tare/messages";
import { type SimulatedModel, type SimulatedReply, toolCall } from "@tare/simulator";

/** What a question of `world.ts` asks for. */
interface Wanted {
  /** The name of a value, which is the answer or says which constant to edit. */
  readonly key?: string;
  /** The file that is named. */
  readonly path?: string;
  /** Whether the value is wanted that it had at first. */
  readonly first: boolean;
  /** The edit that is wanted: the constant, unless a value or a line names it, and its new number. */
  readonly edit?: { readonly name?: string; readonly number: string };
  /** The number of the line that is wanted of the file. */
  readonly line?: number;
  /** The file whose whole path is wanted. */
  readonly file?: string;
  /** Whether the fee of the ferry is to be edited. */
  readonly fee: boolean;
}

/**
 * A model that understands the questions of both worlds and answers from nothing but what its prompt shows. What the
 * prompt doesn't show it recalls, reads again, or doesn't know; it follows the rules that it sees, and what stands for
 * lines that stand elsewhere.
 */
export const attentive: SimulatedModel = ({ messages }) => answer(readPrompt(messages), readListing);

/**
 * The same model, but that it takes what it sees as it stands: a line without a number has none, and what refers to
 * lines above is a line like any other. It never reads again what it has read.
 */
export const literal: SimulatedModel = ({ messages }) => {
  const prompt = readPrompt(messages);
  const reads = prompt.results.flatMap(({ path }) => path === undefined ? [] : `Read ${path}`);
  return answer({ ...prompt, tried: new Set([...prompt.tried, ...reads]) }, readLiterally);
};

function answer(prompt: Prompt, read: typeof readListing): SimulatedReply {
  const { question, elided, tried } = prompt;
  const wanted = readQuestion(question);
  if (tried.has("edit_file")) return { content: "It is done." };
  if (wanted.line !== undefined || wanted.file !== undefined) {
    const lines = prompt.results.map((result) => read(result, prompt.results));
    const found = located(wanted, lines);
    if (found !== undefined) {
      return wanted.edit && wanted.path
        ? { tool_calls: [editCall(wanted.path, found, wanted.edit.number)] }
        : { content: wanted.file ? found : /[a-z]+-\d{4}/.exec(found)?.[0] ?? "UNKNOWN" };
    }
    if (wanted.path && !wanted.first && !tried.has(`Read ${wanted.path}`)) {
      return { tool_calls: [toolCall("Read", { path: wanted.path })] };
    }
    if (elided.length === 0) return { content: wanted.edit ? "I can't do that." : "UNKNOWN" };
    return { tool_calls: elided.map((ref) => toolCall("recall", { ref })) };
  }
  /** Looks up, or says what to look at first. */
  const find = (
    pattern: RegExp,
    by: { readonly recall: string; readonly first?: boolean },
  ): string | SimulatedReply => {
    const found = prompt.texts.flatMap((text) =>
      Array.from(text.matchAll(pattern), ([, value]) => value ?? "")
    );
    if (found.length > 0 && (!by.first || elided.length === 0)) return found.at(by.first ? 0 : -1) ?? "";
    // A file is read in one call; which of the elided texts holds a line, nobody knows.
    if (wanted.path && !by.first && !tried.has(`read_file ${wanted.path}`)) {
      return { tool_calls: [toolCall("read_file", { path: wanted.path })] };
    }
    if (elided.length > 0) {
      return { tool_calls: elided.map((ref) => toolCall("recall", { ref, find: by.recall })) };
    }
    return "";
  };
  if (wanted.fee && wanted.path) {
    const fee = find(/^The fee of the ferry is ([a-z]+-\d+)\.$/gm, { recall: "fee of the ferry" });
    if (typeof fee !== "string") return fee;
    const old_text = `The fee of the ferry is ${fee}.`;
    const new_text = "The fee of the ferry is free.";
    return { tool_calls: [toolCall("edit_file", { path: wanted.path, old_text, new_text })] };
  }
  let name = wanted.edit?.name;
  if (wanted.key !== undefined && name === undefined) {
    const value = find(valueOf(wanted.key), { recall: `${wanted.key} = `, first: wanted.first });
    if (typeof value !== "string") return value;
    if (!wanted.edit) return { content: value || "UNKNOWN" };
    name = value;
  }
  if (!wanted.edit || !wanted.path || !name) return { content: "I can't do that." };
  const line = find(new RegExp(`^(export const ${name} = \\d+;)$`, "gm"), {
    recall: `export const ${name} = `,
  });
  if (typeof line !== "string") return line;
  const rule = /ends with the comment `([^`]+)`/.exec(prompt.users.join("\n"))?.[1];
  return { tool_calls: [editCall(wanted.path, line, wanted.edit.number, rule)] };
}

/** The line that is wanted, in the newest text that has it or in the first. */
function located(
  { path, line, file, first }: Wanted,
  listings: readonly (readonly ListedLine[])[],
): string | undefined {
  const found = listings.flatMap((lines) =>
    lines.filter((one) =>
      file === undefined ? one.path === path && one.number === line : one.text.endsWith(`/${file}`)
    ).slice(0, 1)
  );
  return found.at(first ? 0 : -1)?.text;
}

/** A line of a result, and what it is a line of. */
interface ListedLine {
  readonly path?: string | undefined;
  readonly number?: number | undefined;
  readonly text: string;
}

const NUMBERED = /^\s*(\d+)→(.*)$/;
const HIT = /^([\w./]+):(\d+):(.*)$/;
const REFERENCE = /^\[(?:lines (\d+)-(\d+)|(\d+) lines) unchanged, as in (.+) above: "(.*)" to "(.*)"\]$/;

/** The lines of a result as they stand. */
function readLiterally({ path, text }: Result): ListedLine[] {
  return text.split("\n").map((line) => {
    const [, number, rest] = NUMBERED.exec(line) ?? [];
    if (rest !== undefined) return { path, number: Number(number), text: rest };
    const [, file, at, hit] = HIT.exec(line) ?? [];
    return hit === undefined ? { path, text: line } : { path: file, number: Number(at), text: hit };
  });
}

/** The lines of a result as they are meant. */
function readListing(result: Result, results: readonly Result[]): ListedLine[] {
  const above = results.slice(0, results.indexOf(result));
  const listed: ListedLine[] = [];
  let [heading, folder, number] = ["", "", 0];
  for (const line of result.text.split("\n")) {
    if (line.startsWith("[compressed: ")) {
      folder = /paths are in (\S+)\]$/.exec(line)?.[1] ?? "";
      continue;
    }
    const [label, start, end, count, name, from = "", to = ""] = REFERENCE.exec(line) ?? [];
    if (label !== undefined) {
      const length = count === undefined ? Number(end) - Number(start) + 1 : Number(count);
      const its = blockAbove(above.filter(({ path }) => path?.split("/").at(-1) === name), {
        length,
        from,
        to,
      }, above);
      number = start === undefined ? number : Number(start) - 1;
      for (const text of its) listed.push({ path: result.path, number: ++number, text });
      continue;
    }
    const [, marked, rest] = NUMBERED.exec(line) ?? [];
    const [, hitLine, hit] = /^(\d+):(.*)$/.exec(line) ?? [];
    if (result.path !== undefined) {
      number = marked === undefined ? number + 1 : Number(marked);
      listed.push({ path: result.path, number, text: rest ?? line });
    } else if (hit !== undefined) listed.push({ path: heading, number: Number(hitLine), text: hit });
    else if (HIT.test(line)) listed.push(...readLiterally({ text: line }));
    else {
      heading = line;
      listed.push({ text: `${folder}${line}` });
    }
  }
  return listed;
}

/** The lines of the nearest block that begins and ends so. */
function blockAbove(
  named: readonly Result[],
  { length, from, to }: { readonly length: number; readonly from: string; readonly to: string },
  above: readonly Result[],
): readonly string[] {
  for (const result of named.toReversed()) {
    const lines = readListing(result, above).map(({ text }) => text);
    for (let at = 0; at + length <= lines.length; at++) {
      if (!lines[at]?.trim().startsWith(from) || !lines[at + length - 1]?.trim().endsWith(to)) continue;
      return lines.slice(at, at + length);
    }
  }
  return [];
}

/** A model that never looks twice: it takes what its prompt happens to show, guesses the rest, and follows no rule. */
export const inattentive: SimulatedModel = ({ messages }) => {
  const { question, tried, texts } = readPrompt(messages);
  const { key = "", path = "", edit, fee } = readQuestion(question);
  if (tried.size > 0) return { content: "It is done." };
  if (edit || fee) {
    return {
      tool_calls: [editCall(path, `export const ${edit?.name ?? "EBB_HOURS"} = 2;`, edit?.number ?? "0")],
    };
  }
  const similar = new RegExp(`\\w+\\.${key.split(".")[1]} = ([\\w-]+)`, "g");
  const guess = texts.flatMap((text) => Array.from(text.matchAll(similar), ([, value]) => value)).at(-1);
  return { content: guess ?? "kite-1000" };
};

function editCall(path: string, line: string, number: string, rule?: string) {
  const changed = line.replace(/\d+;/, `${number};`);
  return toolCall("edit_file", { path, old_text: line, new_text: rule ? `${changed} ${rule}` : changed });
}

function readQuestion(question: string): Wanted {
  const located = readPlace(question);
  if (located) return located;
  const [, editPath, rest] = /^In `([^`]+)` set (.+)$/.exec(question) ?? [];
  if (editPath === undefined || rest === undefined) {
    return {
      ...named("key", /^What value has `([^`]+)`/.exec(question)?.[1]),
      ...named("path", /in the file `([^`]+)`/.exec(question)?.[1]),
      first: question.includes("was first read"),
      fee: false,
    };
  }
  const number = /to (\d+)/.exec(rest)?.[1] ?? "";
  return {
    path: editPath,
    first: false,
    fee: false,
    ...named("key", /names as `([^`]+)`/.exec(rest)?.[1]),
    edit: { number, ...named("name", /^`(\w+)`/.exec(rest)?.[1]) },
  };
}

/** What is wanted of a place. */
function readPlace(question: string): Wanted | undefined {
  const [, feePath] = /^In `([^`]+)` the fee of the ferry/.exec(question) ?? [];
  if (feePath) return { path: feePath, first: false, fee: true };
  const [, file] = /^What is the whole path of the file `([^`]+)`/.exec(question) ?? [];
  if (file) return { file, first: false, fee: false };
  const [, path, line, number] = /^In `([^`]+)` set the constant on line (\d+) to (\d+)/.exec(question) ?? [];
  if (path && number) return { path, line: Number(line), first: false, fee: false, edit: { number } };
  const [, asked, of] = /^Which value (?:stands|stood) on line (\d+) of `([^`]+)`/.exec(question) ?? [];
  return of
    ? { path: of, line: Number(asked), first: question.includes("was first shown"), fee: false }
    : undefined;
}

function named<Name extends string>(
  name: Name,
  value: string | undefined,
): { readonly [N in Name]?: string } {
  return (value === undefined ? {} : { [name]: value }) as { readonly [N in Name]?: string };
}

/** The value that a text gives a key. */
function valueOf(key: string): RegExp {
  return new RegExp(`(?:^|[^\\w.])${key.replace(".", "\\.")} = ([\\w-]+)`, "g");
}

/** What a tool gave back, with what was recalled in the place of the line that stood for it. */
interface Result {
  /** The file that it shows with numbers. */
  readonly path?: string | undefined;
  readonly text: string;
}

/** What a model sees. */
interface Prompt {
  readonly question: string;
  readonly results: readonly Result[];
  /** All texts in their order, with what was recalled in the place of the line that stood for it. */
  readonly texts: readonly string[];
  /** What the user said. */
  readonly users: readonly string[];
  /** References that lines of the prompt name and that weren't recalled yet. */
  readonly elided: readonly string[];
  /** Tools that were called for this question, and what was read. */
  readonly tried: ReadonlySet<string>;
}

function readPrompt(messages: readonly Message[]): Prompt {
  const start = messages.findLastIndex(({ role }) => role === "user");
  const results = new Map(
    messages.filter((message): message is ToolMessage => message.role === "tool")
      .map((message) => [message.tool_call_id, contentText(message.content)]),
  );
  const recalled = new Map<string, string>();
  const tried = new Set<string>();
  const ownResults = new Set<string>();
  for (const message of messages.slice(start)) {
    if (message.role !== "assistant") continue;
    for (const call of message.tool_calls ?? []) {
      if (call.type !== "function") continue;
      const { name, arguments: text } = call.function;
      const args = JSON.parse(text);
      tried.add(name).add(`${name} ${args.path ?? args.ref}`);
      if (name !== "recall") continue;
      ownResults.add(call.id);
      recalled.set(args.ref, results.get(call.id) ?? "");
    }
  }
  const shown = messages.filter((message, at) =>
    at !== start && !(message.role === "tool" && ownResults.has(message.tool_call_id))
  );
  const elided = new Set<string>();
  const texts = shown.map((message) =>
    contentText(message.content).replaceAll(/^\[elided: .*ref ([0-9a-f]{16})\]$/gm, (line, ref) => {
      const original = recalled.get(ref);
      if (original === undefined) elided.add(ref);
      return original ?? line;
    })
  );
  const shownFiles = new Map(
    messages.flatMap((message) => message.role === "assistant" ? message.tool_calls ?? [] : []).flatMap((
      call,
    ) =>
      call.type === "function" && call.function.name === "Read"
        ? [[call.id, JSON.parse(call.function.arguments).path as string] as const]
        : []
    ),
  );
  return {
    question: contentText(messages[start]?.content),
    results: shown.flatMap((message, at) =>
      message.role === "tool" ? [{ path: shownFiles.get(message.tool_call_id), text: texts[at]! }] : []
    ),
    texts,
    users: shown.filter(({ role }) => role === "user").map(({ content }) => contentText(content)),
    elided: [...elided],
    tried,
  };
}
