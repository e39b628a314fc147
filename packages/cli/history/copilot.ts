import type { Message } from "@tare/messages";
import type { JsonRecord } from "@tare/wire";
import { asRecord } from "@tare/wire/internal";
import {
  filesIn,
  lineReader,
  type LogFormat,
  loggedCall,
  loggedText,
  objectsIn,
  timeOf,
  usageText,
} from "./log.ts";
import { loggedUsage, tokensOf } from "./spent.ts";

/** Copilot CLI: a folder per session, an event per line; events of subagents name them. */
export const COPILOT: LogFormat = {
  agent: "copilot",
  find(places) {
    const { home, env } = places;
    return filesIn(`${env("COPILOT_HOME") ?? `${home}/.copilot`}/session-state`, "events.jsonl", places);
  },
  read: lineReader((logOf) => {
    let [session, project] = ["", ""];
    return ({ type, agentId, data: value, timestamp }) => {
      const data = asRecord(value);
      if (typeof type !== "string" || !data) return false;
      if (type === "session.start") {
        session = loggedText(data.sessionId);
        project = loggedText(asRecord(data.context)?.cwd);
      }
      const subagentId = loggedText(agentId);
      const log = logOf(subagentId);
      log.name({ id: subagentId === "" ? session : `${session}/${subagentId}`, group: session, project });
      const ts = timeOf(timestamp);
      if (type === "session.usage_record") {
        const took = asRecord(data.usage) ?? {};
        const model = loggedText(took.model);
        const usage = loggedUsage({
          ...{ prompt: tokensOf(took.inputTokens), read: took.cacheReadTokens, write: took.cacheWriteTokens },
          ...{ output: tokensOf(took.outputTokens), model },
        });
        const reply = loggedText(took.apiCallId);
        const id = `${reply} ${ts} ${usageText(usage)}`;
        log.call({ id, model, usage, ts, said: reply || log.id, ...(reply !== "" && { reply }) });
        return true;
      }
      const isCompacted = type === "session.compaction_complete" && data.success === true;
      const message = readMessage(type, data);
      if (message) {
        log.addMessage(message, { ts, ...(typeof data.apiCallId === "string" && { reply: data.apiCallId }) });
      }
      if (isCompacted) log.compact();
      if (message || isCompacted) log.passed(ts);
      return true;
    };
  }),
};

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
