import type { Message, Usage } from "@tare/messages";
import type { JsonRecord } from "@tare/wire";
import { asRecord } from "@tare/wire/internal";
import { DatabaseSync } from "node:sqlite";
import { fingerprint, textSample } from "./copies.ts";
import {
  filesIn,
  type LogFormat,
  loggedCall,
  type LoggedSession,
  loggedText,
  objectsIn,
  parsedJson,
  type ReadOptions,
  SessionLog,
  timeOf,
  usageText,
} from "./log.ts";
import { loggedUsage, tokensOf } from "./spent.ts";

/**
 * opencode, or a fork of it: one database with the messages and parts of version 1, the messages of version 2, or both.
 * Older versions have files of the same JSON.
 */
function opencodeFormat(agent: string): LogFormat {
  return {
    agent,
    *find(places) {
      const { home, env } = places;
      const folder = `${env("XDG_DATA_HOME") ?? `${home}/.local/share`}/${agent}`;
      yield* filesIn(folder, ".db", places, { isFlat: true });
      yield* filesIn(`${folder}/storage/session`, ".json", places);
    },
    read: (path, options) =>
      path.endsWith(".json") ? readStorage(path, options) : readDatabase(path, options),
  };
}

export const OPENCODE = opencodeFormat("opencode");

export const KILO = opencodeFormat("kilo");

interface SessionRow {
  readonly id: string;
  readonly parent: unknown;
  readonly directory: unknown;
}

const READ_TABLES = ["session", "message", "part", "session_v2", "session_message"];

/** Reads the database's sessions; those of version 2 contain what was migrated. @throws {Error} if a column is missing. */
function* readDatabase(path: string, options: ReadOptions): Generator<LoggedSession> {
  using database = new DatabaseSync(path, { readOnly: true });
  const names = database.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all()
    .map(({ name }) => String(name));
  const has = (table: string) => names.includes(table);
  for (const name of names) {
    const isNewer = /^(?:session|message|part|session_message)_v\d+$/.test(name) &&
      !READ_TABLES.includes(name);
    if (isNewer) options.newer?.(`the table ${name}`);
  }
  if (!has("message") && !has("session_message")) {
    throw new Error("It has no table of messages that is read: its version is unknown.");
  }
  const first = has("message") ? new FirstVersion(database, has, options) : undefined;
  const messagesOf = has("session_message")
    ? database.prepare("SELECT id, type, data FROM session_message WHERE session_id = ? ORDER BY seq")
    : undefined;
  for (const row of sessionRows(database, has)) {
    if (options.only !== undefined && options.only !== row.id) continue;
    const log = logOf(row, options);
    const newer = messagesOf?.all(row.id) ?? [];
    first?.read(log, row, { isMigrated: newer.length > 0 });
    for (const { id, type, data } of newer) {
      const message = { id: String(id), type: String(type), data: asRecord(parsedJson(data)) ?? {} };
      options.line(takeNewerMessage(log, message, row));
    }
    yield* log.sessions();
  }
}

/** Returns the sessions in order: a session precedes its forks. */
function sessionRows(database: DatabaseSync, has: (table: string) => boolean): SessionRow[] {
  const rows = new Map<string, SessionRow & { readonly createdMs: number }>();
  const sources = [
    ...["session", "session_v2"].filter(has).map((table) =>
      `SELECT id, parent_id, directory, time_created FROM ${table}`
    ),
    ...["message", "session_message"].filter(has).map((table) =>
      `SELECT session_id AS id, min(time_created) AS time_created FROM ${table} GROUP BY session_id`
    ),
  ];
  for (const source of sources) {
    for (const { id, parent_id, directory, time_created } of database.prepare(source).iterate()) {
      const known = rows.get(String(id));
      const createdMs = Math.min(timeOf(time_created) ?? Infinity, known?.createdMs ?? Infinity);
      const [parent, folder] = [parent_id ?? known?.parent, directory ?? known?.directory];
      rows.set(String(id), { id: String(id), parent, directory: folder, createdMs });
    }
  }
  return [...rows.values()].sort((a, b) => a.createdMs - b.createdMs || (a.id < b.id ? -1 : 1));
}

/** Reads the tables of version 1. */
class FirstVersion {
  readonly #messagesOf;
  readonly #partsOf;
  readonly #options: ReadOptions;
  /** Times of messages of several sessions: perhaps of copies. */
  readonly #shared: ReadonlySet<unknown>;

  constructor(database: DatabaseSync, has: (table: string) => boolean, options: ReadOptions) {
    const tables = ["message", "session_message"].filter(has);
    this.#messagesOf = database.prepare(
      "SELECT id, time_created, data FROM message WHERE session_id = ? ORDER BY time_created, id",
    );
    this.#partsOf = has("part")
      ? database.prepare("SELECT message_id, data FROM part WHERE session_id = ? ORDER BY id")
      : undefined;
    this.#options = options;
    const messages = tables.map((table) => `SELECT session_id, time_created FROM ${table}`).join(
      " UNION ALL ",
    );
    const shared = database.prepare(
      `SELECT time_created FROM (${messages}) GROUP BY time_created HAVING min(session_id) <> max(session_id)`,
    );
    this.#shared = new Set(shared.all().map(({ time_created }) => time_created));
  }

  read(log: SessionLog, row: SessionRow, { isMigrated }: { readonly isMigrated: boolean }): void {
    const messages = this.#messagesOf.all(row.id);
    const isNeeded = this.#options.messages ||
      messages.some(({ time_created }) => this.#shared.has(time_created));
    const parts = Map.groupBy(
      isNeeded ? this.#partsOf?.iterate(row.id) ?? [] : [],
      ({ message_id: message }) => String(message),
    );
    for (const { id, data } of messages) {
      const its = parts.get(String(id))?.map((part) => parsedJson(part.data)) ?? [];
      const message = { data: parsedJson(data), parts: its, row, isMigrated };
      this.#options.line(takeMessage(log, String(id), message));
    }
  }
}

/** Reads `storage/session/PROJECT/ID.json`, with `storage/message/ID/` and `storage/part/MESSAGE/`. */
function* readStorage(path: string, options: ReadOptions): Generator<LoggedSession> {
  const read = (file: string) => asRecord(parsedJson(Deno.readTextFileSync(file)));
  const storage = path.slice(0, path.lastIndexOf("/session/"));
  const { id, parentID: parent, directory } = read(path) ?? {};
  if (typeof id !== "string" || id === "") return options.line(false);
  const row = { id, parent, directory };
  const log = logOf(row, options);
  for (const file of filesIn(`${storage}/message/${id}`, ".json", {})) {
    const data = read(file);
    const message = loggedText(data?.id, file);
    const parts = options.messages ? [...filesIn(`${storage}/part/${message}`, ".json", {})].map(read) : [];
    options.line(takeMessage(log, message, { data, parts, row, isMigrated: false }));
  }
  yield* log.sessions();
}

function logOf({ id, parent, directory }: SessionRow, { messages }: ReadOptions): SessionLog {
  const log = new SessionLog(id, messages);
  log.name({ group: parent, project: directory });
  return log;
}

/** Adds a call. Forks repeat the calls of sessions with new ids; subagents are never forks. */
function addCall(
  log: SessionLog,
  { id: session, parent }: SessionRow,
  { id, model, usage, said, info }: {
    readonly id: string;
    readonly model: string;
    readonly usage: Usage;
    readonly said: string;
    readonly info: JsonRecord;
  },
): void {
  const { created, completed } = asRecord(info.time) ?? {};
  const ts = timeOf(created);
  const when = ts === undefined ? id : `${ts}`;
  const tokens = usageText(usage);
  const same = fingerprint("same", session, when, tokens);
  const fork = fingerprint("fork", when, timeOf(completed), model, tokens, textSample(said));
  const isSubagent = typeof parent === "string" && parent !== "";
  // A migrated message has another id, and perhaps other text.
  const call = `${when} ${tokens}`;
  log.call({
    ...{ id: call, model, usage, atMs: ts, reply: id },
    fingerprints: () => ({ own: [same, fork], sought: isSubagent ? [same] : [same, fork] }),
  });
  log.identify(call, [fork]);
}

/** Takes a message of version 1. The conversation of a migrated session is in the tables of version 2. */
function takeMessage(
  log: SessionLog,
  id: string,
  { data, parts: given, row, isMigrated }: {
    readonly data: unknown;
    readonly parts: readonly unknown[];
    readonly row: SessionRow;
    readonly isMigrated: boolean;
  },
): boolean {
  const info = asRecord(data) ?? {};
  const { created, completed } = asRecord(info.time) ?? {};
  const ts = timeOf(created);
  const parts = given.map((part) => asRecord(part) ?? {});
  const content = parts.flatMap(({ type, text }) => type === "text" ? [loggedText(text)] : []).join("\n");
  if (info.role === "user") {
    if (!isMigrated) {
      if (parts.some(({ type }) => type === "compaction")) log.compact();
      if (content !== "") log.addMessage({ role: "user", content }, { ts });
    }
    log.passed(ts);
    return true;
  }
  const model = loggedText(info.modelID, loggedText(asRecord(info.model)?.modelID));
  const usage = info.role === "assistant" ? readUsage(info.tokens, model) : undefined;
  if (!usage) return false;
  const tools = parts.filter(({ type }) => type === "tool");
  addCall(log, row, { id, model, usage, said: saidIn(content, tools.map(({ tool }) => tool)), info });
  // Recordings contain the messages instead of their summary.
  if (info.summary !== true && !isMigrated) {
    const tool_calls = tools.flatMap(({ callID, tool, state }) =>
      loggedCall(callID, tool, asRecord(state)?.input)
    );
    log.addMessage({ role: "assistant", content, tool_calls }, { ts, reply: id });
    for (const { callID, state } of tools) {
      const { status, output, error, time } = asRecord(state) ?? {};
      const text = loggedText(status === "error" ? error : output);
      addResult(log, callID, { status, text, ts: timeOf(asRecord(time)?.end) });
    }
  }
  log.passed(timeOf(completed) ?? ts);
  return true;
}

/** Takes a message of version 2. */
function takeNewerMessage(
  log: SessionLog,
  { id, type, data }: { readonly id: string; readonly type: string; readonly data: JsonRecord },
  row: SessionRow,
): boolean {
  const { created, completed } = asRecord(data.time) ?? {};
  const ts = timeOf(created);
  const { model: of, tokens } = data;
  const model = loggedText(asRecord(of)?.id, loggedText(asRecord(of)?.modelID));
  const usage = readUsage(tokens, model);
  switch (type) {
    case "user":
    case "synthetic":
    case "skill":
      log.addMessage({ role: "user", content: loggedText(data.text) }, { ts });
      break;
    case "system":
      log.addMessage({ role: "system", content: loggedText(data.text) }, { ts });
      break;
    case "shell": {
      const content = `$ ${loggedText(data.command)}\n${loggedText(data.output)}`;
      log.addMessage({ role: "user", content }, { ts });
      break;
    }
    case "compaction":
      if (usage) addCall(log, row, { id, model, usage, said: loggedText(data.summary), info: data });
      if (data.status === "completed") log.compact();
      break;
    case "assistant": {
      const blocks = objectsIn(data.content);
      const content = textIn(blocks);
      const tools = blocks.filter(({ type }) => type === "tool");
      if (usage) {
        addCall(log, row, {
          id,
          model,
          usage,
          said: saidIn(content, tools.map(({ name }) => name)),
          info: data,
        });
      }
      const tool_calls = tools.flatMap(({ id, name, state }) => loggedCall(id, name, asRecord(state)?.input));
      log.addMessage({ role: "assistant", content, tool_calls }, { ts, reply: id });
      for (const { id, state, time } of tools) {
        const { status, content, error } = asRecord(state) ?? {};
        const text = textIn(objectsIn(content)) || loggedText(asRecord(error)?.message);
        addResult(log, id, { status, text, ts: timeOf(asRecord(time)?.completed) });
      }
      break;
    }
    case "agent-switched":
    case "model-switched":
    case "location-switched":
    case "idle":
      return true;
    default:
      return false;
  }
  log.passed(timeOf(completed) ?? ts);
  return true;
}

function saidIn(content: string, tools: readonly unknown[]): string {
  return [content, ...tools].join("\n");
}

function textIn(blocks: readonly JsonRecord[]): string {
  return blocks.flatMap(({ type, text }) => type === "text" ? [loggedText(text)] : []).join("\n");
}

function addResult(
  log: SessionLog,
  id: unknown,
  { status, text, ts }: { readonly status: unknown; readonly text: string; readonly ts: number | undefined },
): void {
  if (typeof id !== "string" || (status !== "completed" && status !== "error")) return;
  const failed = status === "error";
  const message: Message = { role: "tool", tool_call_id: id, content: text, ...(failed && { failed }) };
  log.addMessage(message, { ts });
}

function readUsage(value: unknown, model: string): Usage | undefined {
  const tokens = asRecord(value);
  if (!tokens || typeof tokens.input !== "number") return undefined;
  const { read, write } = asRecord(tokens.cache) ?? {};
  // Reasoning is counted separately from the reply.
  const output = tokensOf(tokens.output) + tokensOf(tokens.reasoning);
  return loggedUsage({ uncached: tokens.input, read, write, output, model });
}
