import { type JsonRecord, readUsage } from "@tare/wire";
import { asRecord, MESSAGES_PROTOCOL } from "@tare/wire/internal";
import { filesIn, lineReader, type LogFormat, loggedText, type SessionLog, timeOf } from "./log.ts";

/** Claude Code: a file per session or subagent; a line names its parent, and lines of one reply repeat its usage. */
export const CLAUDE_CODE: LogFormat = {
  agent: "claude-code",
  *find({ home, env }) {
    const named = env("CLAUDE_CONFIG_DIR");
    const folders = new Set(named ? [named] : []);
    for (const { name, isDirectory } of Deno.readDirSync(home)) {
      if (isDirectory && /^\.claude/.test(name)) folders.add(`${home}/${name}`);
    }
    const newer = `${env("XDG_CONFIG_HOME") ?? `${home}/.config`}/claude`;
    for (const folder of [...folders, newer]) yield* filesIn(`${folder}/projects`, ".jsonl");
  },
  read: lineReader((logOf) => {
    const sides = new Map<string, string>();
    return (line) => {
      const log = logOf(threadOf(line, sides));
      const { type, uuid, timestamp } = line;
      if (typeof type !== "string") return false;
      const ts = timeOf(timestamp);
      const id = loggedText(uuid);
      if (id !== "") log.link(id, line.parentUuid ?? line.logicalParentUuid);
      log.name({ group: line.sessionId, project: line.cwd });
      if (type === "system" && line.subtype === "compact_boundary") log.compact(id);
      if (type !== "user" && type !== "assistant") return true;
      const message = asRecord(line.message);
      if (!message || id === "") return false;
      const isKnown = isOmitted(line, message) || takeMessage(log, message, { line, id, ts });
      log.passed(ts);
      return isKnown;
    };
  }),
};

function takeMessage(
  log: SessionLog,
  message: JsonRecord,
  { line, id, ts }: { readonly line: JsonRecord; readonly id: string; readonly ts: number | undefined },
): boolean {
  const { id: reply, model, content } = message;
  const isUser = line.type === "user";
  const usage = isUser ? undefined : readUsage(message.usage);
  if (isUser) {
    if (!Array.isArray(content) && typeof content !== "string") return false;
  } else if (typeof reply !== "string" || typeof model !== "string") return false;
  else if (usage) log.call({ id: `${reply} ${loggedText(line.requestId)}`, model, usage, ts, reply });
  for (const part of MESSAGES_PROTOCOL.readItem(message)) {
    log.addMessage(part.message, { id, ts, ...(typeof reply === "string" && { reply }) });
  }
  return isUser || usage !== undefined;
}

/** Returns whether a line isn't part of a recorded prompt: a summary, a note, or an error. */
function isOmitted(line: JsonRecord, { model }: JsonRecord): boolean {
  return line.type === "user"
    ? line.isCompactSummary === true || line.isVisibleInTranscriptOnly === true
    : line.isApiErrorMessage === true || model === "<synthetic>";
}

/** Returns the prompt of a line: "" for the session's own, or a subagent's name or first line. */
function threadOf(
  { agentId, isSidechain, uuid, parentUuid }: JsonRecord,
  sides: Map<string, string>,
): string {
  if (typeof agentId === "string") return agentId;
  if (isSidechain !== true || typeof uuid !== "string") return "";
  const side = sides.get(loggedText(parentUuid)) ?? uuid;
  sides.set(uuid, side);
  return side;
}
