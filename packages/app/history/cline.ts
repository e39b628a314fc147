import type { Message, Usage } from "@tare/messages";
import { asRecord, type JsonRecord } from "@tare/wire";
import {
  conversationOfEntries,
  filesIn,
  type LogEntry,
  type LogFormat,
  type LoggedCall,
  loggedCall,
  loggedText,
  objectsIn,
  timeOf,
  tokensOf,
} from "./log.ts";
import { cacheWrites } from "./spent.ts";

/** Cline: a file a session, which holds all of its messages. */
export const CLINE: LogFormat = {
  agent: "cline",
  *find({ home, env }) {
    const data = env("CLINE_DATA_DIR") ?? `${env("CLINE_DIR") ?? `${home}/.cline`}/data`;
    yield* filesIn(`${data}/sessions`, ".messages.json");
  },
  read(path, { messages: keeps, line }) {
    const log = asRecord(JSON.parse(Deno.readTextFileSync(path))) ?? {};
    const id = loggedText(log.sessionId, path.slice(path.lastIndexOf("/") + 1));
    const calls: LoggedCall[] = [];
    const entries: LogEntry[] = [];
    const system = loggedText(log.system_prompt);
    if (keeps && system !== "") {
      entries.push({ ts: undefined, message: { role: "system", content: system } });
    }
    let lastMs: number | undefined;
    for (const said of objectsIn(log.messages)) {
      const ts = timeOf(said.ts);
      const model = loggedText(asRecord(said.modelInfo)?.id);
      const usage = readUsage(said.metrics, model);
      if (usage) calls.push({ id: loggedText(said.id), model, usage, atMs: lastMs ?? ts ?? 0 });
      lastMs = ts ?? lastMs;
      const messages = readMessages(said);
      line(messages.length > 0);
      if (keeps) entries.push(...messages.map((message) => ({ ts, message, usage })));
    }
    if (calls.length === 0) return [];
    return [{ id, group: id, project: projectOf(path), calls, ...conversationOfEntries(entries) }];
  },
};

/** The folder that a session worked in, as the file beside its messages says. */
function projectOf(path: string): string {
  try {
    const beside = JSON.parse(Deno.readTextFileSync(path.replace(/\.messages\.json$/, ".json")));
    return loggedText(asRecord(beside)?.cwd);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return "";
    throw error;
  }
}

function readMessages({ role, content }: JsonRecord): Message[] {
  const blocks = typeof content === "string" ? [{ type: "text", text: content }] : objectsIn(content);
  const text = blocks.flatMap((block) =>
    block.type === "text" ? [loggedText(block.text)] : block.type === "image" ? ["[image omitted]"] : []
  ).join("\n");
  if (role === "assistant") {
    const tool_calls = blocks.flatMap((block: JsonRecord) =>
      block.type === "tool_use" ? loggedCall(block.id, block.name, block.input) : []
    );
    return [{ role, content: text, tool_calls }];
  }
  if (role !== "user") return [];
  const results = blocks.flatMap((block: JsonRecord): Message[] =>
    block.type === "tool_result" && typeof block.tool_use_id === "string"
      ? [{
        role: "tool",
        tool_call_id: block.tool_use_id,
        content: resultText(block.content),
        ...(block.is_error === true && { failed: true }),
      }]
      : []
  );
  return text === "" ? results : [...results, { role, content: text }];
}

/** What a tool gave, as the model is shown it. */
function resultText(content: unknown): string {
  return typeof content === "string" ? content : JSON.stringify(content ?? "");
}

function readUsage(value: unknown, model: string): Usage | undefined {
  const metrics = asRecord(value);
  const promptTokens = tokensOf(metrics?.inputTokens);
  if (!metrics || promptTokens === 0) return undefined;
  return {
    promptTokens,
    cachedTokens: tokensOf(metrics.cacheReadTokens),
    ...cacheWrites(model, tokensOf(metrics.cacheWriteTokens)),
    outputTokens: tokensOf(metrics.outputTokens),
  };
}
