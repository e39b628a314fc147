import type { Message, Usage } from "@tare/messages";
import type { JsonRecord } from "@tare/wire";
import { asRecord } from "@tare/wire/internal";
import { DatabaseSync } from "node:sqlite";
import {
  filesIn,
  type LogFormat,
  loggedCall,
  type LoggedSession,
  loggedText,
  parsedJson,
  type ReadOptions,
  SessionLog,
  timeOf,
} from "./log.ts";
import { loggedUsage, tokensOf } from "./spent.ts";

/** opencode: one database of sessions, messages and parts; older versions have files of the same JSON. */
export const OPENCODE: LogFormat = {
  agent: "opencode",
  *find({ home, env }) {
    const folder = `${env("XDG_DATA_HOME") ?? `${home}/.local/share`}/opencode`;
    yield* filesIn(folder, ".db");
    yield* filesIn(`${folder}/storage/session`, ".json");
  },
  read: (path, options) => path.endsWith(".json") ? readStorage(path, options) : readDatabase(path, options),
};

/** Reads the database's sessions. @throws {Error} if a column is missing. */
function* readDatabase(path: string, options: ReadOptions): Generator<LoggedSession> {
  using database = new DatabaseSync(path, { readOnly: true });
  const messagesOf = database.prepare(
    "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id",
  );
  const partsOf = database.prepare("SELECT message_id, data FROM part WHERE session_id = ? ORDER BY id");
  const sessions = database.prepare("SELECT id, parent_id, directory FROM session ORDER BY time_created, id");
  for (const { id, parent_id: parent, directory } of sessions.iterate()) {
    if (options.only !== undefined && options.only !== id) continue;
    const parts = Map.groupBy(
      options.messages ? partsOf.iterate(id ?? "") : [],
      ({ message_id: message }) => String(message),
    );
    const log = logOf({ id: String(id), parent, directory }, options);
    for (const { id: message, data } of messagesOf.iterate(id ?? "")) {
      const its = parts.get(String(message))?.map((part) => parsedJson(part.data)) ?? [];
      options.line(takeMessage(log, String(message), { data: parsedJson(data), parts: its }));
    }
    yield* log.sessions();
  }
}

/** Reads `storage/session/PROJECT/ID.json`, with `storage/message/ID/` and `storage/part/MESSAGE/`. */
function* readStorage(path: string, options: ReadOptions): Generator<LoggedSession> {
  const read = (file: string) => asRecord(parsedJson(Deno.readTextFileSync(file)));
  const storage = path.slice(0, path.lastIndexOf("/session/"));
  const { id, parentID: parent, directory } = read(path) ?? {};
  if (typeof id !== "string" || id === "") return options.line(false);
  const log = logOf({ id, parent, directory }, options);
  for (const file of filesIn(`${storage}/message/${id}`, ".json")) {
    const data = read(file);
    const message = loggedText(data?.id);
    const parts = options.messages ? [...filesIn(`${storage}/part/${message}`, ".json")].map(read) : [];
    options.line(takeMessage(log, message, { data, parts }));
  }
  yield* log.sessions();
}

function logOf(
  { id, parent, directory }: { readonly id: string; readonly parent: unknown; readonly directory: unknown },
  { messages }: ReadOptions,
): SessionLog {
  const log = new SessionLog(id, messages);
  log.name({ group: parent, project: directory });
  return log;
}

function takeMessage(
  log: SessionLog,
  id: string,
  { data, parts: given }: { readonly data: unknown; readonly parts: readonly unknown[] },
): boolean {
  const info = asRecord(data) ?? {};
  const { created, completed } = asRecord(info.time) ?? {};
  const ts = timeOf(created);
  const parts = given.map((part) => asRecord(part) ?? {});
  const content = parts.flatMap(({ type, text }) => type === "text" ? [loggedText(text)] : []).join("\n");
  if (info.role === "user") {
    if (parts.some(({ type }) => type === "compaction")) log.compact();
    if (content !== "") log.addMessage({ role: "user", content }, { ts });
    log.passed(ts);
    return true;
  }
  const model = loggedText(info.modelID);
  const usage = info.role === "assistant" ? readUsage(info.tokens, model) : undefined;
  if (!usage) return false;
  log.call({ id, model, usage, atMs: ts });
  // Recordings contain the messages instead of their summary.
  if (info.summary !== true) {
    const tools = parts.filter(({ type }) => type === "tool");
    const tool_calls = tools.flatMap(({ callID, tool, state }) =>
      loggedCall(callID, tool, asRecord(state)?.input)
    );
    log.addMessage({ role: "assistant", content, tool_calls }, { ts, reply: id });
    for (const { callID, state } of tools) addResult(log, callID, asRecord(state) ?? {});
  }
  log.passed(timeOf(completed) ?? ts);
  return true;
}

function addResult(log: SessionLog, id: unknown, { status, output, error, time }: JsonRecord): void {
  if (typeof id !== "string" || (status !== "completed" && status !== "error")) return;
  const failed = status === "error";
  const content = loggedText(failed ? error : output);
  const message: Message = { role: "tool", tool_call_id: id, content, ...(failed && { failed }) };
  log.addMessage(message, { ts: timeOf(asRecord(time)?.end) });
}

function readUsage(value: unknown, model: string): Usage | undefined {
  const tokens = asRecord(value);
  if (!tokens || typeof tokens.input !== "number") return undefined;
  const { read, write } = asRecord(tokens.cache) ?? {};
  // Reasoning is counted separately from the reply.
  const output = tokensOf(tokens.output) + tokensOf(tokens.reasoning);
  return loggedUsage({ uncached: tokens.input, read, write, output, model });
}
