import { countRequestTokens, type CountTokens, type Message } from "@tare/messages";
import { countMessageTokens } from "@tare/messages/internal";
import type { Idle } from "@tare/planner";
import type { PromptUnit } from "@tare/planner/internal/parts";
import type { Recording } from "../economy/recording.ts";

/** State after a call of a recorded session: what it waits for. */
export interface Awaited {
  /** Awaited events with the times from which they were awaited, beginning with the request. */
  readonly pending: readonly { readonly fromMs: number; readonly pending: Idle["pending"] }[];
  readonly hasCommitted: boolean;
}

export interface TimedCall extends Awaited {
  readonly atMs: number;
  /** Prompt, split by request: the new content of each earlier request, and the replies between them. */
  readonly units: readonly PromptUnit[];
  readonly promptTokens: number;
  /** Billed output tokens, as reported. */
  readonly outputTokens: number;
  readonly answer: PromptUnit;
}

export interface TimedSession {
  readonly id: string;
  readonly group: string;
  readonly calls: readonly TimedCall[];
}

const LAST_CALLS = 3;

const COMMIT = /\bgit\b[^|;&]*\b(?:commit|push)\b/;

/** Derives times and prompts of a session from its reported usage. After a compaction only the fixed front is shared. */
export function timedSession(recording: Recording, countTokens: CountTokens): TimedSession {
  const { id, group, messages, compacted } = recording;
  const reported = reportedCalls(recording);
  const frontTokens = recording.fixedPrefixTokens ?? frontOf(recording, countTokens);
  const timed: TimedCall[] = [];
  for (const [number, { at, atMs, promptTokens, outputTokens }] of reported.entries()) {
    const [last, before, next] = [timed.at(-1), reported[number - 1]?.at ?? -1, reported[number + 1]];
    const shared = last
      ? [...last.units, last.answer]
      : [{ hash: `${id} front`, tokens: Math.min(frontTokens, promptTokens) }];
    const isCompacted = compacted.some((place) => before < place && place <= at);
    const units = cutTo(isCompacted ? shared.slice(0, 1) : shared, promptTokens);
    const held = units.reduce((sum, { tokens }) => sum + tokens, 0);
    const grown = (next?.promptTokens ?? 0) - promptTokens;
    const answerTokens = Math.max(outputTokens, countMessageTokens(messages[at]!, countTokens));
    timed.push({
      atMs,
      units: [...units, { hash: `${id} ${at}`, tokens: promptTokens - held }].filter(({ tokens }) =>
        tokens > 0
      ),
      promptTokens,
      outputTokens,
      // Content that isn't sent back, such as reasoning, is in no later prompt.
      answer: {
        hash: `${id} ${at} answer`,
        tokens: grown > 0 ? Math.min(answerTokens, grown) : answerTokens,
      },
      ...awaitedAfter(recording, at),
    });
  }
  return { id, group, calls: timed };
}

function reportedCalls({ calls, usage }: Recording) {
  return calls.flatMap(({ messages: at, timeMs: atMs }) => {
    const { input = 0, cache_read = 0, cache_write = 0, output: outputTokens = 0 } = usage.get(at) ?? {};
    const promptTokens = input + cache_read + cache_write;
    return promptTokens > 0 ? [{ at, atMs, promptTokens, outputTokens }] : [];
  });
}

function frontOf({ messages, tools }: Recording, countTokens: CountTokens): number {
  const core = messages.slice(0, messages.findIndex(({ role }) => role === "user"));
  return countRequestTokens({ messages: core, tools }, countTokens);
}

/** Returns the first `mostTokens` tokens of the units; the last unit may be cut. */
function cutTo(units: readonly PromptUnit[], mostTokens: number): PromptUnit[] {
  const retained: PromptUnit[] = [];
  let left = mostTokens;
  for (const { hash, tokens } of units) {
    if (tokens <= left) retained.push({ hash, tokens });
    else if (left > 0) retained.push({ hash: `${hash} ${left}`, tokens: left });
    left -= tokens;
    if (left <= 0) break;
  }
  return retained;
}

function commits(message: Message): boolean {
  if (message.role !== "assistant") return false;
  return (message.tool_calls ?? []).some((call) =>
    call.type === "function" && COMMIT.test(call.function.arguments)
  );
}

/** Returns whether a session waited for tools, until all had results, or for the user. */
export function awaitedAfter({ messages, times }: Recording, at: number): Awaited {
  const history = messages.slice(0, at + 1).filter(({ role }) => role === "assistant");
  const hasCommitted = history.slice(-LAST_CALLS).some(commits);
  const answer = messages[at];
  const user = (fromMs: number) => ({ fromMs, pending: "user" as const });
  if (answer?.role !== "assistant" || !answer.tool_calls?.length) {
    return { pending: [user(-Infinity)], hasCommitted };
  }
  const others = messages.slice(at + 1).findIndex(({ role }) => role !== "tool");
  const end = others < 0 ? messages.length : at + 1 + others;
  const answeredMs = end > at + 1 ? times[end - 1] : undefined;
  const pending = [
    { fromMs: -Infinity, pending: "tool" as const },
    ...(answeredMs === undefined ? [] : [user(answeredMs)]),
  ];
  return { pending, hasCommitted };
}
