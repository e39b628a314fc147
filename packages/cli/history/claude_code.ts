import type { Usage } from "@tare/messages";
import { type JsonRecord, MESSAGES_PROTOCOL, readUsage } from "@tare/wire";
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
  pathTo,
  readLines,
  timeOf,
} from "./log.ts";

/**
 * Claude Code: a file a session in `projects/`, and one for each of its helpers beside it. Lines name the line before them;
 * one reply stands in several, each with the usage of all.
 */
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
  read(path, options) {
    const name = path.slice(path.lastIndexOf("/") + 1).replace(/\.jsonl$/, "");
    const threads = new Map<string, Thread>();
    const sides = new Map<string, string>();
    readLines(path, options, (line) => {
      const thread = threadOf(line, sides);
      const known = threads.get(thread) ?? new Thread(thread === "" ? name : thread, options.messages);
      threads.set(thread, known);
      return known.take(line);
    });
    return [...threads.values()].flatMap((thread) => thread.session());
  },
};

/** Which prompt a line belongs to: the session's own, or a helper's, by its name or its first line. */
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

/** A line that somebody said something in, or that a summary begins with. */
interface Said {
  readonly uuid: string;
  readonly atMs: number | undefined;
  /** The reply that it is a part of. */
  readonly reply?: string;
  /** Absent where the conversation was compacted. */
  readonly message?: unknown;
}

/** One growing prompt. */
class Thread {
  readonly #name: string;
  readonly #keeps: boolean;
  readonly #calls = new Map<string, LoggedCall>();
  readonly #parents = new Map<string, string | undefined>();
  readonly #said: Said[] = [];
  #group = "";
  #project = "";
  #lastMs: number | undefined;

  constructor(name: string, keeps: boolean) {
    this.#name = name;
    this.#keeps = keeps;
  }

  /** Takes a line, if its shape is known. */
  take(line: JsonRecord): boolean {
    const { type, uuid, parentUuid, logicalParentUuid, timestamp } = line;
    if (typeof type !== "string") return false;
    const atMs = timeOf(timestamp);
    if (typeof uuid === "string" && this.#keeps) {
      const parent = parentUuid ?? logicalParentUuid;
      this.#parents.set(uuid, typeof parent === "string" ? parent : undefined);
    }
    this.#group ||= loggedText(line.sessionId);
    this.#project ||= loggedText(line.cwd);
    const isCompacted = type === "system" && line.subtype === "compact_boundary";
    if (isCompacted) this.#keep({ uuid: loggedText(uuid), atMs });
    if (type !== "user" && type !== "assistant") return true;
    const message = asRecord(line.message);
    if (!message || typeof uuid !== "string") return false;
    const known = type === "user"
      ? this.#takeUser(line, message, atMs)
      : this.#takeReply(line, message, atMs);
    this.#lastMs = atMs ?? this.#lastMs;
    return known;
  }

  #takeUser(line: JsonRecord, message: JsonRecord, atMs: number | undefined): boolean {
    // The summary stands in place of what recordings keep; what is only shown to the person is no prompt.
    if (line.isCompactSummary === true || line.isVisibleInTranscriptOnly === true) return true;
    if (!Array.isArray(message.content) && typeof message.content !== "string") return false;
    this.#keep({ uuid: loggedText(line.uuid), atMs, message });
    return true;
  }

  #takeReply(line: JsonRecord, message: JsonRecord, atMs: number | undefined): boolean {
    const { id, model } = message;
    // What it says itself, such as of an error, cost nothing.
    if (line.isApiErrorMessage === true || model === "<synthetic>") return true;
    const usage = readUsage(message.usage);
    if (typeof id !== "string" || typeof model !== "string") return false;
    if (usage) this.#book(`${id} ${loggedText(line.requestId)}`, { model, usage, atMs });
    this.#keep({ uuid: loggedText(line.uuid), atMs, reply: id, message });
    return usage !== undefined;
  }

  #book(
    id: string,
    { model, usage, atMs }: {
      readonly model: string;
      readonly usage: Usage;
      readonly atMs: number | undefined;
    },
  ): void {
    const known = this.#calls.get(id);
    // The first lines of a reply may be written before it is finished.
    if (known && known.usage.outputTokens >= usage.outputTokens) return;
    this.#calls.set(id, { id, model, usage, atMs: known?.atMs ?? this.#lastMs ?? atMs ?? 0 });
  }

  #keep(said: Said): void {
    if (this.#keeps) this.#said.push(said);
  }

  session(): LoggedSession[] {
    const calls = [...this.#calls.values()];
    if (calls.length === 0) return [];
    const group = this.#group || this.#name;
    return [{ id: this.#name, group, project: this.#project, calls, ...this.#conversation() }];
  }

  /** What leads to the newest line. Of a reply all lines do, and of its calls all results, wherever they hang. */
  #conversation(): Pick<LoggedSession, "messages" | "compacted"> {
    const leaf = this.#said.findLast(({ message }) => message)?.uuid;
    const path = pathTo(leaf, this.#parents);
    const replies = new Set(this.#said.flatMap(({ uuid, reply }) => reply && path.has(uuid) ? [reply] : []));
    const usages = new Map([...this.#calls].map(([id, { usage }]) => [id.slice(0, id.indexOf(" ")), usage]));
    const results = new Map<string, LoggedMessage>();
    const written: LogPiece[] = [];
    let answer: { readonly reply: string; readonly made: LoggedAnswer } | undefined;
    for (const { uuid, atMs, reply, message } of this.#said) {
      const parts = message === undefined ? [] : MESSAGES_PROTOCOL.readItem(message);
      if (reply !== undefined) {
        if (!replies.has(reply)) continue;
        if (answer?.reply !== reply) {
          answer = { reply, made: new LoggedAnswer(atMs) };
          written.push(answer.made);
        }
        for (const part of parts) answer.made.add(part.message);
        const usage = usages.get(reply);
        if (usage) answer.made.took(usage);
        continue;
      }
      for (const { message } of parts) {
        if (message.role === "tool") results.set(message.tool_call_id, noted(message, atMs));
        else if (path.has(uuid)) written.push(noted(message, atMs));
      }
      if (message === undefined && path.has(uuid)) written.push("compacted");
    }
    return conversationOf(written, results);
  }
}
