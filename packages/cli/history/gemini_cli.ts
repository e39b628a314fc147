import type { Message, Usage } from "@tare/messages";
import type { JsonRecord } from "@tare/wire";
import { asRecord } from "@tare/wire/internal";
import { textSample } from "./copies.ts";
import {
  filesIn,
  type LineReader,
  lineReader,
  type LogFormat,
  loggedCall,
  type LoggedSession,
  loggedText,
  objectsIn,
  readLines,
  type ReadOptions,
  timeOf,
} from "./log.ts";
import { loggedUsage, tokensOf } from "./spent.ts";

/** Reads messages, which are appended again when they change; others are removed by `$rewindTo`. */
const readMessages: LineReader = (logOf, { path }) => {
  const log = logOf();
  const project = projectOf(path);
  const parents = new Map<string, string | undefined>();
  let [last, count] = [undefined as string | undefined, 0];
  return (line) => {
    if (typeof line.$rewindTo === "string") {
      last = parents.get(line.$rewindTo);
      return true;
    }
    if (line.$set !== undefined) return true;
    if (typeof line.sessionId === "string") {
      log.name({ id: line.sessionId, project });
      return true;
    }
    const { type, model } = line;
    if (typeof type !== "string") return false;
    const ts = timeOf(line.timestamp);
    const id = loggedText(line.id, `${count++}`);
    if (!parents.has(id)) {
      parents.set(id, last);
      log.link(id, last);
      last = id;
    }
    const text = textIn(line.content);
    const usage = type === "gemini" ? readUsage(line.tokens) : undefined;
    if (usage) log.call({ id, model: loggedText(model), usage, ts, said: textSample(text) });
    log.passed(ts);
    const messages = type === "user"
      ? [{ role: "user" as const, content: text }]
      : type === "gemini"
      ? replyOf(line, text)
      : [];
    for (const message of messages) log.addMessage(message, { id, ts, reply: id });
    return true;
  };
};

const readFile = lineReader(readMessages);

/** Gemini CLI: a file per session with a message per line; older versions have one object per session. */
export const GEMINI_CLI: LogFormat = {
  agent: "gemini-cli",
  *find(places) {
    const folder = `${places.env("GEMINI_CLI_HOME") ?? places.home}/.gemini/tmp`;
    for (const path of filesIn(folder, /\.jsonl?$/, places)) if (path.includes("/chats/")) yield path;
  },
  read: (path, options) => path.endsWith(".jsonl") ? readFile(path, options) : readOlder(path, options),
};

function readOlder(path: string, options: ReadOptions): LoggedSession[] {
  const { messages, ...session } = asRecord(JSON.parse(Deno.readTextFileSync(path))) ?? {};
  const lines = [session, ...objectsIn(messages)].map((line) => JSON.stringify(line));
  const name = path.slice(path.lastIndexOf("/") + 1).replace(/\.json$/, "");
  return readLines(readMessages, { ...options, name, path, lines });
}

/** Returns the project's folder, which newer versions store next to its sessions. */
function projectOf(path: string): string {
  try {
    return Deno.readTextFileSync(`${path.slice(0, path.indexOf("/chats/"))}/.project_root`).trim();
  } catch {
    return "";
  }
}

function replyOf({ toolCalls }: JsonRecord, content: string): Message[] {
  const calls = objectsIn(toolCalls);
  const tool_calls = calls.flatMap(({ id, name, args }) => loggedCall(id, name, args));
  return [
    { role: "assistant", content, tool_calls },
    ...calls.flatMap(({ id, result, status }): Message[] => {
      if (typeof id !== "string" || result === undefined || result === null) return [];
      const failed = status === "error";
      return [{ role: "tool", tool_call_id: id, content: textIn(result), ...(failed && { failed }) }];
    }),
  ];
}

/** Returns the texts of Gemini's parts, results included. */
function textIn(parts: unknown): string {
  if (typeof parts === "string") return parts;
  return (Array.isArray(parts) ? parts : [parts]).flatMap((part) => {
    if (typeof part === "string") return [part];
    const { text, inlineData, functionResponse } = asRecord(part) ?? {};
    const { output, error } = asRecord(asRecord(functionResponse)?.response) ?? {};
    const found = text ?? output ?? error;
    return inlineData ? ["[image omitted]"] : typeof found === "string" ? [found] : [];
  }).join("\n");
}

/** The prompt includes the cached tokens; results of the provider's tools are counted separately. */
function readUsage(value: unknown): Usage | undefined {
  const tokens = asRecord(value);
  if (!tokens || typeof tokens.input !== "number") return undefined;
  return loggedUsage({
    prompt: tokensOf(tokens.input) + tokensOf(tokens.tool),
    read: tokens.cached,
    output: tokensOf(tokens.output) + tokensOf(tokens.thoughts),
  });
}
