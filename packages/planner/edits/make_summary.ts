import { countRequestTokens, type CountTokens, type Message, type Usage } from "@tare/messages";
import { pairCalls, reasonOf, untilAborted } from "@tare/messages/internal";
import type { Archive } from "@tare/prune";
import { archiveWithLine } from "@tare/prune/internal";
import type { SummarizeEdit } from "./edit.ts";
import { type History, isSummary, type PlacedMessages } from "./view.ts";

/** Request for a summary of old messages. */
export interface SummaryRequest {
  /** The conversation in the provider's cache; a request that continues it is read from the cache. */
  readonly sent: History;
  /** Visible messages to summarize, in order, including the user's. */
  readonly messages: readonly Message[];
  /** The user's evicted messages among them; the others stay in the prompt. */
  readonly users: readonly Message[];
  /** The first message after them, which stays. Absent: none. */
  readonly next?: Message | undefined;
  /** The model's context window, in tokens counted locally. Default: unknown. */
  readonly windowTokens?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Callback while the model makes progress. Default: none. */
  readonly progress?: (() => void) | undefined;
}

/** Summarizes old messages by a model. A rejection or an empty text is a failure. */
export type Summarize = (request: SummaryRequest) => Promise<{
  /** Empty if the model returned none. */
  readonly text: string;
  readonly usage: Usage;
}>;

/** The start of a conversation that one message replaces. */
export interface Stretch {
  readonly end: number;
  readonly users: readonly number[];
  readonly userMessages: readonly Message[];
  readonly messages: readonly Message[];
  readonly evicted: readonly Message[];
}

/**
 * Returns the range before `end`. Its answers are evicted except `retained` ones, and so are the user's
 * messages at these positions.
 */
export function findStretch(
  { messages, places }: PlacedMessages,
  { end, users = [], retained }: {
    readonly end: number;
    readonly users?: readonly number[];
    readonly retained?: ReadonlySet<number>;
  },
): Stretch {
  const after = places.findIndex((place) => place >= end);
  const joined = new Set(users);
  const stretch: Message[] = [];
  const evicted: Message[] = [];
  const userMessages: Message[] = [];
  for (const [at, message] of messages.slice(0, after < 0 ? messages.length : after).entries()) {
    if (message.role === "system" || message.role === "developer") continue;
    const place = places[at] ?? -1;
    stretch.push(message);
    if (joined.has(place)) userMessages.push(message);
    if (retained?.has(place)) continue;
    if (message.role !== "user" || place < 0 || joined.has(place)) evicted.push(message);
  }
  return { end, users, userMessages, messages: stretch, evicted };
}

export interface SummaryOptions extends Pick<SummaryRequest, "signal" | "progress"> {
  readonly countTokens: CountTokens;
  readonly archive: Archive;
  readonly recall?: boolean | undefined;
  readonly summarize?: Summarize | undefined;
}

export interface MakeSummaryOptions
  extends SummaryOptions, Pick<SummaryRequest, "sent" | "next" | "windowTokens"> {
  readonly minGainTokens: number;
}

export interface MadeSummary {
  readonly edit: SummarizeEdit;
  readonly usage?: Usage;
  /** Reason for a missing summary, to follow "Cannot summarize". Absent: none was requested. */
  readonly failure?: string;
}

/**
 * Archives a range and requests its summary. An earlier summary in it is included, or stays if the request
 * fails.
 * @throws {Error} if the range can't be archived, or the signal's reason unless it is a timeout.
 */
export async function makeSummary(stretch: Stretch, options: MakeSummaryOptions): Promise<MadeSummary> {
  const { archive, countTokens, recall = false, minGainTokens } = options;
  const { end, users, evicted } = stretch;
  const { ref, line } = await archiveWithLine(evicted, { archive, purpose: "summarize", recall });
  const edit = { type: "summarize", from: 0, to: end, ref, ...(users.length > 0 && { users }) } as const;
  const before = evicted.filter(isSummary).map(summaryText);
  const silent: SummarizeEdit = before.length === 0
    ? { ...edit, text: line, role: "user" }
    : { ...edit, text: [...before, line].join("\n\n") };
  const outcome = await ask(stretch, options);
  const { usage, failure } = outcome;
  const paid = usage && { usage };
  if (outcome.text === undefined) return { edit: silent, ...paid, ...(failure !== undefined && { failure }) };
  const text = `${outcome.text}\n\n${line}`;
  const won = countRequestTokens({ messages: evicted }, countTokens) -
    countRequestTokens({ messages: [{ role: "assistant", content: text }] }, countTokens);
  if (won < minGainTokens) {
    return { edit: silent, ...paid, failure: "the summary frees less than a tenth of the prompt" };
  }
  return { edit: { ...edit, text }, ...paid };
}

function summaryText({ content }: Message): string {
  return String(content).split("\n").slice(0, -1).join("\n").trimEnd();
}

async function ask(
  { messages, userMessages }: Stretch,
  { summarize, sent, next, windowTokens, signal, progress }: MakeSummaryOptions,
): Promise<Partial<Awaited<ReturnType<Summarize>>> & Pick<MadeSummary, "failure">> {
  if (!summarize) return {};
  const request: SummaryRequest = {
    ...{ sent, messages, users: userMessages },
    ...(next && { next }),
    ...(windowTokens !== undefined && { windowTokens }),
    ...(signal && { signal }),
    ...(progress && { progress }),
  };
  try {
    const { text, usage } = await untilAborted(() => summarize(request), signal);
    const trimmed = text.trim();
    return trimmed === "" ? { usage, failure: "the model returned no text" } : { usage, text: trimmed };
  } catch (error) {
    if (signal?.aborted && signal.reason?.name !== "TimeoutError") throw signal.reason;
    return { failure: reasonOf(error) };
  }
}

/**
 * Returns the position of the first message with an unanswered call, or the number of messages. Its result
 * may still come, so it must not be evicted.
 */
export function firstOpenCall(messages: readonly Message[]): number {
  return pairCalls(messages).find(({ answer }) => !answer)?.at ?? messages.length;
}
