import { countRequestTokens, type CountTokens, estimateTokens, type Message } from "@tare/messages";
import { checkGiven, countMessageTokens, pairCalls, reasonOf, untilAborted } from "@tare/messages/internal";
import type { Archive } from "./archive.ts";
import { ELIDING, type PruneFailure } from "./prune_results.ts";
import { type ArchivedStretch, archiveWithLine } from "./placeholder.ts";

/** Old turns that gave way to one message. Plain data: applied again to the same messages it gives the same bytes. */
export type TurnsSummary = NonNullable<SummarisedTurns<Message>["summary"]>;

/** The message that replaces old turns. */
export interface SummaryMessage {
  /** `assistant` for a summary; `user` for dropped turns. */
  readonly role: "assistant" | "user";
  readonly content: string;
}

/**
 * Returns the messages after old turns gave way. All but the new one are the same objects.
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
  summary: Pick<NonNullable<SummarisedTurns<M>["summary"]>, "end" | "kind" | "text">,
): (M | SummaryMessage)[] {
  const { end, kind, text } = summary;
  const kept = messages.slice(0, end).filter(({ role }) =>
    role === "system" || role === "developer" || (kind === "summary" && role === "user")
  );
  const role = kind === "summary" ? "assistant" : "user";
  return [...kept, { role, content: text }, ...messages.slice(end)];
}

/** Recent turns that stay, in tokens, and as a share of the window. */
const KEEP_TOKENS = 16_384;
const KEEP_SHARE = 0.25;

/** Returns the tokens of recent turns that stay by default. */
export function keptTokens(windowTokens: number = Infinity): number {
  return Math.min(KEEP_TOKENS, KEEP_SHARE * windowTokens);
}

/** A summary has to free this share of the prompt, or the next one would follow at once. */
const MIN_SHARE = 0.1;

/** What the line takes that says where the messages are archived, in tokens. */
const LINE_TOKENS = 60;

/** Options of {@linkcode summariseTurns}. */
export interface SummariseTurnsOptions {
  /** Stores the messages. */
  readonly archive: Archive;
  /** Counts tokens. Default: `estimateTokens`. */
  readonly countTokens?: CountTokens | undefined;
  /**
   * Asks a model for a summary of old messages, user messages included: one paid call. A rejection, an empty text, a text
   * that is too long, and a timeout count as failure. Default: old turns are dropped.
   */
  readonly summarise?:
    | ((messages: readonly Message[], request: {
      /** The messages before this index are to give way. */
      readonly end: number;
      readonly signal: AbortSignal | undefined;
    }) => Promise<string>)
    | undefined;
  /**
   * Ends the wait for the summary. Aborted by a timeout (`AbortSignal.timeout`), the summary has failed; aborted
   * for any other reason, {@linkcode summariseTurns} throws that reason and nothing changes.
   */
  readonly signal?: AbortSignal | undefined;
  /** Whether the recall tool is offered to the model. Default false. */
  readonly recall?: boolean | undefined;
  /** Tokens of the model's context window. Default: unknown. */
  readonly windowTokens?: number | undefined;
  /**
   * Recent whole turns that stay, in tokens; the last turn stays in any case, and all do if it is infinite. Default 16,384,
   * at most a quarter of the window, so that the next summary is far away.
   */
  readonly keepTokens?: number | undefined;
  /** Index of the first message of the active turn, which stays whole. Default: that of the last turn. */
  readonly activeTurnStart?: number | undefined;
}

/** Messages after old turns gave way. */
export interface SummarisedTurns<M extends Message> {
  readonly failure?: undefined;
  /** The messages; the very array that was passed if nothing changed. */
  readonly messages: readonly (M | SummaryMessage)[];
  /** What changed. Absent: too little would have been gained. */
  readonly summary?: {
    /** The messages before this index give way, but for system and developer messages. */
    readonly end: number;
    /** `summary`: the user messages stay, and an assistant message follows them. `drop`: a user message stands for all. */
    readonly kind: "summary" | "drop";
    /** Text of that message. */
    readonly text: string;
    /** Archive reference of these messages, user messages included: the JSON of each on a line of its own. */
    readonly ref: string;
    /** Tokens of all the messages before. */
    readonly tokensBefore: number;
    /** Tokens of all the messages after. */
    readonly tokensAfter: number;
  };
  /** Tokens of all the messages before. */
  readonly tokensBefore: number;
  /** Tokens of all the messages after. */
  readonly tokensAfter: number;
  /** Why there is no summary, though one was requested: turns were dropped, or, without `summary`, nothing was done. */
  readonly summaryFailure?: Error;
}

/**
 * Summarises the oldest turns, after archiving them: the last resort when a window is full of what
 * isn't tool results. User, system and developer messages stay verbatim. `failure` of the result must be checked first. If the summary fails, or nobody can be asked
 * for one, whole turns, their user messages included, are dropped instead, with a line that says where they are archived.
 *
 * It guards against getting stuck: if the assistant messages and results of the old turns are no more than a tenth of
 * the prompt, no model is called and nothing changes; a summary that doesn't free a tenth has failed.
 *
 * @throws the signal's reason, if it was aborted for any other than a timeout.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { estimateTokens, type Message } from "@tare/messages";
 * import { memoryArchive } from "@tare/prune";
 * import { summariseTurns } from "@tare/prune";
 *
 * const messages: Message[] = [
 *   { role: "user", content: "Tell me a story." },
 *   { role: "assistant", content: "Once upon a time … ".repeat(500) },
 *   { role: "user", content: "And who was it about?" },
 * ];
 * const summarised = await summariseTurns(messages, {
 *   archive: memoryArchive(),
 *   countTokens: estimateTokens,
 *   summarise: () => Promise.resolve("I told a story about a miller."),
 *   keepTokens: 100,
 * });
 * if (summarised.failure) throw summarised.failure;
 * assertEquals(summarised.messages.map((message) => message.role), ["user", "assistant", "user"]);
 * ```
 */
export async function summariseTurns<M extends Message>(
  messages: readonly M[],
  options: SummariseTurnsOptions,
): Promise<PruneFailure<M> | SummarisedTurns<M>> {
  checkGiven("summariseTurns()", { messages, options }, { messages: "messages", options: ELIDING });
  const { archive, countTokens = estimateTokens, recall = false } = options;
  const tokensBefore = countRequestTokens({ messages }, countTokens);
  const unchanged = { messages, tokensBefore, tokensAfter: tokensBefore };
  const end = summaryEnd(messages, options);
  const old = messages.slice(0, end).filter((message) =>
    message.role !== "system" && message.role !== "developer"
  );
  const leaving = old.filter((message) => message.role !== "user");
  const minGain = MIN_SHARE * tokensBefore;
  if (countRequestTokens({ messages: leaving }, countTokens) <= minGain + LINE_TOKENS) return unchanged;

  let archived: ArchivedStretch;
  try {
    archived = await archiveWithLine(old, { archive, purpose: "summarise", recall });
  } catch (failure) {
    return { failure: failure as Error, unchanged: messages };
  }
  const { ref, line } = archived;
  const attempt = (kind: TurnsSummary["kind"], text: string): SummarisedTurns<M> | undefined => {
    const after = applySummary(messages, { end, kind, text });
    const tokensAfter = countRequestTokens({ messages: after }, countTokens);
    if (tokensBefore - tokensAfter < minGain) return undefined;
    const summary = { end, kind, text, ref, tokensBefore, tokensAfter };
    return { messages: after, summary, tokensBefore, tokensAfter };
  };

  const { summarise: ask, signal } = options;
  if (!ask) return attempt("drop", line) ?? unchanged;
  let summaryFailure: Error;
  try {
    const summary = (await untilAborted(() => ask(old, { end, signal }), signal)).trim();
    if (summary === "") throw new Error("the summary is empty");
    const summarised = attempt("summary", `${summary}\n\n${line}`);
    if (summarised) return summarised;
    summaryFailure = new Error(
      `Cannot summarise ${old.length} messages: their summary frees less than a tenth of the prompt`,
    );
  } catch (cause) {
    if (signal?.aborted && signal.reason?.name !== "TimeoutError") throw signal.reason;
    summaryFailure = new Error(`Cannot summarise ${old.length} messages: ${reasonOf(cause)}`, {
      cause,
    });
  }
  return { ...attempt("drop", line) ?? unchanged, summaryFailure };
}

/** Returns the start of the kept turns, which is no user message inside a call or right after another one. */
function summaryEnd(messages: readonly Message[], options: SummariseTurnsOptions): number {
  const { countTokens = estimateTokens, windowTokens, activeTurnStart = messages.length } = options;
  const { keepTokens = keptTokens(windowTokens) } = options;
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

/** Role of what a message follows, instructions apart. */
function follows(messages: readonly Message[], index: number): Message["role"] | undefined {
  return messages.findLast(({ role }, at) => at < index && role !== "system" && role !== "developer")?.role;
}
