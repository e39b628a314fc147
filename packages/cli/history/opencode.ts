import type { Message, Usage } from "@tare/messages";
import type { JsonRecord } from "@tare/wire";
import { asRecord } from "@tare/wire/internal";
import { DatabaseSync } from "node:sqlite";
import {
  conversationOf,
  filesIn,
  type LogFormat,
  LoggedAnswer,
  type LoggedCall,
  type LoggedMessage,
  type LoggedSession,
  loggedText,
  type LogPiece,
  noted,
  type ReadOptions,
  timeOf,
  tokensOf,
} from "./log.ts";
import { cacheWrites } from "./spent.ts";

/** opencode: one database of sessions, their messages and the parts of these; older ones are files of the same JSON. */
export const OPENCODE: LogFormat = {
  agent: "opencode",
  *find({ home, env }) {
    const folder = `${env("XDG_DATA_HOME") ?? `${home}/.local/share`}/opencode`;
    yield* filesIn(folder, ".db");
    yield* filesIn(`${folder}/storage/session`, ".json");
  },
  *read(path, options) {
    if (path.endsWith(".json")) yield* readStorage(path, options);
    else yield* readDatabase(path, options);
  },
};

/** Nothing but what is read is known of the database: a column that isn't there is an error of its own. */
function* readDatabase(path: string, options: ReadOptions): Generator<LoggedSession> {
  using database = new DatabaseSync(path, { readOnly: true });
  const messagesOf = database.prepare(
    "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id",
  );
  const partsOf = database.prepare("SELECT message_id, data FROM part WHERE session_id = ? ORDER BY id");
  const sessions = database.prepare("SELECT id, parent_id, directory FROM session ORDER BY time_created, id");
  for (const { id, parent_id: parent, directory } of sessions.iterate()) {
    if (options.only !== undefined && options.only !== id) continue;
    const parts = new Map<string, unknown[]>();
    if (options.messages) {
      for (const { message_id: message, data } of partsOf.iterate(id ?? "")) {
        const its = parts.get(String(message)) ?? [];
        its.push(parse(data));
        parts.set(String(message), its);
      }
    }
    const session = new StoredSession({
      id: String(id),
      parent: loggedText(parent),
      project: loggedText(directory),
    });
    for (const { id: message, data } of messagesOf.iterate(id ?? "")) {
      const info = asRecord(parse(data));
      options.line(
        info !== undefined && session.take(String(message), info, parts.get(String(message)) ?? []),
      );
    }
    yield* session.sessions();
  }
}

/** `storage/session/PROJECT/ID.json`, with `storage/message/ID/` and `storage/part/MESSAGE/` beside it. */
function* readStorage(path: string, options: ReadOptions): Generator<LoggedSession> {
  const storage = path.slice(0, path.lastIndexOf("/session/"));
  const told = asRecord(parse(Deno.readTextFileSync(path)));
  const id = loggedText(told?.id);
  if (!told || id === "") return options.line(false);
  const session = new StoredSession({
    id,
    parent: loggedText(told.parentID),
    project: loggedText(told.directory),
  });
  for (const file of filesIn(`${storage}/message/${id}`, ".json")) {
    const info = asRecord(parse(Deno.readTextFileSync(file)));
    const message = loggedText(info?.id);
    const parts = options.messages
      ? [...filesIn(`${storage}/part/${message}`, ".json")].map((part) => parse(Deno.readTextFileSync(part)))
      : [];
    options.line(info !== undefined && session.take(message, info, parts));
  }
  yield* session.sessions();
}

function parse(text: unknown): unknown {
  try {
    return JSON.parse(String(text));
  } catch {
    // It is counted as a line of no known shape.
    return undefined;
  }
}

class StoredSession {
  readonly #names: Pick<LoggedSession, "id" | "group" | "project">;
  readonly #calls: LoggedCall[] = [];
  readonly #pieces: LogPiece[] = [];
  readonly #results = new Map<string, LoggedMessage>();
  #lastMs: number | undefined;

  constructor(
    { id, parent, project }: { readonly id: string; readonly parent: string; readonly project: string },
  ) {
    this.#names = { id, group: parent || id, project };
  }

  /** Takes a message, if its shape is known. */
  take(id: string, info: JsonRecord, parts: readonly unknown[]): boolean {
    const { created, completed } = asRecord(info.time) ?? {};
    const [atMs, endMs] = [timeOf(created), timeOf(completed)];
    const records = parts.map((part) => asRecord(part) ?? {});
    if (info.role === "user") {
      if (records.some(({ type }) => type === "compaction")) this.#pieces.push("compacted");
      const text = textIn(records);
      if (text !== "") this.#pieces.push(noted({ role: "user", content: text }, atMs));
      this.#lastMs = atMs ?? this.#lastMs;
      return true;
    }
    if (info.role !== "assistant") return false;
    const model = loggedText(info.modelID);
    const usage = readUsage(info.tokens, model);
    if (!usage) return false;
    if (usage.promptTokens > 0) {
      this.#calls.push({ id, model, usage, atMs: atMs ?? this.#lastMs ?? 0 });
    }
    // A summary stands in place of what recordings keep.
    if (info.summary !== true) this.#answer(records, { usage, atMs });
    this.#lastMs = endMs ?? atMs ?? this.#lastMs;
    return true;
  }

  #answer(
    parts: readonly JsonRecord[],
    { usage, atMs }: { readonly usage: Usage; readonly atMs: number | undefined },
  ): void {
    const answer = new LoggedAnswer(atMs);
    answer.add({ role: "assistant", content: textIn(parts), tool_calls: parts.flatMap(callIn) });
    answer.took(usage);
    this.#pieces.push(answer);
    for (const part of parts) {
      const result = resultIn(part);
      if (result) this.#results.set(loggedText(part.callID), result);
    }
  }

  sessions(): LoggedSession[] {
    if (this.#calls.length === 0) return [];
    return [{ ...this.#names, calls: this.#calls, ...conversationOf(this.#pieces, this.#results) }];
  }
}

function textIn(parts: readonly JsonRecord[]): string {
  return parts.flatMap(({ type, text }) => type === "text" ? [loggedText(text)] : []).join("\n");
}

function callIn({ type, tool, callID, state }: JsonRecord) {
  if (type !== "tool" || typeof callID !== "string" || typeof tool !== "string") return [];
  const input = JSON.stringify(asRecord(state)?.input ?? {});
  return [{ id: callID, type: "function" as const, function: { name: tool, arguments: input } }];
}

function resultIn({ type, callID, state }: JsonRecord): LoggedMessage | undefined {
  const { status, output, error, time } = asRecord(state) ?? {};
  if (type !== "tool" || typeof callID !== "string" || (status !== "completed" && status !== "error")) {
    return undefined;
  }
  const failed = status === "error";
  const content = failed ? loggedText(error) : loggedText(output);
  const message: Message = { role: "tool", tool_call_id: callID, content, ...(failed && { failed }) };
  return noted(message, timeOf(asRecord(time)?.end));
}

function readUsage(value: unknown, model: string): Usage | undefined {
  const tokens = asRecord(value);
  if (!tokens || typeof tokens.input !== "number") return undefined;
  const { read, write } = asRecord(tokens.cache) ?? {};
  const [cachedTokens, written] = [tokensOf(read), tokensOf(write)];
  return {
    promptTokens: tokens.input + cachedTokens + written,
    cachedTokens,
    ...cacheWrites(model, written),
    // What was thought is told beside what was said.
    outputTokens: tokensOf(tokens.output) + tokensOf(tokens.reasoning),
  };
}
