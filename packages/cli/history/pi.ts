import { contentText, type Message, type Usage } from "@tare/messages";
import type { JsonRecord } from "@tare/wire";
import { asRecord } from "@tare/wire/internal";
import { textSample } from "./copies.ts";
import {
  filesIn,
  type LineReader,
  lineReader,
  type LogFormat,
  loggedCall,
  loggedText,
  objectsIn,
  timeOf,
} from "./log.ts";
import { loggedUsage, tokensOf } from "./spent.ts";

/** Version of sessions that is read. */
const VERSION = 3;

/** Reads pi's entries, which OpenClaw stores too. */
export const readPiEntries: LineReader = (logOf, { newer }) => {
  const log = logOf();
  let [model, entries, last] = ["", 0, undefined as string | undefined];
  const call = (
    usage: Usage,
    of: { reply: string; model: string; ts: number | undefined; said: string },
  ) => log.call({ id: `${of.reply} ${usage.promptTokens} ${usage.outputTokens}`, usage, ...of });
  return (entry) => {
    const { type } = entry;
    if (typeof type !== "string") return false;
    const ts = timeOf(entry.timestamp);
    if (type === "session") {
      log.name({ id: entry.id, project: entry.cwd });
      model = loggedText(entry.modelId);
      if (typeof entry.version === "number" && entry.version > VERSION) newer(`version ${entry.version}`);
      return true;
    }
    // Entries of older sessions have no ids and follow one another.
    const id = loggedText(entry.id, `${entries++}`);
    log.link(id, typeof entry.id === "string" ? entry.parentId : last);
    last = id;
    if (type === "model_change") model = loggedText(entry.modelId, model);
    if (type === "compaction" || type === "branch_summary") {
      const usage = readUsage(entry.usage, model);
      if (usage) call(usage, { reply: id, model, ts, said: textSample(loggedText(entry.summary)) });
      if (type === "compaction") log.compact(id);
    }
    if (type !== "message") return true;
    const plain = asRecord(entry.message);
    if (!plain) return false;
    const atMs = timeOf(plain.timestamp) ?? ts;
    const its = loggedText(plain.model, model);
    const usage = plain.role === "assistant" ? readUsage(plain.usage, its) : undefined;
    const message = readMessage(plain);
    if (usage) {
      const said = `${loggedText(plain.responseId)} ${textSample(contentText(message?.content ?? ""))}`;
      call(usage, { reply: id, model: its, ts: atMs, said });
    }
    if (message) log.addMessage(message, { id, ts: atMs });
    log.passed(atMs);
    return message !== undefined || plain.role === "custom";
  };
};

/** pi: a file per session, an entry per line; newer entries name their parent. */
export const PI: LogFormat = {
  agent: "pi",
  find(places) {
    const { home, env } = places;
    return filesIn(`${env("PI_CODING_AGENT_DIR") ?? `${home}/.pi/agent`}/sessions`, ".jsonl", places);
  },
  read: lineReader(readPiEntries),
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
