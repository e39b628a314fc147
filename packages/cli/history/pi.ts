import type { Message, Usage } from "@tare/messages";
import type { JsonRecord } from "@tare/wire";
import { asRecord } from "@tare/wire/internal";
import { filesIn, lineReader, type LogFormat, loggedCall, loggedText, objectsIn, timeOf } from "./log.ts";
import { loggedUsage, tokensOf } from "./spent.ts";

/** pi: a file per session, an entry per line; newer entries name their parent. */
export const PI: LogFormat = {
  agent: "pi",
  find: ({ home, env }) => filesIn(`${env("PI_CODING_AGENT_DIR") ?? `${home}/.pi/agent`}/sessions`, ".jsonl"),
  read: lineReader((logOf) => {
    const log = logOf();
    let [model, entries, last] = ["", 0, undefined as string | undefined];
    const call = (
      usage: Usage,
      { id, ...of }: { id: string; model: string; ts: number | undefined; reply: string },
    ) => log.call({ id: `${id} ${usage.promptTokens} ${usage.outputTokens}`, usage, ...of });
    return (entry) => {
      const { type } = entry;
      if (typeof type !== "string") return false;
      const ts = timeOf(entry.timestamp);
      if (type === "session") {
        log.name({ id: entry.id, project: entry.cwd });
        model = loggedText(entry.modelId);
        return true;
      }
      // Entries of older sessions have no ids and follow one another.
      const id = loggedText(entry.id, `${entries++}`);
      log.link(id, typeof entry.id === "string" ? entry.parentId : last);
      last = id;
      if (type === "model_change") model = loggedText(entry.modelId, model);
      if (type === "compaction" || type === "branch_summary") {
        const usage = readUsage(entry.usage, model);
        if (usage) call(usage, { id: `${ts}`, model, ts, reply: id });
        if (type === "compaction") log.compact(id);
      }
      if (type !== "message") return true;
      const plain = asRecord(entry.message);
      if (!plain) return false;
      const atMs = timeOf(plain.timestamp) ?? ts;
      const its = loggedText(plain.model, model);
      const usage = plain.role === "assistant" ? readUsage(plain.usage, its) : undefined;
      if (usage) {
        call(usage, { id: `${atMs} ${loggedText(plain.responseId)}`, model: its, ts: atMs, reply: id });
      }
      const message = readMessage(plain);
      if (message) log.addMessage(message, { id, ts: atMs });
      log.passed(atMs);
      return message !== undefined || plain.role === "custom";
    };
  }),
};

function readMessage(
  { role, content, sections, toolCallId, isError, command, output }: JsonRecord,
): Message | undefined {
  const text = typeof content === "string"
    ? content
    : objectsIn(content).flatMap(({ type, text }) =>
      type === "text" ? [loggedText(text)] : type === "image" ? ["[image omitted]"] : []
    ).join("\n");
  switch (role) {
    case "system": {
      const parts = Object.values(asRecord(sections) ?? {}).map((part) => loggedText(part));
      return { role, content: [text, ...parts].join("\n") };
    }
    case "user":
      return { role, content: text };
    case "bashExecution":
      return { role: "user", content: `$ ${loggedText(command)}\n${loggedText(output)}` };
    case "toolResult":
      return typeof toolCallId === "string"
        ? { role: "tool", tool_call_id: toolCallId, content: text, ...(isError === true && { failed: true }) }
        : undefined;
    case "assistant": {
      const tool_calls = objectsIn(content).flatMap(({ type, id, name, arguments: args }) =>
        type === "toolCall" ? loggedCall(id, name, args) : []
      );
      return { role, content: text, tool_calls };
    }
    default:
      return undefined;
  }
}

function readUsage(value: unknown, model: string): Usage | undefined {
  const usage = asRecord(value);
  if (!usage || typeof usage.input !== "number") return undefined;
  const { input, cacheRead, cacheWrite, output } = usage;
  return loggedUsage({
    uncached: input,
    read: cacheRead,
    write: cacheWrite,
    output: tokensOf(output),
    model,
  });
}
