import type { Usage } from "@tare/messages";
import { asRecord, RESPONSES_PROTOCOL } from "@tare/wire/internal";
import { filesIn, lineReader, type LogFormat, loggedText, timeOf } from "./log.ts";
import { loggedUsage, tokensOf } from "./spent.ts";

/** Codex: a file per session with the items of responses, each response followed by its usage. */
export const CODEX: LogFormat = {
  agent: "codex",
  *find({ home, env }) {
    const folder = env("CODEX_HOME") ?? `${home}/.codex`;
    for (const name of ["sessions", "archived_sessions"]) yield* filesIn(`${folder}/${name}`, ".jsonl");
  },
  read: lineReader((logOf) => {
    const log = logOf();
    let [origin, model, total, hasRecords, replies] = ["", "", "", false, 0];
    const took = (id: string, usage: Usage | undefined, ts: number | undefined) => {
      if (!usage) return false;
      log.call({ id: `${origin} ${id}`, model, usage, ts, reply: `${replies++}` });
      return true;
    };
    return ({ type, payload, timestamp }) => {
      const ts = timeOf(timestamp);
      const value = asRecord(payload);
      if (typeof type !== "string" || !value) return false;
      switch (type) {
        case "session_meta": {
          // A session that continues another one repeats its beginning.
          if (origin !== "") break;
          log.name({ id: value.id, group: value.parent_thread_id ?? value.session_id, project: value.cwd });
          origin = loggedText(value.forked_from_id, log.id);
          const instructions = loggedText(asRecord(value.base_instructions)?.text);
          if (instructions !== "") log.addMessage({ role: "system", content: instructions }, { ts });
          break;
        }
        case "turn_context":
          model = loggedText(value.model, model);
          break;
        case "compacted":
          replies++;
          log.compact();
          break;
        case "response_item": {
          const [part] = RESPONSES_PROTOCOL.readItem(value);
          const message = part?.message;
          if (message?.role !== "assistant") log.passed(ts);
          if (!message) break;
          if (message.role !== "assistant" && message.role !== "tool") replies++;
          const isReasoning = message.role === "assistant" && value.type !== "message" && !message.tool_calls;
          if (!isReasoning) log.addMessage(message, { ts, reply: `${replies}` });
          break;
        }
        case "token_usage_record":
          // Newer versions: one for each response, compactions included.
          hasRecords = true;
          return took(
            `${loggedText(value.response_id)} ${JSON.stringify(value.usage)}`,
            readUsage(value.usage),
            ts,
          );
        case "event_msg": {
          // Older versions: repeated whenever rate limits change, with the total so far.
          const info = asRecord(value.info);
          if (value.type !== "token_count" || hasRecords || value.info === null || value.info === undefined) {
            break;
          }
          const known = JSON.stringify(info?.total_token_usage ?? info?.last_token_usage);
          if (known === total) break;
          total = known;
          return took(known, readUsage(info?.last_token_usage), ts);
        }
      }
      return true;
    };
  }),
};

function readUsage(value: unknown): Usage | undefined {
  const usage = asRecord(value);
  if (!usage || typeof usage.input_tokens !== "number") return undefined;
  const { input_tokens: prompt, cached_input_tokens: read, cache_write_input_tokens: write, output_tokens } =
    usage;
  return loggedUsage({ prompt, read, write, output: tokensOf(output_tokens) });
}
