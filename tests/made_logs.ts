import { contentText, estimateTokens, type Message, type Usage } from "@tare/messages";
import { countMessageTokens } from "@tare/messages/internal";
import type { Recording } from "@tare/simulator/economy";
import { DatabaseSync } from "node:sqlite";

export interface MadeSession {
  readonly id: string;
  readonly recording: Recording;
  readonly startMs: number;
  readonly cwd: string;
  readonly model: string;
}

interface MadeStep {
  readonly requests: readonly Message[];
  readonly requestedAtMs: number;
  readonly answer: Extract<Message, { role: "assistant" }>;
  readonly usage: Usage;
}

const TTL_MS = 5 * 60_000;

/** Tokens of instructions and tools, which no log contains. */
const FRONT_TOKENS = 12_000;

/** Returns the steps of a session, with the usage of a cache of five minutes. */
export function stepsOf({ recording, startMs }: MadeSession): MadeStep[] {
  const { calls, messages } = recording;
  let [taken, tokens, cached, lastMs] = [0, FRONT_TOKENS, 0, -Infinity];
  return calls.map(({ messages: end, timeMs }): MadeStep => {
    const requests = messages.slice(taken, end).filter(({ role }) => role !== "system");
    const answer = messages[end];
    if (answer?.role !== "assistant") throw new Error("Cannot make a log: a call has no answer");
    for (const message of requests) tokens += countMessageTokens(message, estimateTokens);
    const cachedTokens = timeMs - lastMs > TTL_MS ? 0 : cached;
    const outputTokens = countMessageTokens(answer, estimateTokens);
    const usage = { promptTokens: tokens, cachedTokens, outputTokens };
    [taken, cached, lastMs] = [end + 1, tokens, timeMs];
    tokens += outputTokens;
    return { requests, requestedAtMs: startMs + timeMs, answer, usage };
  });
}

export function usageOf(session: MadeSession): Usage[] {
  return stepsOf(session).map(({ usage }) => usage);
}

const isoTime = (ms: number) => new Date(ms).toISOString();

const functionsOf = ({ tool_calls: calls = [] }: MadeStep["answer"]) =>
  calls.flatMap((call) => call.type === "function" ? [call] : []);

/** Returns lines in Claude Code's format: a reply takes several, each with its usage. */
export function claudeCodeLines(session: MadeSession, options: { readonly agentId?: string } = {}): string[] {
  const { id, cwd, model } = session;
  const lines: string[] = [];
  let parentUuid: string | null = null;
  const write = (line: Readonly<Record<string, unknown>>, atMs: number) => {
    const uuid = `${id}-${lines.length}`;
    const { agentId } = options;
    const names = {
      ...{ parentUuid, isSidechain: agentId !== undefined, userType: "external", cwd, sessionId: id },
      ...(agentId !== undefined && { agentId }),
    };
    lines.push(JSON.stringify({ ...names, version: "2.1.330", ...line, uuid, timestamp: isoTime(atMs) }));
    parentUuid = uuid;
  };
  for (const [at, { requests, requestedAtMs, answer, usage }] of stepsOf(session).entries()) {
    for (const message of requests) {
      const content = contentText(message.content);
      const result = message.role === "tool" &&
        [{ type: "tool_result", tool_use_id: message.tool_call_id, content }];
      write({ type: "user", message: { role: "user", content: result || content } }, requestedAtMs);
    }
    if (at === 0) {
      write({ type: "attachment", attachment: { type: "environment" } }, requestedAtMs);
      lines.push(JSON.stringify({ type: "file-history-snapshot", messageId: id, snapshot: {} }));
    }
    const { promptTokens, cachedTokens, outputTokens } = usage;
    const blocks = [
      { type: "thinking", thinking: "Hm.", signature: "sealed" },
      ...contentText(answer.content ?? "") === "" ? [] : [{ type: "text", text: answer.content }],
      ...functionsOf(answer).map(({ id, function: { name, arguments: input } }) => ({
        ...{ type: "tool_use", id, name, input: JSON.parse(input) },
      })),
    ];
    for (const [block, content] of blocks.entries()) {
      const isLast = block === blocks.length - 1;
      const reported = {
        input_tokens: 0,
        cache_creation_input_tokens: promptTokens - cachedTokens,
        cache_read_input_tokens: cachedTokens,
        output_tokens: isLast ? outputTokens : 1,
      };
      const message = {
        id: `msg_${id}_${at}`,
        type: "message",
        role: "assistant",
        model,
        content: [content],
      };
      write({
        type: "assistant",
        message: { ...message, usage: reported },
        requestId: `req_${id}_${at}`,
      }, requestedAtMs + 1_000 + block);
    }
    if (at % 3 === 0) write({ type: "progress", data: { type: "hook_progress" } }, requestedAtMs + 1_500);
  }
  return lines;
}

/** Returns lines in Codex's format: items, and a response's usage after its results. */
export function codexLines(session: MadeSession): string[] {
  const { id, cwd, model } = session;
  const steps = stepsOf(session);
  const lines: string[] = [];
  const write = (type: string, payload: unknown, atMs: number) => {
    lines.push(JSON.stringify({ timestamp: isoTime(atMs), type, payload }));
  };
  const startMs = steps[0]?.requestedAtMs ?? 0;
  write(
    "session_meta",
    { id, cwd, cli_version: "0.142.0", base_instructions: { text: "Be careful." } },
    startMs,
  );
  write("turn_context", { cwd, model }, startMs);
  const total = { input_tokens: 0, cached_input_tokens: 0, output_tokens: 0 };
  for (const { requests, requestedAtMs, answer, usage } of steps) {
    for (const message of requests) {
      const text = contentText(message.content);
      if (message.role === "tool") {
        write(
          "response_item",
          { type: "function_call_output", call_id: message.tool_call_id, output: text },
          requestedAtMs,
        );
      } else {
        const content = [{ type: "input_text", text }];
        write("response_item", { type: "message", role: message.role, content }, requestedAtMs);
        write("event_msg", { type: "user_message", message: text }, requestedAtMs);
      }
    }
    const atMs = requestedAtMs + 1_000;
    write("response_item", { type: "reasoning", summary: [], encrypted_content: "sealed" }, atMs);
    const text = contentText(answer.content ?? "");
    const content = [{ type: "output_text", text }];
    if (text !== "") write("response_item", { type: "message", role: "assistant", content }, atMs);
    for (const { id, function: { name, arguments: input } } of functionsOf(answer)) {
      write("response_item", { type: "function_call", call_id: id, name, arguments: input }, atMs);
    }
    const last = {
      input_tokens: usage.promptTokens,
      cached_input_tokens: usage.cachedTokens,
      output_tokens: usage.outputTokens,
    };
    total.input_tokens += last.input_tokens;
    total.cached_input_tokens += last.cached_input_tokens;
    total.output_tokens += last.output_tokens;
    const info = { total_token_usage: { ...total }, last_token_usage: last };
    // Repeated when limits change.
    for (const limits of [1, 2]) {
      write("event_msg", { type: "token_count", info, rate_limits: { limits } }, atMs);
    }
  }
  return lines;
}

/** Returns lines in pi's format: entries with their predecessors' ids. */
export function piLines(session: MadeSession): string[] {
  const { id, cwd, model } = session;
  const steps = stepsOf(session);
  const lines = [
    JSON.stringify({ type: "session", version: 3, id, timestamp: isoTime(session.startMs), cwd }),
  ];
  let parentId: string | null = null;
  const write = (entry: Readonly<Record<string, unknown>>, atMs: number) => {
    const id = `e${lines.length}`;
    lines.push(JSON.stringify({ ...entry, id, parentId, timestamp: isoTime(atMs) }));
    parentId = id;
  };
  const say = (message: Readonly<Record<string, unknown>>, atMs: number) =>
    write({ type: "message", message: { ...message, timestamp: atMs } }, atMs);
  write({ type: "model_change", provider: "made", modelId: model }, session.startMs);
  for (const { requests, requestedAtMs, answer, usage } of steps) {
    for (const message of requests) {
      const content = [{ type: "text", text: contentText(message.content) }];
      if (message.role !== "tool") say({ role: message.role, content }, requestedAtMs);
      else {say(
          { role: "toolResult", toolCallId: message.tool_call_id, content, isError: false },
          requestedAtMs,
        );}
    }
    const text = contentText(answer.content ?? "");
    const content = [
      ...text === "" ? [] : [{ type: "text", text }],
      ...functionsOf(answer).map(({ id, function: { name, arguments: input } }) => ({
        ...{ type: "toolCall", id, name, arguments: JSON.parse(input) },
      })),
    ];
    const { promptTokens, cachedTokens: cacheRead, outputTokens: output } = usage;
    const reported = { input: promptTokens - cacheRead, output, cacheRead, cacheWrite: 0 };
    say({ role: "assistant", content, model, usage: reported }, requestedAtMs + 1_000);
  }
  return lines;
}

/** Writes a database in opencode's format, with the fields that are read. */
export function writeOpencode(path: string, sessions: readonly MadeSession[]): void {
  using database = new DatabaseSync(path);
  database.exec(`CREATE TABLE session (id text, parent_id text, directory text, time_created integer);
    CREATE TABLE message (id text, session_id text, time_created integer, data text);
    CREATE TABLE part (id text, message_id text, session_id text, data text);
    BEGIN;`);
  const addSession = database.prepare("INSERT INTO session VALUES (?, NULL, ?, ?)");
  const addMessage = database.prepare("INSERT INTO message VALUES (?, ?, ?, ?)");
  const addPart = database.prepare("INSERT INTO part VALUES (?, ?, ?, ?)");
  for (const session of sessions) {
    const { id, cwd, model, startMs } = session;
    addSession.run(id, cwd, startMs);
    const steps = stepsOf(session);
    let count = 0;
    const write = (info: unknown, parts: readonly unknown[], atMs: number) => {
      const message = `${id}_${String(count++).padStart(5, "0")}`;
      addMessage.run(message, id, atMs, JSON.stringify(info));
      for (const [at, part] of parts.entries()) {
        addPart.run(`${message}_${at}`, message, id, JSON.stringify(part));
      }
    };
    for (const [at, { requests, requestedAtMs, answer, usage }] of steps.entries()) {
      for (const message of requests) {
        if (message.role === "tool") continue;
        const part = { type: "text", text: contentText(message.content) };
        write({ role: message.role, time: { created: requestedAtMs } }, [part], requestedAtMs);
      }
      const results = new Map(
        (steps[at + 1]?.requests ?? []).flatMap((message) =>
          message.role === "tool" ? [[message.tool_call_id, contentText(message.content)] as const] : []
        ),
      );
      const text = contentText(answer.content ?? "");
      const end = steps[at + 1]?.requestedAtMs;
      const parts = [
        ...text === "" ? [] : [{ type: "text", text }],
        ...functionsOf(answer).map(({ id: callID, function: { name: tool, arguments: input } }) => ({
          ...{ type: "tool", tool, callID },
          state: {
            status: "completed",
            input: JSON.parse(input),
            output: results.get(callID),
            time: { end },
          },
        })),
      ];
      const { promptTokens, cachedTokens: read, outputTokens: output } = usage;
      const tokens = { input: promptTokens - read, output, reasoning: 0, cache: { read, write: 0 } };
      write(
        { role: "assistant", modelID: model, tokens, time: { created: requestedAtMs } },
        parts,
        requestedAtMs,
      );
    }
  }
  database.exec("COMMIT");
}
