import { groupTurns } from "@tare/context";
import { countRequestTokens, type CountTokens, type Message, type Usage } from "@tare/messages";
import { countMessageTokens, reasonOf } from "@tare/messages/internal";
import type { Archive } from "@tare/prune";
import { archiveText, resultText, truncateText } from "@tare/prune/internal";
import { type FullWindow, howMany, WINDOW_SHARE } from "../rule/decide.ts";
import { type Edit, type ElideEdit, resultTools, type ShortenEdit, textAt } from "./edit.ts";
import {
  findStretch,
  firstOpenCall,
  makeSummary,
  type Stretch,
  type SummaryOptions,
} from "./make_summary.ts";
import { type History, isSummary, type PlacedMessages, type PlacedView, placedView } from "./view.ts";

const WORTHWHILE_SHARE = 0.1;

const LEAST_TOKENS = 50;

/** Share of the window for the newest turns, whose answers stay if possible. */
const RECENT_SHARE = 1 / 4;

const ROOMY_SHARE = 0.7;

/**
 * Growth of a history before a failed summary is requested again, as a share of the window; doubled each
 * time.
 */
const RETRY_SHARE = 1 / 2;

const LONG_TOKENS = 2_000;
const SHORT_TOKENS = 1_000;

/** Expected tokens of a summary, and their share of the summarized ones. */
const SUMMARY_TOKENS = 1_500;
const SUMMARY_SHARE = 1 / 5;

const LINE_TOKENS = 60;

export interface RelieveWindowOptions extends SummaryOptions {
  readonly windowTokens: number;
  /** Whether the prompt exceeds the window, so that any fitting eviction is worth it. Default: false. */
  readonly mustFit?: boolean;
  readonly fullWindow: FullWindow;
  /** The view without this call's edits, and its tokens at the start of an earlier request. */
  readonly warm: { readonly view: PlacedView; readonly sharedTokens: number };
  readonly retained?: ReadonlySet<number>;
}

export interface WindowRelief {
  readonly edits: readonly Edit[];
  readonly fullWindow: FullWindow;
  readonly failed?: boolean;
  readonly warnings: readonly string[];
  readonly usage?: Usage;
}

interface Rung {
  readonly stretch?: Stretch;
  readonly short: readonly number[];
  readonly tokens: number;
}

/** Evicts more from a window that is still full, by the steps in docs/mechanisms.md. */
export async function relieveWindow(
  history: History,
  edits: readonly Edit[],
  options: RelieveWindowOptions,
): Promise<WindowRelief> {
  const { countTokens, windowTokens, fullWindow } = options;
  const before = placedView(history, edits);
  const promptTokens = countRequestTokens(before, countTokens);
  const historyTokens = countRequestTokens(history, countTokens);
  const summarize = historyTokens >= fullWindow.askFromTokens ? options.summarize : undefined;
  const rung = chooseRung(history.messages, before, {
    ...options,
    promptTokens,
    summarizes: summarize !== undefined,
  });
  const made: Edit[] = [];
  const warnings: string[] = [];
  let after = fullWindow;
  let usage: Usage | undefined;
  if (rung) {
    try {
      made.push(...await shorten(history.messages, rung.short, options));
      if (rung.stretch) {
        const summary = await makeSummary(rung.stretch, {
          ...options,
          summarize,
          sent: sentBefore(rung.stretch.end, options),
          next: history.messages[rung.stretch.end],
          minGainTokens: leastGain(promptTokens, options),
        });
        made.push(summary.edit);
        usage = summary.usage;
        if (summary.failure !== undefined) {
          const growth = RETRY_SHARE * 2 ** after.failures * windowTokens;
          after = { ...after, failures: after.failures + 1, askFromTokens: historyTokens + growth };
          const why = summary.failure.replace(/\.$/, "");
          warnings.push(`Cannot summarize ${howMany(rung.stretch.evicted.length, "message")}: ${why}.`);
        }
        if (summary.failure === undefined && summarize && after.failures > 0) {
          after = { ...after, failures: 0 };
        }
        warnings.push(...describeStretch(rung.stretch, summary.edit.role === undefined));
      }
      if (rung.short.length > 0) {
        warnings.push(
          `${FULL}: only head and tail of ${
            howMany(rung.short.length, "long message")
          } of the user are visible.`,
        );
      }
    } catch (error) {
      if (options.signal?.aborted && error === options.signal.reason) throw error;
      return {
        edits: [],
        failed: true,
        fullWindow,
        warnings: [`${reasonOf(error)}. Nothing more was evicted.`],
      };
    }
  }
  return { edits: made, fullWindow: after, warnings, ...(usage && { usage }) };
}

function leastGain(
  promptTokens: number,
  { mustFit = false, windowTokens }: Pick<RelieveWindowOptions, "mustFit" | "windowTokens">,
): number {
  const worthwhile = WORTHWHILE_SHARE * promptTokens;
  return mustFit ? Math.min(worthwhile, Math.max(LEAST_TOKENS, promptTokens - windowTokens)) : worthwhile;
}

const FULL = "The window is full";

function describeStretch({ evicted, userMessages }: Stretch, summarized: boolean): string[] {
  const how = summarized ? "were summarized" : "were replaced by their archive reference";
  return [
    `${FULL}: ${howMany(evicted.length - userMessages.length, "message")} of old turns ${how}.`,
    ...(userMessages.length > 0
      ? [
        `${FULL}: also replaced ${
          howMany(userMessages.length, "message")
        } of the user, the oldest after the first.`,
      ]
      : []),
  ];
}

function sentBefore(end: number, { warm, countTokens }: RelieveWindowOptions): History {
  const { messages, places, tools } = warm.view;
  const after = places.findIndex((place) => place >= end);
  let length = 0;
  let tokens = countRequestTokens({ messages: [], tools }, countTokens);
  for (const message of messages) {
    tokens += countMessageTokens(message, countTokens);
    if (tokens > warm.sharedTokens) break;
    length++;
  }
  const sent = messages.slice(0, Math.max(length, after < 0 ? messages.length : after));
  return { messages: sent.slice(0, firstOpenCall(sent)), tools };
}

function chooseRung(
  history: readonly Message[],
  placed: PlacedMessages,
  { countTokens, windowTokens, promptTokens, summarizes, mustFit = false, retained = new Set() }:
    & RelieveWindowOptions
    & {
      readonly promptTokens: number;
      readonly summarizes: boolean;
    },
): Rung | undefined {
  const least = leastGain(promptTokens, { mustFit, windowTokens });
  const enough = Math.max(least, promptTokens - WINDOW_SHARE * windowTokens);
  const ends = turnEnds(history);
  const last = ends.at(-1) ?? 0;
  const tokensAt = new Map(
    placed.messages.map((message, row) => [placed.places[row]!, countMessageTokens(message, countTokens)]),
  );
  const recent = recentStart(ends, tokensAt, RECENT_SHARE * windowTokens);
  const shortable = new Map(
    [...longTexts(history, placed, { before: last, countTokens })].filter(([place]) => !retained.has(place)),
  );

  const wonBy = (evicted: number, summaries: number) => {
    const won = evicted -
      (summarizes ? Math.min(SUMMARY_TOKENS, SUMMARY_SHARE * evicted) : LINE_TOKENS + summaries);
    return won >= least ? won : 0;
  };
  const rung = (end: number, { short = false, users = [] as readonly number[] } = {}) => {
    const stretch = findStretch(placed, { end, users, retained });
    const evicted = countRequestTokens({ messages: stretch.evicted }, countTokens);
    const summaries = countRequestTokens({ messages: stretch.evicted.filter(isSummary) }, countTokens);
    const joined = new Set(users);
    const shorter = short ? [...shortable].filter(([place]) => !joined.has(place)) : [];
    const shortened = shorter.reduce((sum, [, tokens]) => sum + tokens - SHORT_TOKENS, 0);
    const won = wonBy(evicted, summaries);
    return {
      ...(won > 0 && { stretch }),
      short: shorter.map(([place]) => place),
      tokens: shortened + won,
      parts: { evicted, summaries, shortened },
    };
  };
  const joining = (end: number): Rung => {
    const all = joinable(history, placed, end).filter((place) => !retained.has(place));
    const roomy = promptTokens - ROOMY_SHARE * windowTokens;
    // Computed incrementally, because there may be thousands.
    let { evicted, summaries, shortened } = rung(end, { short: true }).parts;
    for (const [at, place] of all.slice(0, -1).entries()) {
      evicted += tokensAt.get(place) ?? 0;
      shortened -= (shortable.get(place) ?? SHORT_TOKENS) - SHORT_TOKENS;
      if (shortened + wonBy(evicted, summaries) < roomy) continue;
      return rung(end, { short: true, users: all.slice(0, at + 1) });
    }
    return rung(end, { short: true, users: all });
  };
  let best: Rung | undefined;
  for (const step of [rung, (end: number) => rung(end, { short: true }), joining]) {
    for (const end of new Set([recent, last])) {
      best = step(end);
      if (best.tokens >= enough) return best;
    }
  }
  return best && best.tokens >= least ? best : undefined;
}

/**
 * Returns the ends of complete turns, the oldest first. A complete turn ends with a text of the model; an
 * interrupted one includes those after it. The last turn is active.
 */
function turnEnds(history: readonly Message[]): number[] {
  const settled = firstOpenCall(history);
  return groupTurns(history).slice(1).flatMap(({ start }) => {
    let at = start - 1;
    while (history[at]?.role === "system" || history[at]?.role === "developer") at--;
    const before = history[at];
    const isComplete = before?.role === "assistant" && !before.tool_calls?.length;
    return isComplete && start <= settled ? [start] : [];
  });
}

function recentStart(
  ends: readonly number[],
  tokensAt: ReadonlyMap<number, number>,
  mostTokens: number,
): number {
  let start = ends.at(-1) ?? 0;
  let tokens = 0;
  for (const end of ends.toReversed()) {
    for (let place = start - 1; place >= end; place--) tokens += tokensAt.get(place) ?? 0;
    if (tokens > mostTokens) break;
    start = end;
  }
  return start;
}

function joinable(history: readonly Message[], { places }: PlacedMessages, end: number): number[] {
  const opening = openingEnd(history);
  return places.filter((place) => opening <= place && place < end && history[place]?.role === "user");
}

function longTexts(
  history: readonly Message[],
  { messages, places }: PlacedMessages,
  { before, countTokens }: { readonly before: number; readonly countTokens: CountTokens },
): Map<number, number> {
  const opening = openingEnd(history);
  const long = new Map<number, number>();
  for (const [at, message] of messages.entries()) {
    const place = places[at] ?? -1;
    if (place < opening || place >= before || message.role !== "user") continue;
    const tokens = longParts(message, countTokens).reduce((sum, { text }) => sum + countTokens(text), 0);
    if (tokens > 0) long.set(place, tokens);
  }
  return long;
}

function openingEnd(history: readonly Message[]): number {
  const first = history.findIndex(({ role }) => role === "user");
  const end = history.findIndex(({ role }, at) => at > first && role !== "user");
  return first < 0 || end < 0 ? history.length : end;
}

function longParts(
  message: Message,
  countTokens: CountTokens,
): { readonly part?: number; readonly text: string }[] {
  const { content } = message;
  const parts = typeof content === "string" || !content
    ? [{ text: textAt(message) ?? "" }]
    : content.map((_, part) => ({ part, text: textAt(message, part) ?? "" }));
  return parts.filter(({ text }) => text.length > LONG_TOKENS && countTokens(text) > LONG_TOKENS);
}

async function shorten(
  history: readonly Message[],
  places: readonly number[],
  { countTokens, archive, recall = false }: RelieveWindowOptions,
): Promise<ShortenEdit[]> {
  const edits: ShortenEdit[] = [];
  for (const index of places) {
    const message = history[index];
    for (const { part, text } of message ? longParts(message, countTokens) : []) {
      const ref = await archiveText(text, archive, "a message of the user");
      const short = truncateText(text, { countTokens, limitTokens: SHORT_TOKENS, ref, recall });
      edits.push({ type: "shorten", index, ...(part !== undefined && { part }), ref, text: short });
    }
  }
  return edits;
}

const SHORTEST_TOKENS = 64;

/**
 * Truncates unseen results, the longest first and to a common length, until enough tokens are freed or
 * nothing more can be.
 * @throws {Error} if one can't be archived.
 */
export async function cutNewest(
  history: History["messages"],
  { messages, places }: PlacedMessages,
  { neededTokens, countTokens, archive, recall }: {
    readonly neededTokens: number;
    readonly countTokens: CountTokens;
    readonly archive: Archive;
    readonly recall: boolean;
  },
): Promise<ElideEdit[]> {
  const newest = history.findLastIndex(({ role }) => role === "assistant");
  const newResults = messages.flatMap((message, row) => {
    const index = places[row]!;
    const source = history[index];
    if (index < newest || message.role !== "tool" || source?.role !== "tool" || source.keep) return [];
    const original = resultText(source);
    if (original === undefined) return [];
    return [{
      index,
      original,
      toolCallId: source.tool_call_id,
      tokens: countMessageTokens(message, countTokens),
    }];
  });
  const limitTokens = commonLimit(newResults.map(({ tokens }) => tokens), neededTokens);
  const edits: ElideEdit[] = [];
  for (const { index, original, toolCallId, tokens } of newResults) {
    if (tokens <= limitTokens) continue;
    const ref = await archiveText(original, archive, "a result");
    const tool = resultTools(history).get(index) ?? "tool";
    const text = truncateText(original, { tool, ref, countTokens, limitTokens, recall });
    const isShorter =
      countMessageTokens({ role: "tool", tool_call_id: toolCallId, content: text }, countTokens) < tokens;
    if (isShorter) edits.push({ type: "elide", index, toolCallId, ref, text });
  }
  return edits;
}

function commonLimit(tokens: readonly number[], neededTokens: number): number {
  const sorted = tokens.toSorted((a, b) => b - a);
  let won = 0;
  for (const [at, longest] of sorted.entries()) {
    const next = Math.max(SHORTEST_TOKENS, sorted[at + 1] ?? 0);
    if (longest <= next) continue;
    const step = (longest - next) * (at + 1);
    if (won + step >= neededTokens) return Math.floor(longest - (neededTokens - won) / (at + 1));
    won += step;
  }
  return SHORTEST_TOKENS;
}
