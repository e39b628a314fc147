import { contentText, type Message } from "@tare/messages";
import type { JsonRecord } from "@tare/wire";
import { asRecord, MESSAGES_PROTOCOL } from "@tare/wire/internal";
import { textSample } from "./copies.ts";
import { filesIn, type LogFormat, loggedText, objectsIn, SessionLog, timeOf } from "./log.ts";
import { loggedUsage, tokensOf } from "./spent.ts";

/** Cline: a file per session with all of its messages. */
export const CLINE: LogFormat = {
  agent: "cline",
  find(places) {
    const { home, env } = places;
    const data = env("CLINE_DATA_DIR") ?? `${env("CLINE_DIR") ?? `${home}/.cline`}/data`;
    return filesIn(`${data}/sessions`, ".messages.json", places);
  },
  read(path, { messages: hasMessages, line }) {
    const file = asRecord(JSON.parse(Deno.readTextFileSync(path))) ?? {};
    const log = new SessionLog(
      loggedText(file.sessionId, path.slice(path.lastIndexOf("/") + 1)),
      hasMessages,
    );
    log.name({ project: projectOf(path) });
    const system = loggedText(file.system_prompt);
    if (system !== "") log.addMessage({ role: "system", content: system }, {});
    for (const [at, entry] of objectsIn(file.messages).entries()) {
      const [ts, reply] = [timeOf(entry.ts), loggedText(entry.id, `${at}`)];
      const model = loggedText(asRecord(entry.modelInfo)?.id);
      const took = asRecord(entry.metrics) ?? {};
      const usage = loggedUsage({
        ...{ prompt: tokensOf(took.inputTokens), read: took.cacheReadTokens, write: took.cacheWriteTokens },
        ...{ output: tokensOf(took.outputTokens), model },
      });
      const messages = readMessages(entry);
      const said = messages.map(({ content }) => textSample(contentText(content ?? ""))).join("\n");
      log.call({ id: `${at}`, model, usage, ts, reply, said });
      log.passed(ts);
      line(messages.length > 0);
      for (const message of messages) log.addMessage(message, { ts, reply });
    }
    return log.sessions();
  },
};

function projectOf(path: string): string {
  try {
    const metadata = JSON.parse(Deno.readTextFileSync(path.replace(/\.messages\.json$/, ".json")));
    return loggedText(asRecord(metadata)?.cwd);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return "";
    throw error;
  }
}

/** Reads messages of Anthropic's protocol; replaces images and serializes results of Cline's own tools. */
function readMessages({ role, content }: JsonRecord): Message[] {
  const blocks = objectsIn(content).map((block) =>
    block.type === "image"
      ? { type: "text", text: "[image omitted]" }
      : block.type === "tool_result" && typeof block.content !== "string"
      ? { ...block, content: JSON.stringify(block.content ?? "") }
      : block
  );
  const item = { role, content: typeof content === "string" ? content : blocks };
  return MESSAGES_PROTOCOL.readItem(item).map(({ message }) => message);
}
