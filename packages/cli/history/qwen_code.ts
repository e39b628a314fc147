import { contentText, type Message } from "@tare/messages";
import type { JsonRecord } from "@tare/wire";
import { asRecord } from "@tare/wire/internal";
import { textSample } from "./copies.ts";
import { filesIn, lineReader, type LogFormat, loggedCall, loggedText, objectsIn, timeOf } from "./log.ts";
import { loggedUsage, tokensOf } from "./spent.ts";

/** Qwen Code: a file per session, an entry per line, each with its parent. */
export const QWEN_CODE: LogFormat = {
  agent: "qwen-code",
  *find(places) {
    const { home, env } = places;
    for (const path of filesIn(`${env("QWEN_HOME") ?? `${home}/.qwen`}/projects`, ".jsonl", places)) {
      if (path.includes("/chats/")) yield path;
    }
  },
  read: lineReader((logOf) => {
    const log = logOf();
    let entries = 0;
    return (entry) => {
      const { type, subtype, timestamp } = entry;
      if (typeof type !== "string") return false;
      const id = loggedText(entry.uuid, `${entries++}`);
      const ts = timeOf(timestamp);
      log.link(id, entry.parentUuid);
      log.name({ id: entry.sessionId, project: entry.cwd });
      if (type === "system") {
        if (subtype === "chat_compression") log.compact(id);
        return true;
      }
      const messages = readMessages(entry);
      const took = type === "assistant" ? asRecord(entry.usageMetadata) : undefined;
      if (took) {
        const usage = loggedUsage({
          prompt: tokensOf(took.promptTokenCount),
          read: took.cachedContentTokenCount,
          output: tokensOf(took.candidatesTokenCount) + tokensOf(took.thoughtsTokenCount),
        });
        log.call({ id, model: loggedText(entry.model), usage, ts, said: saidIn(messages) });
      }
      log.passed(ts);
      for (const message of messages) log.addMessage(message, { id, ts });
      return messages.length > 0;
    };
  }),
};

function saidIn(messages: readonly Message[]): string {
  return messages.map(({ content }) => textSample(contentText(content ?? ""))).join("\n");
}

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
