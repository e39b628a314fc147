import type { Usage } from "@tare/messages";
import { type JsonRecord, RESPONSES_PROTOCOL } from "@tare/wire";
import { asRecord } from "@tare/wire/internal";
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
  readLines,
  timeOf,
  tokensOf,
} from "./log.ts";

/** Codex: a file a session, of the items of its responses, and behind each response what it took. */
export const CODEX: LogFormat = {
  agent: "codex",
  *find({ home, env }) {
    const folder = env("CODEX_HOME") ?? `${home}/.codex`;
    for (const name of ["sessions", "archived_sessions"]) yield* filesIn(`${folder}/${name}`, ".jsonl");
  },
  read(path, options) {
    const rollout = new Rollout(
      path.slice(path.lastIndexOf("/") + 1).replace(/\.jsonl$/, ""),
      options.messages,
    );
    readLines(path, options, (line) => rollout.take(line));
    return rollout.session();
  },
};

class Rollout {
  readonly #keeps: boolean;
  readonly #calls: LoggedCall[] = [];
  readonly #written: LogPiece[] = [];
  readonly #results = new Map<string, LoggedMessage>();
  #id: string;
  #origin = "";
  #group = "";
  #project = "";
  #model = "";
  #askedMs: number | undefined;
  #total = "";
  #hasRecords = false;
  #answer: LoggedAnswer | undefined;

  constructor(name: string, keeps: boolean) {
    this.#id = name;
    this.#keeps = keeps;
  }

  /** Takes a line, if its shape is known. */
  take({ type, payload, timestamp }: JsonRecord): boolean {
    const atMs = timeOf(timestamp);
    const value = asRecord(payload);
    if (typeof type !== "string" || !value) return false;
    if (type === "session_meta") this.#begin(value, atMs);
    else if (type === "turn_context") this.#model = loggedText(value.model, this.#model);
    else if (type === "compacted") this.#compact();
    else if (type === "response_item") this.#item(value, atMs);
    else if (type === "token_usage_record") return this.#record(value, atMs);
    else if (type === "event_msg" && value.type === "token_count") return this.#count(value, atMs);
    return true;
  }

  #begin(meta: JsonRecord, atMs: number | undefined): void {
    // One that goes on from another session repeats what that began with.
    if (this.#origin !== "") return;
    this.#id = loggedText(meta.id, this.#id);
    this.#origin = loggedText(meta.forked_from_id, this.#id);
    this.#group = loggedText(meta.parent_thread_id, loggedText(meta.session_id, this.#id));
    this.#project = loggedText(meta.cwd);
    const instructions = loggedText(asRecord(meta.base_instructions)?.text);
    if (!this.#keeps || instructions === "") return;
    this.#written.push(noted({ role: "system", content: instructions }, atMs));
  }

  #compact(): void {
    this.#answer = undefined;
    if (this.#keeps) this.#written.push("compacted");
  }

  #item(item: JsonRecord, atMs: number | undefined): void {
    const [part] = RESPONSES_PROTOCOL.readItem(item);
    const message = part?.message;
    if (message?.role !== "assistant") this.#askedMs = atMs ?? this.#askedMs;
    if (!this.#keeps || !message) return;
    if (message.role === "tool") {
      this.#results.set(message.tool_call_id, noted(message, atMs));
    } else if (message.role !== "assistant") {
      this.#answer = undefined;
      this.#written.push(noted(message, atMs));
    } else if (item.type === "message" || message.tool_calls) {
      if (!this.#answer) this.#written.push(this.#answer = new LoggedAnswer(atMs));
      this.#answer.add(message);
    }
  }

  /** What a response took, as newer versions tell: that of one which compacts, too. */
  #record({ response_id: id, usage }: JsonRecord, atMs: number | undefined): boolean {
    this.#hasRecords = true;
    return this.#took(`${loggedText(id)} ${JSON.stringify(usage)}`, readUsage(usage), atMs);
  }

  /** The same as others tell: the sum so far with it, and again whenever limits change. */
  #count({ info }: JsonRecord, atMs: number | undefined): boolean {
    if (this.#hasRecords || info === null || info === undefined) return true;
    const { last_token_usage: last, total_token_usage: total } = asRecord(info) ?? {};
    const told = JSON.stringify(total ?? last);
    if (told === this.#total) return true;
    this.#total = told;
    return this.#took(told, readUsage(last), atMs);
  }

  /** A response has ended. */
  #took(id: string, usage: Usage | undefined, atMs: number | undefined): boolean {
    if (!usage) return false;
    const call = { id: `${this.#origin} ${id}`, model: this.#model, usage, atMs: this.#askedMs ?? atMs ?? 0 };
    if (usage.promptTokens > 0) this.#calls.push(call);
    this.#answer?.took(usage);
    this.#answer = undefined;
    return true;
  }

  session(): LoggedSession[] {
    if (this.#calls.length === 0) return [];
    const names = { id: this.#id, group: this.#group || this.#id, project: this.#project };
    return [{ ...names, calls: this.#calls, ...conversationOf(this.#written, this.#results) }];
  }
}

function readUsage(value: unknown): Usage | undefined {
  const usage = asRecord(value);
  if (!usage || typeof usage.input_tokens !== "number") return undefined;
  const written = tokensOf(usage.cache_write_input_tokens);
  return {
    promptTokens: usage.input_tokens,
    cachedTokens: tokensOf(usage.cached_input_tokens),
    ...(written > 0 && { cacheWriteTokens: written }),
    outputTokens: tokensOf(usage.output_tokens),
  };
}
