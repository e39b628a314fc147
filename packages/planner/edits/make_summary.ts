import { countRequestTokens, type CountTokens, type Message, type Usage } from "@tare/messages";
import { pairCalls, reasonOf, untilAborted } from "@tare/messages/internal";
import type { Archive } from "@tare/prune";
import { archiveWithLine } from "@tare/prune/internal";
import type { SummariseEdit } from "./edit.ts";
import { type History, isSummary, type PlacedMessages } from "./view.ts";

/** A request for a summary of old messages. */
export interface SummaryRequest {
  /** The conversation as the provider's cache holds it: a request that continues it is read from the cache. */
  readonly sent: History;
  /** What is to be summarized, in order, as the model sees it, the user's messages included. */
  readonly messages: readonly Message[];
  /** Of these, the user's messages that leave. The others of them stay in the prompt. */
  readonly users: readonly Message[];
  /** The first message after them, which stays. */
  readonly next?: Message | undefined;
  /** The model's context window, in tokens as they are counted here. Default: unknown. */
  readonly windowTokens?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Must be called while the model is at work. */
  readonly progress?: (() => void) | undefined;
}

/** Summarizes old messages by a model. A rejection is a failure, and so is an empty text, which is paid. */
export type Summarise = (request: SummaryRequest) => Promise<{
  /** Empty if the model returned none. */
  readonly text: string;
  /** What the provider reported. */
  readonly usage: Usage;
}>;

/** The start of a conversation that gives way to one message. */
export interface Stretch {
  /** Position in the history of the first message behind it. */
  readonly end: number;
  /** Positions of the user's messages that leave with the rest. */
  readonly users: readonly number[];
  /** These messages. */
  readonly said: readonly Message[];
  /** All that stands in it, as the model sees it, but for system and developer messages. */
  readonly messages: readonly Message[];
  /** Of these, what leaves. */
  readonly leaving: readonly Message[];
}

/** The stretch in front of `end`, of which the answers leave but for those that are kept, and the user's messages at these positions. */
export function findStretch(
  { messages, places }: PlacedMessages,
  { end, users = [], kept }: {
    readonly end: number;
    readonly users?: readonly number[];
    readonly kept?: ReadonlySet<number>;
  },
): Stretch {
  const behind = places.findIndex((place) => place >= end);
  const joined = new Set(users);
  const stretch: Message[] = [];
  const leaving: Message[] = [];
  const said: Message[] = [];
  for (const [at, message] of messages.slice(0, behind < 0 ? messages.length : behind).entries()) {
    if (message.role === "system" || message.role === "developer") continue;
    const place = places[at] ?? -1;
    stretch.push(message);
    if (joined.has(place)) said.push(message);
    if (kept?.has(place)) continue;
    if (message.role !== "user" || place < 0 || joined.has(place)) leaving.push(message);
  }
  return { end, users, said, messages: stretch, leaving };
}

/** How a full window is relieved, and by what. */
export interface SummaryOptions extends Pick<SummaryRequest, "signal" | "progress"> {
  readonly countTokens: CountTokens;
  readonly archive: Archive;
  readonly recall?: boolean | undefined;
  /** Absent: no model summarizes. */
  readonly summarise?: Summarise | undefined;
}

export interface MakeSummaryOptions
  extends SummaryOptions, Pick<SummaryRequest, "sent" | "next" | "windowTokens"> {
  /** Tokens that have to be won; a summary that wins fewer has failed. */
  readonly minGainTokens: number;
}

export interface MadeSummary {
  /** Lets it leave: with the summary, or where none could be had with a line that says where it is archived. */
  readonly edit: SummariseEdit;
  readonly usage?: Usage;
  /** Why there is no summary, in words that follow "Cannot summarise": absent if nobody was asked. */
  readonly failure?: string;
}

/**
 * Archives a stretch, then asks for its summary. An earlier summary in it is summarised with the rest, or stays where
 * none can be had.
 *
 * @throws {Error} if the stretch can't be archived, and the signal's reason if it was aborted for any other than a timeout.
 */
export async function makeSummary(stretch: Stretch, options: MakeSummaryOptions): Promise<MadeSummary> {
  const { archive, countTokens, recall = false, minGainTokens } = options;
  const { end, users, leaving } = stretch;
  const { ref, line } = await archiveWithLine(leaving, { archive, purpose: "summarise", recall });
  const edit = { type: "summarise", from: 0, to: end, ref, ...(users.length > 0 && { users }) } as const;
  const before = leaving.filter(isSummary).map(summaryText);
  const silent: SummariseEdit = before.length === 0
    ? { ...edit, text: line, role: "user" }
    : { ...edit, text: [...before, line].join("\n\n") };
  const asked = await ask(stretch, options);
  const { usage, failure } = asked;
  const paid = usage && { usage };
  if (asked.text === undefined) return { edit: silent, ...paid, ...(failure !== undefined && { failure }) };
  const text = `${asked.text}\n\n${line}`;
  const won = countRequestTokens({ messages: leaving }, countTokens) -
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
  { messages, said }: Stretch,
  { summarise, sent, next, windowTokens, signal, progress }: MakeSummaryOptions,
): Promise<Partial<Awaited<ReturnType<Summarise>>> & Pick<MadeSummary, "failure">> {
  if (!summarise) return {};
  const request: SummaryRequest = {
    ...{ sent, messages, users: said },
    ...(next && { next }),
    ...(windowTokens !== undefined && { windowTokens }),
    ...(signal && { signal }),
    ...(progress && { progress }),
  };
  try {
    const { text, usage } = await untilAborted(() => summarise(request), signal);
    const trimmed = text.trim();
    return trimmed === "" ? { usage, failure: "the model gave no text" } : { usage, text: trimmed };
  } catch (error) {
    if (signal?.aborted && signal.reason?.name !== "TimeoutError") throw signal.reason;
    return { failure: reasonOf(error) };
  }
}

/**
 * Position of the first message that made a call which nothing answers yet; the number of messages if there is none.
 * Its answer may still come, so it must not leave.
 */
export function firstOpenCall(messages: readonly Message[]): number {
  return pairCalls(messages).find(({ answer }) => !answer)?.at ?? messages.length;
}
