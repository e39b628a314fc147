import type { Message, Usage } from "@tare/messages";
import type { JsonRecord } from "@tare/wire";
import { asRecord } from "@tare/wire/internal";
import {
  conversationOfEntries,
  filesIn,
  type LogEntry,
  type LogFormat,
  type LoggedCall,
  loggedCall,
  loggedText,
  objectsIn,
  pathTo,
  readLines,
  timeOf,
  tokensOf,
} from "./log.ts";

/** Qwen Code: a file a session, an entry a line, each with the one before it. */
export const QWEN_CODE: LogFormat = {
  agent: "qwen-code",
  *find({ home, env }) {
    for (const path of filesIn(`${env("QWEN_HOME") ?? `${home}/.qwen`}/projects`, ".jsonl")) {
      if (path.includes("/chats/")) yield path;
    }
  },
  read(path, options) {
    const entries: (LogEntry & { readonly id: string })[] = [];
    const parents = new Map<string, string | undefined>();
    const calls: LoggedCall[] = [];
    let [session, project] = ["", ""];
    let lastMs: number | undefined;
    readLines(path, options, (entry) => {
      const { type, subtype, uuid: id, timestamp } = entry;
      if (typeof type !== "string" || typeof id !== "string") return false;
      const ts = timeOf(timestamp);
      parents.set(id, typeof entry.parentUuid === "string" ? entry.parentUuid : undefined);
      session = loggedText(entry.sessionId, session);
      project = loggedText(entry.cwd, project);
      if (type === "system") {
        if (subtype === "chat_compression" && options.messages) entries.push({ id, ts });
        return true;
      }
      const usage = type === "assistant" ? readUsage(entry.usageMetadata) : undefined;
      const model = loggedText(entry.model);
      if (usage && usage.promptTokens > 0) calls.push({ id, model, usage, atMs: lastMs ?? ts ?? 0 });
      lastMs = ts ?? lastMs;
      const messages = readMessages(entry);
      if (options.messages) { for (const message of messages) entries.push({ id, ts, message, usage }); }
      return messages.length > 0;
    });
    if (calls.length === 0) return [];
    const newest = pathTo(entries.at(-1)?.id, parents);
    const said = conversationOfEntries(entries.filter(({ id }) => newest.has(id)));
    return [{ id: session, group: session, project, calls, ...said }];
  },
};

function readMessages({ type, message, toolCallResult }: JsonRecord): Message[] {
  const parts = objectsIn(asRecord(message)?.parts);
  const content = parts.flatMap(({ text, thought, inlineData }) =>
    inlineData ? ["[image omitted]"] : thought === true || typeof text !== "string" ? [] : [text]
  ).join("\n");
  const failed = asRecord(toolCallResult)?.status === "error";
  switch (type) {
    case "user":
      return [{ role: "user", content }];
    case "assistant": {
      const tool_calls = parts.flatMap(({ functionCall }) => {
        const { id, name, args } = asRecord(functionCall) ?? {};
        return loggedCall(id, name, args);
      });
      return [{ role: "assistant", content, tool_calls }];
    }
    case "tool_result":
      return parts.flatMap(({ functionResponse }): Message[] => {
        const { id, response } = asRecord(functionResponse) ?? {};
        if (typeof id !== "string") return [];
        const { output, error } = asRecord(response) ?? {};
        const text = loggedText(output, loggedText(error));
        return [{ role: "tool", tool_call_id: id, content: text, ...(failed && { failed }) }];
      });
    default:
      return [];
  }
}

function readUsage(value: unknown): Usage | undefined {
  const usage = asRecord(value);
  if (!usage) return undefined;
  return {
    promptTokens: tokensOf(usage.promptTokenCount),
    cachedTokens: tokensOf(usage.cachedContentTokenCount),
    outputTokens: tokensOf(usage.candidatesTokenCount) + tokensOf(usage.thoughtsTokenCount),
  };
}
