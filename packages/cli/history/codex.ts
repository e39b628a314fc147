import { contentText, type Usage } from "@tare/messages";
import type { JsonRecord } from "@tare/wire";
import { asRecord, RESPONSES_PROTOCOL } from "@tare/wire/internal";
import { fingerprint, type Replay, textSample } from "./copies.ts";
import { filesIn, lineReader, type LogFormat, loggedText, timeOf, usageText } from "./log.ts";
import { loggedUsage, tokensOf } from "./spent.ts";

/** Codex: a file per session with the items of responses, each response followed by its usage. */
export const CODEX: LogFormat = {
  agent: "codex",
  find(places) {
    const { home, env } = places;
    const folder = env("CODEX_HOME") ?? `${home}/.codex`;
    const baseName = (path: string) => path.slice(path.lastIndexOf("/") + 1);
    // A session precedes those that repeat it: names begin with the time.
    return ["sessions", "archived_sessions"]
      .flatMap((name) => [...filesIn(`${folder}/${name}`, ".jsonl", places)])
      .sort((a, b) => baseName(a) < baseName(b) ? -1 : 1);
  },
  read: lineReader((logOf) => {
    const log = logOf();
    log.setLineage({ id: log.id, ancestors: [], isFork: false });
    const ancestors = new Set<string>();
    const clock = new ReplayClock();
    const totals = new Set<string>();
    let [origin, model, tier, prompt, lastCall] = ["", "", "", "", ""];
    let lastTotal: Usage | undefined;
    let [hasRecords, replies, items, isFork] = [false, 0, 0, false];
    const took = (usage: Usage | undefined, ts: number | undefined, own: number): boolean => {
      if (!usage) return false;
      lastCall = `${replies}`;
      const fingerprints = () => ({ own: [own], replay: clock.replay });
      const tiered = tier === "" ? usage : { ...usage, tier };
      log.call({ id: lastCall, model, usage: tiered, ts, reply: `${replies++}`, fingerprints });
      return true;
    };
    return ({ type, payload, timestamp }) => {
      const ts = timeOf(timestamp);
      const value = asRecord(payload);
      if (typeof type !== "string" || !value) return false;
      clock.line(ts);
      switch (type) {
        case "session_meta": {
          const id = loggedText(value.id);
          const isFirst = origin === "";
          const parents = parentsOf(value);
          for (const parent of [...isFirst ? [] : [id], ...parents.all]) ancestors.add(parent);
          ancestors.delete("");
          ancestors.delete(origin);
          isFork ||= !isFirst && id !== origin || parents.forked !== "";
          if (isFirst) {
            origin = id || log.id;
            clock.begin(timeOf(value.timestamp) ?? ts);
            log.name({ id: value.id, group: value.parent_thread_id ?? value.session_id, project: value.cwd });
            const instructions = loggedText(asRecord(value.base_instructions)?.text);
            if (instructions !== "") log.addMessage({ role: "system", content: instructions }, { ts });
          }
          log.setLineage({ id: origin, ancestors: [...ancestors], isFork });
          break;
        }
        case "turn_context":
          model = loggedText(value.model, model);
          if (value.service_tier !== undefined) tier = tierOf(value.service_tier);
          break;
        case "compacted":
          replies++;
          log.compact();
          break;
        case "response_item": {
          items++;
          const [part] = RESPONSES_PROTOCOL.readItem(value);
          const message = part?.message;
          if (message?.role !== "assistant") log.passed(ts);
          if (!message) break;
          if (message.role === "user") prompt = textSample(contentText(message.content));
          if (message.role !== "assistant" && message.role !== "tool") replies++;
          const isReasoning = message.role === "assistant" && value.type !== "message" && !message.tool_calls;
          if (!isReasoning) log.addMessage(message, { ts, reply: `${replies}` });
          break;
        }
        case "token_usage_record": {
          // Newer versions: one for each response, compactions included.
          hasRecords = true;
          const usage = readUsage(value.usage);
          const id = loggedText(value.response_id);
          const record = `${id} ${usage && usageText(usage)} ${prompt}`;
          if (usage && totals.has(record)) break;
          totals.add(record);
          return took(usage, ts, fingerprint("response", record));
        }
        case "event_msg": {
          // Repeated whenever rate limits change, with the total so far.
          const settings = value.type === "thread_settings_applied"
            ? asRecord(value.thread_settings)
            : undefined;
          if (settings) {
            model = loggedText(settings.model, model);
            tier = tierOf(settings.service_tier);
          }
          const info = asRecord(value.info);
          if (value.type !== "token_count" || value.info === null || value.info === undefined) break;
          const total = readUsage(info?.total_token_usage);
          const reported = readUsage(info?.last_token_usage);
          const last = reported ?? (total && sinceTotal(total, lastTotal));
          const known = `${total ? usageText(total) : items} ${reported && usageText(reported)}`;
          lastTotal = total ?? lastTotal;
          if (last && totals.has(known)) break;
          totals.add(known);
          const own = fingerprint("total", known, prompt);
          if (!hasRecords) return took(last, ts, own);
          // Sessions that repeat this one contain its totals, not its records.
          log.identify(lastCall, [own]);
        }
      }
      return true;
    };
  }),
};

/** Returns the requested tier if it isn't the standard one; Codex's "fast" is the provider's "priority". */
function tierOf(value: unknown): string {
  const tier = loggedText(value);
  return tier === "fast" ? "priority" : ["default", "auto", "standard"].includes(tier) ? "" : tier;
}

/** Returns the sessions that a session's log may repeat. */
function parentsOf(
  { forked_from_id, parent_thread_id, source }: JsonRecord,
): { readonly forked: string; readonly all: readonly string[] } {
  const spawned = asRecord(asRecord(asRecord(source)?.subagent)?.thread_spawn)?.parent_thread_id;
  const forked = loggedText(forked_from_id);
  return { forked, all: [forked, loggedText(parent_thread_id), loggedText(spawned)] };
}

/** Longest pause between lines that are written at once, in milliseconds. */
const WRITING_MS = 500;

/** Longest pause between lines of a slowly written copy, in milliseconds. */
const SLOW_WRITING_MS = 1_500;

/** Tells the lines that repeat another session from a session's own, by their times. */
class ReplayClock {
  #beginMs: number | undefined;
  #lastMs: number | undefined;
  #now: Replay = "written";
  replay: Replay = "written";

  begin(ts: number | undefined): void {
    this.#beginMs = ts;
    this.#lastMs ??= ts;
  }

  line(ts: number | undefined): void {
    if (ts === undefined) return;
    const isOlder = this.#beginMs !== undefined && ts < this.#beginMs;
    if (!isOlder) {
      const pauseMs = ts - (this.#lastMs ?? ts);
      if (pauseMs > SLOW_WRITING_MS) this.#now = "none";
      else if (pauseMs > WRITING_MS && this.#now === "written") this.#now = "possible";
      this.#lastMs = Math.max(ts, this.#lastMs ?? ts);
    }
    this.replay = isOlder ? "written" : this.#now;
  }
}

/** Returns the usage of a call by the totals after and before it. A smaller total is a new count. */
function sinceTotal(total: Usage, before: Usage | undefined): Usage {
  if (!before || total.promptTokens < before.promptTokens || total.outputTokens < before.outputTokens) {
    return total;
  }
  const { cacheWriteTokens: written } = total;
  return {
    promptTokens: total.promptTokens - before.promptTokens,
    cachedTokens: Math.max(0, total.cachedTokens - before.cachedTokens),
    ...(written !== undefined && { cacheWriteTokens: Math.max(0, written - (before.cacheWriteTokens ?? 0)) }),
    outputTokens: total.outputTokens - before.outputTokens,
  };
}

function readUsage(value: unknown): Usage | undefined {
  const usage = asRecord(value);
  if (!usage || typeof usage.input_tokens !== "number") return undefined;
  const { input_tokens: prompt, cached_input_tokens: read, cache_write_input_tokens: write, output_tokens } =
    usage;
  return loggedUsage({ prompt, read, write, output: tokensOf(output_tokens) });
}
