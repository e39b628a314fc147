import type { Message, ToolDefinition } from "@tare/messages";
import { statedFailure } from "@tare/wire/internal";

export interface RecordedCall {
  /** Number of messages of this call's prompt. The next message is the reply. */
  readonly messages: number;
  readonly timeMs: number;
}

export interface Recording {
  readonly id: string;
  /** Recordings of one group belong to the same half. */
  readonly group: string;
  readonly tools: readonly ToolDefinition[];
  /** Messages. Results are marked as failed only if the recording or their text states it, as in a gateway. */
  readonly messages: readonly Message[];
  readonly calls: readonly RecordedCall[];
  /** Time of each message in milliseconds; undefined if not recorded. */
  readonly times: readonly (number | undefined)[];
  readonly usage: ReadonlyMap<number, RecordedUsage>;
  /** Positions before which the recorded client replaced the history by a summary. */
  readonly compacted: readonly number[];
  readonly model?: string;
  /** Tokens of system prompt, tools and memory files that are missing in the recording. */
  readonly fixedPrefixTokens?: number;
}

/** Reported usage of a call; `input` excludes cache reads and writes. */
export interface RecordedUsage {
  readonly input: number;
  readonly cache_read?: number;
  readonly cache_write?: number;
  readonly output?: number;
}

/** Time between two calls without recorded times, in milliseconds. */
const DEFAULT_GAP_MS = 20_000;

interface Line {
  readonly id?: unknown;
  readonly group?: unknown;
  readonly recorded_fixed_prefix_tokens?: unknown;
  readonly tools?: unknown;
  readonly messages?: unknown;
  readonly models?: Readonly<Record<string, number>> | null;
  readonly compactions?: readonly { readonly before_message: number }[];
}

interface Noted {
  readonly ts?: unknown;
  readonly usage?: RecordedUsage;
  readonly meta?: unknown;
  readonly error?: unknown;
}

/** Parses one line of a recording file. @throws {Error} with the reason if it can't be replayed. */
export function readRecording(line: string): Recording {
  const {
    id,
    group = id,
    tools,
    messages,
    models,
    compactions = [],
    recorded_fixed_prefix_tokens: fixedPrefixTokens,
  } = JSON.parse(line) as Line;
  if (!Array.isArray(messages)) throw new Error("it has no messages");
  if (!Array.isArray(tools) || tools.length === 0) throw new Error("it has no tools");
  const usage = new Map<number, RecordedUsage>();
  const times: (number | undefined)[] = [];
  const plain = messages.map((noted: Message & Noted, index): Message => {
    const { ts, usage: reported, meta: _, error, ...message } = noted;
    if (reported) usage.set(index, reported);
    times.push(typeof ts === "number" ? ts : undefined);
    return message.role === "tool"
      ? { ...message, ...statedFailure(message.content, error === true || undefined) }
      : message;
  });
  checkMessages(plain);
  const model = Object.keys(models ?? {})[0];
  return {
    id: String(id),
    group: String(group),
    tools,
    messages: plain,
    calls: findCalls(plain, times),
    times,
    usage,
    compacted: compactions.map(({ before_message }) => before_message),
    ...(model !== undefined && { model }),
    ...(typeof fixedPrefixTokens === "number" && fixedPrefixTokens > 0 && { fixedPrefixTokens }),
  };
}

const ROLES = new Set(["system", "developer", "user", "assistant", "tool"]);

function checkMessages(messages: readonly Message[]): void {
  if (!messages.some(({ role }) => role === "user")) throw new Error("it has no user message");
  const open = new Map<string, number>();
  for (const [index, message] of messages.entries()) {
    if (!ROLES.has(message.role)) throw new Error(`message ${index} has the unknown role ${message.role}`);
    if (message.role === "tool") {
      const left = open.get(message.tool_call_id) ?? 0;
      if (left === 0) throw new Error(`message ${index} answers no call`);
      open.set(message.tool_call_id, left - 1);
      continue;
    }
    for (const [id, left] of open) {
      if (left > 0) throw new Error(`call ${id} has no answer before message ${index}`);
    }
    if (message.role !== "assistant") continue;
    for (const { id } of message.tool_calls ?? []) open.set(id, (open.get(id) ?? 0) + 1);
  }
  // A recording may end within a step, so its last calls may have no result.
}

function findCalls(
  messages: readonly Message[],
  times: readonly (number | undefined)[],
): RecordedCall[] {
  const calls: RecordedCall[] = [];
  for (const [index, message] of messages.entries()) {
    if (message.role !== "assistant" || index === 0) continue;
    const before = calls.at(-1)?.timeMs;
    const recorded = times[index - 1];
    const timeMs = before === undefined
      ? recorded ?? 0
      : Math.max(before, recorded ?? before + DEFAULT_GAP_MS);
    calls.push({ messages: index, timeMs });
  }
  return calls;
}
