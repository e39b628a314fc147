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
  type LoggedSession,
  loggedText,
  objectsIn,
  pathTo,
  readLines,
  timeOf,
  tokensOf,
} from "./log.ts";
import { cacheWrites } from "./spent.ts";

/** pi: a file a session, an entry a line; newer ones name the entry before them. */
export const PI: LogFormat = {
  agent: "pi",
  *find({ home, env }) {
    const folder = env("PI_CODING_AGENT_DIR") ?? `${home}/.pi/agent`;
    yield* filesIn(`${folder}/sessions`, ".jsonl");
  },
  read(path, options) {
    const log = new SessionFile(
      path.slice(path.lastIndexOf("/") + 1).replace(/\.jsonl$/, ""),
      options.messages,
    );
    readLines(path, options, (line) => log.take(line));
    return log.session();
  },
};

/** An entry that is part of the conversation. */
interface Entry extends LogEntry {
  readonly id: string;
}

class SessionFile {
  readonly #keeps: boolean;
  readonly #calls: LoggedCall[] = [];
  readonly #parents = new Map<string, string | undefined>();
  readonly #entries: Entry[] = [];
  #id: string;
  #project = "";
  #model = "";
  #last: string | undefined;
  #lastMs: number | undefined;

  constructor(name: string, keeps: boolean) {
    this.#id = name;
    this.#keeps = keeps;
  }

  /** Takes an entry, if its shape is known. */
  take(entry: JsonRecord): boolean {
    const { type, timestamp } = entry;
    if (typeof type !== "string") return false;
    const atMs = timeOf(timestamp);
    if (type === "session") {
      this.#id = loggedText(entry.id, this.#id);
      this.#project = loggedText(entry.cwd);
      this.#model = loggedText(entry.modelId);
      return true;
    }
    // Older sessions have no ids: each entry follows the one before.
    const id = loggedText(entry.id, `${this.#parents.size}`);
    this.#parents.set(id, typeof entry.id === "string" ? loggedText(entry.parentId) : this.#last);
    this.#last = id;
    if (type === "model_change") this.#model = loggedText(entry.modelId, this.#model);
    if (type === "compaction" || type === "branch_summary") {
      const usage = readUsage(entry.usage, this.#model);
      if (usage) this.#book(usage, { model: this.#model, atMs, id: `${atMs}` });
      if (type === "compaction") this.#keep({ id, ts: atMs });
    }
    if (type !== "message") return true;
    const message = asRecord(entry.message);
    return message !== undefined && this.#said(id, message, timeOf(message.timestamp) ?? atMs);
  }

  #said(id: string, said: JsonRecord, atMs: number | undefined): boolean {
    const message = readMessage(said);
    const model = loggedText(said.model, this.#model);
    const usage = said.role === "assistant" ? readUsage(said.usage, model) : undefined;
    const call = { model, atMs, id: `${atMs} ${loggedText(said.responseId)}` };
    if (usage) this.#book(usage, call);
    if (message) this.#keep({ id, ts: atMs, message, usage });
    this.#lastMs = atMs ?? this.#lastMs;
    return message !== undefined || said.role === "custom";
  }

  #book(
    usage: Usage,
    { id, model, atMs }: { readonly id: string; readonly model: string; readonly atMs: number | undefined },
  ): void {
    if (usage.promptTokens === 0) return;
    const { promptTokens, outputTokens } = usage;
    this.#calls.push({
      id: `${id} ${promptTokens} ${outputTokens}`,
      model,
      usage,
      atMs: this.#lastMs ?? atMs ?? 0,
    });
  }

  #keep(entry: Entry): void {
    if (this.#keeps) this.#entries.push(entry);
  }

  session(): LoggedSession[] {
    if (this.#calls.length === 0) return [];
    const path = pathTo(this.#entries.at(-1)?.id, this.#parents);
    const entries = this.#entries.filter(({ id }) => path.has(id));
    const names = { id: this.#id, group: this.#id, project: this.#project };
    return [{ ...names, calls: this.#calls, ...conversationOfEntries(entries) }];
  }
}

function readMessage(
  { role, content, sections, toolCallId, isError, command, output }: JsonRecord,
): Message | undefined {
  const text = textIn(content);
  switch (role) {
    case "system":
      return {
        role,
        content: [text, ...Object.values(asRecord(sections) ?? {}).map((part) => loggedText(part))].join(
          "\n",
        ),
      };
    case "user":
      return { role, content: text };
    case "bashExecution":
      return { role: "user", content: `$ ${loggedText(command)}\n${loggedText(output)}` };
    case "toolResult":
      return typeof toolCallId === "string"
        ? { role: "tool", tool_call_id: toolCallId, content: text, ...(isError === true && { failed: true }) }
        : undefined;
    case "assistant":
      return { role, content: text, tool_calls: callsIn(content) };
    default:
      return undefined;
  }
}

function textIn(content: unknown): string {
  if (typeof content === "string") return content;
  return objectsIn(content).flatMap(({ type, text }) =>
    type === "text" ? [loggedText(text)] : type === "image" ? ["[image omitted]"] : []
  ).join("\n");
}

function callsIn(content: unknown) {
  return objectsIn(content).flatMap(({ type, id, name, arguments: args }) =>
    type === "toolCall" ? loggedCall(id, name, args) : []
  );
}

function readUsage(value: unknown, model: string): Usage | undefined {
  const usage = asRecord(value);
  if (!usage || typeof usage.input !== "number") return undefined;
  const { input, output, cacheRead, cacheWrite } = usage;
  const [cachedTokens, written] = [tokensOf(cacheRead), tokensOf(cacheWrite)];
  return {
    promptTokens: input + cachedTokens + written,
    cachedTokens,
    ...cacheWrites(model, written),
    outputTokens: tokensOf(output),
  };
}
