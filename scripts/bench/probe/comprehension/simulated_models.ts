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
  /** The edit that is wanted: the constant, unless a value names it, and its new number. */
  readonly edit?: { readonly name?: string; readonly number: string };
}

/**
 * A model that understands the questions of `world.ts` and answers from nothing but what its prompt shows. What the
 * prompt doesn't show it recalls, reads again, or doesn't know; it follows the rules that it sees.
 */
export const attentive: SimulatedModel = ({ messages }) => {
  const prompt = readPrompt(messages);
  const { question, elided, tried } = prompt;
  const wanted = readQuestion(question);
  if (tried.has("edit_file")) return { content: "It is done." };
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
      return { tool_calls: elided.map((ref) => toolCall("recall", { ref, pattern: by.recall })) };
    }
    return "";
  };
  let name = wanted.edit?.name;
  if (wanted.key !== undefined && name === undefined) {
    const recall = `${wanted.key.replace(".", "\\.")} = `;
    const value = find(valueOf(wanted.key), { recall, first: wanted.first });
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
};

/** A model that never looks twice: it takes what its prompt happens to show, guesses the rest, and follows no rule. */
export const inattentive: SimulatedModel = ({ messages }) => {
  const { question, tried, texts } = readPrompt(messages);
  const { key = "", path = "", edit } = readQuestion(question);
  if (tried.size > 0) return { content: "It is done." };
  if (edit) {
    return { tool_calls: [editCall(path, `export const ${edit.name ?? "EBB_HOURS"} = 2;`, edit.number)] };
  }
  const similar = new RegExp(`\\w+\\.${key.split(".")[1]} = ([\\w-]+)`, "g");
  const guess = texts.flatMap((text) => Array.from(text.matchAll(similar), ([, value]) => value)).at(-1);
  return { content: guess ?? "kite-1000" };
};

function editCall(path: string, line: string, number: string, rule?: string) {
  const changed = line.replace(/\d+;$/, `${number};`);
  return toolCall("edit_file", { path, old_text: line, new_text: rule ? `${changed} ${rule}` : changed });
}

function readQuestion(question: string): Wanted {
  const [, editPath, rest] = /^In `([^`]+)` set (.+)$/.exec(question) ?? [];
  if (editPath === undefined || rest === undefined) {
    return {
      ...named("key", /^What value has `([^`]+)`/.exec(question)?.[1]),
      ...named("path", /in the file `([^`]+)`/.exec(question)?.[1]),
      first: question.includes("was first read"),
    };
  }
  const number = /to (\d+)/.exec(rest)?.[1] ?? "";
  return {
    path: editPath,
    first: false,
    ...named("key", /names as `([^`]+)`/.exec(rest)?.[1]),
    edit: { number, ...named("name", /^`(\w+)`/.exec(rest)?.[1]) },
  };
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

/** What a model sees. */
interface Prompt {
  readonly question: string;
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
  return {
    question: contentText(messages[start]?.content),
    texts,
    users: shown.filter(({ role }) => role === "user").map(({ content }) => contentText(content)),
    elided: [...elided],
    tried,
  };
}
