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
  loggedText,
  objectsIn,
  readLines,
  timeOf,
  tokensOf,
} from "./log.ts";
import { cacheWrites } from "./spent.ts";

/** Copilot CLI: a folder a session, whose events are a line each; those of helpers name them. */
export const COPILOT: LogFormat = {
  agent: "copilot",
  *find({ home, env }) {
    yield* filesIn(`${env("COPILOT_HOME") ?? `${home}/.copilot`}/session-state`, "events.jsonl");
  },
  read(path, options) {
    const prompts = new Map<string, Prompt>();
    let [session, project] = ["", ""];
    readLines(path, options, (event) => {
      const { type, agentId } = event;
      const data = asRecord(event.data);
      if (typeof type !== "string" || !data) return false;
      if (type === "session.start") {
        session = loggedText(data.sessionId);
        project = loggedText(asRecord(data.context)?.cwd);
      }
      const id = typeof agentId === "string" ? `${session}/${agentId}` : session;
      const prompt = prompts.get(id) ?? new Prompt(options.messages);
      prompts.set(id, prompt);
      prompt.take(type, data, timeOf(event.timestamp));
      return true;
    });
    return [...prompts].filter(([, { calls }]) => calls.length > 0).map(([id, { calls, entries }]) => ({
      ...{ id, group: session, project, calls },
      ...conversationOfEntries(entries),
    }));
  },
};

/** What is said between one agent and its model. */
class Prompt {
  readonly calls: LoggedCall[] = [];
  readonly entries: LogEntry[] = [];
  readonly #keeps: boolean;
  readonly #usages = new Map<string, Usage>();
  #lastMs: number | undefined;

  constructor(keeps: boolean) {
    this.#keeps = keeps;
  }

  take(type: string, data: JsonRecord, ts: number | undefined): void {
    if (type === "session.usage_record") return this.#book(asRecord(data.usage) ?? {}, ts);
    const isCompacted = type === "session.compaction_complete" && data.success === true;
    const message = readMessage(type, data);
    if (!message && !isCompacted) return;
    const usage = this.#usages.get(loggedText(data.apiCallId));
    if (this.#keeps) this.entries.push({ ts, ...(message && { message }), usage });
    this.#lastMs = ts ?? this.#lastMs;
  }

  /** It stands in front of the reply that it is of. */
  #book(record: JsonRecord, ts: number | undefined): void {
    const model = loggedText(record.model);
    const usage = {
      promptTokens: tokensOf(record.inputTokens),
      cachedTokens: tokensOf(record.cacheReadTokens),
      ...cacheWrites(model, tokensOf(record.cacheWriteTokens)),
      outputTokens: tokensOf(record.outputTokens),
    };
    if (usage.promptTokens === 0) return;
    const id = loggedText(record.apiCallId, `${ts} ${usage.promptTokens} ${usage.outputTokens}`);
    this.#usages.set(id, usage);
    this.calls.push({ id, model, usage, atMs: this.#lastMs ?? ts ?? 0 });
  }
}

function readMessage(type: string, data: JsonRecord): Message | undefined {
  const content = loggedText(data.content);
  switch (type) {
    case "system.message":
      return { role: "system", content };
    case "user.message":
      return { role: "user", content: loggedText(data.transformedContent, content) };
    case "assistant.message": {
      const tool_calls = objectsIn(data.toolRequests).flatMap(({ toolCallId, name, arguments: args }) =>
        loggedCall(toolCallId, name, args)
      );
      return { role: "assistant", content, tool_calls };
    }
    case "tool.execution_complete": {
      const { toolCallId: tool_call_id, success, result, error } = data;
      if (typeof tool_call_id !== "string") return undefined;
      const text = loggedText(asRecord(result)?.content, loggedText(asRecord(error)?.message));
      return { role: "tool", tool_call_id, content: text, ...(success === false && { failed: true }) };
    }
    default:
      return undefined;
  }
}
