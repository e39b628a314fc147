import type { Message, Usage } from "@tare/messages";
import { type JsonRecord, MESSAGES_PROTOCOL } from "@tare/wire";
import { asRecord } from "@tare/wire/internal";
import {
  conversationOfEntries,
  filesIn,
  type LogEntry,
  type LogFormat,
  type LoggedCall,
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

/** Its messages are those of Anthropic's protocol, but for pictures and for what tools of its own gave. */
function readMessages({ role, content }: JsonRecord): Message[] {
  const blocks = objectsIn(content).map((block) =>
    block.type === "image"
      ? { type: "text", text: "[image omitted]" }
      : block.type === "tool_result"
      ? { ...block, content: resultText(block.content) }
      : block
  );
  const item = { role, content: typeof content === "string" ? content : blocks };
  return MESSAGES_PROTOCOL.readItem(item).map(({ message }) => message);
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
