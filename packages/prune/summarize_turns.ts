import { countRequestTokens, type CountTokens, estimateTokens, type Message } from "@tare/messages";
import { checkGiven, countMessageTokens, pairCalls, reasonOf, untilAborted } from "@tare/messages/internal";
import type { Archive } from "./archive.ts";
import { ELIDING, type PruneFailure } from "./prune_results.ts";
import { type ArchivedStretch, archiveWithLine } from "./placeholder.ts";

/** Replacement of old turns by one message. Plain data: applying it again gives the same bytes. */
export type TurnsSummary = NonNullable<SummarizedTurns<Message>["summary"]>;

/** Message that replaces old turns. */
export interface SummaryMessage {
  /** `assistant` for a summary; `user` for dropped turns. */
  readonly role: "assistant" | "user";
  readonly content: string;
}

/**
 * Returns the messages with the summary applied. All others are the same objects.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { applySummary } from "@tare/prune";
 *
 * const messages = [{ role: "user", content: "Why?" }, { role: "assistant", content: "So." }] as const;
 * const after = applySummary(messages, { end: 2, kind: "summary", text: "He asked." });
 * assertEquals(after, [messages[0], { role: "assistant", content: "He asked." }]);
 * ```
 */
export function applySummary<M extends Message>(
  messages: readonly M[],
  summary: Pick<NonNullable<SummarizedTurns<M>["summary"]>, "end" | "kind" | "text">,
): (M | SummaryMessage)[] {
  const { end, kind, text } = summary;
  const retained = messages.slice(0, end).filter(({ role }) =>
    role === "system" || role === "developer" || (kind === "summary" && role === "user")
  );
  const role = kind === "summary" ? "assistant" : "user";
  return [...retained, { role, content: text }, ...messages.slice(end)];
}

const KEEP_TOKENS = 16_384;
const KEEP_SHARE = 0.25;

/** Returns the default of retained tokens. */
export function retainedTokens(windowTokens: number = Infinity): number {
  return Math.min(KEEP_TOKENS, KEEP_SHARE * windowTokens);
}

/** Minimum share of the prompt that a summary must free; otherwise the next one would follow at once. */
const MIN_SHARE = 0.1;

const LINE_TOKENS = 60;

/** Options of {@linkcode summarizeTurns}. */
export interface SummarizeTurnsOptions {
  readonly archive: Archive;
  /** Token counter. Default: `estimateTokens`. */
  readonly countTokens?: CountTokens | undefined;
  /**
   * Requests a summary of old messages, user messages included, from a model. A rejection, an empty or too
   * long text, or a timeout is a failure. Default: old turns are dropped.
   */
  readonly summarize?:
    | ((messages: readonly Message[], request: {
      readonly end: number;
      readonly signal: AbortSignal | undefined;
    }) => Promise<string>)
    | undefined;
  /**
   * Signal that ends the wait. A timeout (`AbortSignal.timeout`) is a failed summary; for any other reason,
   * {@linkcode summarizeTurns} throws the reason and nothing changes.
   */
  readonly signal?: AbortSignal | undefined;
  /** Whether the model has the recall tool. Default: false. */
  readonly recall?: boolean | undefined;
  readonly windowTokens?: number | undefined;
  /**
   * Tokens of recent whole turns that are retained, and at least the last one; infinite for all. Default:
   * 16,384, at most a quarter of the window.
   */
  readonly keepTokens?: number | undefined;
  /**
   * Index of the first message of the active turn, which is retained whole. Default: the start of the last
   * turn.
   */
  readonly activeTurnStart?: number | undefined;
}

/** Messages after old turns were replaced. */
export interface SummarizedTurns<M extends Message> {
  readonly failure?: undefined;
  readonly messages: readonly (M | SummaryMessage)[];
  /** The change. Absent if it would free too little. */
  readonly summary?: {
    readonly end: number;
    /**
     * `summary`: user messages are retained, followed by an assistant message. `drop`: one user message
     * replaces all.
     */
    readonly kind: "summary" | "drop";
    readonly text: string;
    /** Archive reference of the messages, one JSON line each. */
    readonly ref: string;
    readonly tokensBefore: number;
    readonly tokensAfter: number;
  };
  readonly tokensBefore: number;
  readonly tokensAfter: number;
  /**
   * Reason why a requested summary is missing: turns were dropped, or, without `summary`, nothing changed.
   */
  readonly summaryFailure?: Error;
}

/**
 * Archives and summarizes the oldest turns: the last resort if a window is full of content other than tool
 * results. User, system and developer messages are retained verbatim. Check `failure` of the result first. If
 * the summary fails, or `summarize` is absent, whole turns with their user messages are dropped, and a line
 * states where they are archived.
 *
 * If the assistant messages and results of the old turns are at most a tenth of the prompt, no model is
 * called and nothing changes; a summary that frees less than a tenth counts as failed.
 *
 * @throws the signal's reason, if it was aborted for any other than a timeout.
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { estimateTokens, type Message } from "@tare/messages";
 * import { memoryArchive } from "@tare/prune";
 * import { summarizeTurns } from "@tare/prune";
 *
 * const messages: Message[] = [
 *   { role: "user", content: "Tell me a story." },
 *   { role: "assistant", content: "Once upon a time … ".repeat(500) },
 *   { role: "user", content: "And who was it about?" },
 * ];
 * const summarized = await summarizeTurns(messages, {
 *   archive: memoryArchive(),
 *   countTokens: estimateTokens,
 *   summarize: () => Promise.resolve("I told a story about a miller."),
 *   keepTokens: 100,
 * });
 * if (summarized.failure) throw summarized.failure;
 * assertEquals(summarized.messages.map((message) => message.role), ["user", "assistant", "user"]);
 * ```
 */
export async function summarizeTurns<M extends Message>(
  messages: readonly M[],
  options: SummarizeTurnsOptions,
): Promise<PruneFailure<M> | SummarizedTurns<M>> {
  checkGiven("summarizeTurns()", { messages, options }, { messages: "messages", options: ELIDING });
  const { archive, countTokens = estimateTokens, recall = false } = options;
  const tokensBefore = countRequestTokens({ messages }, countTokens);
  const unchanged = { messages, tokensBefore, tokensAfter: tokensBefore };
  const end = summaryEnd(messages, options);
  const old = messages.slice(0, end).filter((message) =>
    message.role !== "system" && message.role !== "developer"
  );
  const evicted = old.filter((message) => message.role !== "user");
  const minGain = MIN_SHARE * tokensBefore;
  if (countRequestTokens({ messages: evicted }, countTokens) <= minGain + LINE_TOKENS) return unchanged;

  let archived: ArchivedStretch;
  try {
    archived = await archiveWithLine(old, { archive, purpose: "summarize", recall });
  } catch (failure) {
    return { failure: failure as Error, unchanged: messages };
  }
  const { ref, line } = archived;
  const attempt = (kind: TurnsSummary["kind"], text: string): SummarizedTurns<M> | undefined => {
    const after = applySummary(messages, { end, kind, text });
    const tokensAfter = countRequestTokens({ messages: after }, countTokens);
    if (tokensBefore - tokensAfter < minGain) return undefined;
    const summary = { end, kind, text, ref, tokensBefore, tokensAfter };
    return { messages: after, summary, tokensBefore, tokensAfter };
  };

  const { summarize: ask, signal } = options;
  if (!ask) return attempt("drop", line) ?? unchanged;
  let summaryFailure: Error;
  try {
    const summary = (await untilAborted(() => ask(old, { end, signal }), signal)).trim();
    if (summary === "") throw new Error("the summary is empty");
    const summarized = attempt("summary", `${summary}\n\n${line}`);
    if (summarized) return summarized;
    summaryFailure = new Error(
      `Cannot summarize ${old.length} messages: their summary frees less than a tenth of the prompt`,
    );
  } catch (cause) {
    if (signal?.aborted && signal.reason?.name !== "TimeoutError") throw signal.reason;
    summaryFailure = new Error(`Cannot summarize ${old.length} messages: ${reasonOf(cause)}`, {
      cause,
    });
  }
  return { ...attempt("drop", line) ?? unchanged, summaryFailure };
}

/**
 * Returns the start of the retained turns: never a user message within a call or after another user message.
 */
function summaryEnd(messages: readonly Message[], options: SummarizeTurnsOptions): number {
  const { countTokens = estimateTokens, windowTokens, activeTurnStart = messages.length } = options;
  const { keepTokens = retainedTokens(windowTokens) } = options;
  const pairs = pairCalls(messages);
  let tokens = 0;
  let end: number | undefined;
  for (let index = messages.length - 1; index >= 0; index -= 1) {
    const message = messages[index]!;
    tokens += countMessageTokens(message, countTokens);
    if (tokens > keepTokens && end !== undefined) break;
    if (message.role !== "user" || index > activeTurnStart || follows(messages, index) === "user") continue;
    if (pairs.every(({ at, answer }) => index <= at || (answer?.at ?? Infinity) < index)) end = index;
  }
  return tokens > keepTokens ? end ?? 0 : 0;
}

function follows(messages: readonly Message[], index: number): Message["role"] | undefined {
  return messages.findLast(({ role }, at) => at < index && role !== "system" && role !== "developer")?.role;
}
