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

/** Share of a prompt that has to be won, or the window would be full again at once. */
const WORTHWHILE_SHARE = 0.1;

/** The same in tokens where it can't be sent otherwise. */
const LEAST_TOKENS = 50;

/** Share of the window whose newest turns keep their answers as long as that is enough. */
const RECENT_SHARE = 1 / 4;

/** Share of the window that is left over when user's messages leave, so that more need not leave soon. */
const ROOMY_SHARE = 0.7;

/** Share of the window by which a history must grow before a summary is asked for again that failed; doubled each time. */
const RETRY_SHARE = 1 / 2;

/** Longest text of the user that stays whole, and what is shown of a longer one, in tokens. */
const LONG_TOKENS = 2_000;
const SHORT_TOKENS = 1_000;

/** What a summary is expected to take, in tokens, and as a share of what it stands for. */
const SUMMARY_TOKENS = 1_500;
const SUMMARY_SHARE = 1 / 5;

/** What a line is expected to take that stands for messages, in tokens. */
const LINE_TOKENS = 60;

export interface RelieveWindowOptions extends SummaryOptions {
  readonly windowTokens: number;
  /** Whether the window can't hold the prompt at all: then whatever makes it fit is worth it. Default: no. */
  readonly mustFit?: boolean;
  readonly fullWindow: FullWindow;
  /** What the model would see without the edits of this call, and with how many tokens of it a sent request began. */
  readonly warm: { readonly view: PlacedView; readonly sharedTokens: number };
  readonly kept?: ReadonlySet<number>;
}

export interface WindowRelief {
  readonly edits: readonly Edit[];
  readonly fullWindow: FullWindow;
  /** Whether something can't be archived, so that nothing could be done. */
  readonly failed?: boolean;
  /** What was done, and what went wrong, in a sentence each. */
  readonly warnings: readonly string[];
  readonly usage?: Usage;
}

/** What could leave a full window at once. */
interface Rung {
  /** What gives way to a summary; absent if that isn't worth it. */
  readonly stretch?: Stretch;
  /** Positions of the user's messages that are shortened. */
  readonly short: readonly number[];
  /** Tokens that this is expected to win. */
  readonly tokens: number;
}

/**
 * Makes room in a window that is full after everything else has left, in the steps of docs/mechanisms.md, each only if those
 * before aren't enough. Nothing is done that frees less than a tenth of the prompt, unless it can't be sent otherwise.
 */
export async function relieveWindow(
  history: History,
  edits: readonly Edit[],
  options: RelieveWindowOptions,
): Promise<WindowRelief> {
  const { countTokens, windowTokens, fullWindow } = options;
  const before = placedView(history, edits);
  const promptTokens = countRequestTokens(before, countTokens);
  const historyTokens = countRequestTokens(history, countTokens);
  const summarise = historyTokens >= fullWindow.askFromTokens ? options.summarise : undefined;
  const rung = chooseRung(history.messages, before, {
    ...options,
    promptTokens,
    summarises: summarise !== undefined,
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
          summarise,
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
          warnings.push(`Cannot summarise ${howMany(rung.stretch.leaving.length, "message")}: ${why}.`);
        }
        if (summary.failure === undefined && summarise && after.failures > 0) {
          after = { ...after, failures: 0 };
        }
        warnings.push(...describeStretch(rung.stretch, summary.edit.role === undefined));
      }
      if (rung.short.length > 0) {
        warnings.push(
          `${FULL}: of ${howMany(rung.short.length, "long message")} of the user head and tail are shown.`,
        );
      }
    } catch (error) {
      if (options.signal?.aborted && error === options.signal.reason) throw error;
      return {
        edits: [],
        failed: true,
        fullWindow,
        warnings: [`${reasonOf(error)}. Nothing more left the prompt.`],
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

function describeStretch({ leaving, said }: Stretch, summarised: boolean): string[] {
  const how = summarised ? "became a summary" : "gave way to a line that says where they are archived";
  return [
    `${FULL}: ${howMany(leaving.length - said.length, "message")} of old turns ${how}.`,
    ...(said.length > 0
      ? [`${FULL}: ${howMany(said.length, "message")} of the user, the oldest but the first, went with them.`]
      : []),
  ];
}

/** The conversation as the provider's cache knows it, with all of the history in front of a position. */
function sentBefore(end: number, { warm, countTokens }: RelieveWindowOptions): History {
  const { messages, places, tools } = warm.view;
  const behind = places.findIndex((place) => place >= end);
  let length = 0;
  let tokens = countRequestTokens({ messages: [], tools }, countTokens);
  for (const message of messages) {
    tokens += countMessageTokens(message, countTokens);
    if (tokens > warm.sharedTokens) break;
    length++;
  }
  const sent = messages.slice(0, Math.max(length, behind < 0 ? messages.length : behind));
  return { messages: sent.slice(0, firstOpenCall(sent)), tools };
}

/** The first rung that is enough, or else the last if it is worth it. */
function chooseRung(
  history: readonly Message[],
  placed: PlacedMessages,
  { countTokens, windowTokens, promptTokens, summarises, mustFit = false, kept = new Set() }:
    & RelieveWindowOptions
    & {
      readonly promptTokens: number;
      readonly summarises: boolean;
    },
): Rung | undefined {
  const least = leastGain(promptTokens, { mustFit, windowTokens });
  const enough = Math.max(least, promptTokens - WINDOW_SHARE * windowTokens);
  const ends = turnEnds(history);
  const last = ends.at(-1) ?? 0;
  const shown = new Map(
    placed.messages.map((message, row) => [placed.places[row]!, countMessageTokens(message, countTokens)]),
  );
  const recent = recentStart(ends, shown, RECENT_SHARE * windowTokens);
  const shortable = new Map(
    [...longTexts(history, placed, { before: last, countTokens })].filter(([place]) => !kept.has(place)),
  );

  /** What is won by what leaves, of which so many tokens are earlier summaries. */
  const wonBy = (leaving: number, summaries: number) => {
    const won = leaving -
      (summarises ? Math.min(SUMMARY_TOKENS, SUMMARY_SHARE * leaving) : LINE_TOKENS + summaries);
    return won >= least ? won : 0;
  };
  const rung = (end: number, { short = false, users = [] as readonly number[] } = {}) => {
    const stretch = findStretch(placed, { end, users, kept });
    const leaving = countRequestTokens({ messages: stretch.leaving }, countTokens);
    const summaries = countRequestTokens({ messages: stretch.leaving.filter(isSummary) }, countTokens);
    const joined = new Set(users);
    const shorter = short ? [...shortable].filter(([place]) => !joined.has(place)) : [];
    const shortened = shorter.reduce((sum, [, tokens]) => sum + tokens - SHORT_TOKENS, 0);
    const won = wonBy(leaving, summaries);
    return {
      ...(won > 0 && { stretch }),
      short: shorter.map(([place]) => place),
      tokens: shortened + won,
      parts: { leaving, summaries, shortened },
    };
  };
  const joining = (end: number): Rung => {
    const all = joinable(history, placed, end).filter((place) => !kept.has(place));
    const roomy = promptTokens - ROOMY_SHARE * windowTokens;
    // What is won with one more follows from what is won without it: there may be thousands.
    let { leaving, summaries, shortened } = rung(end, { short: true }).parts;
    for (const [at, place] of all.slice(0, -1).entries()) {
      leaving += shown.get(place) ?? 0;
      shortened -= (shortable.get(place) ?? SHORT_TOKENS) - SHORT_TOKENS;
      if (shortened + wonBy(leaving, summaries) < roomy) continue;
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
 * Where the complete turns of a history end, from the oldest on. A turn is complete when it ends with a text of the model;
 * an interrupted one is one with those behind it. The last turn is the active one.
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

/** The first of these ends behind which, up to the last, no more than so many tokens are shown. */
function recentStart(
  ends: readonly number[],
  shown: ReadonlyMap<number, number>,
  mostTokens: number,
): number {
  let start = ends.at(-1) ?? 0;
  let tokens = 0;
  for (const end of ends.toReversed()) {
    for (let place = start - 1; place >= end; place--) tokens += shown.get(place) ?? 0;
    if (tokens > mostTokens) break;
    start = end;
  }
  return start;
}

/** The user's messages that may leave: not those that open the session. */
function joinable(history: readonly Message[], { places }: PlacedMessages, end: number): number[] {
  const opening = openingEnd(history);
  return places.filter((place) => opening <= place && place < end && history[place]?.role === "user");
}

/** Positions of the user's messages with texts that can be shortened, each with the tokens of these. */
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

/** Position behind the messages with which the user opened the session. */
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
      const shown = truncateText(text, { countTokens, limitTokens: SHORT_TOKENS, ref, recall });
      edits.push({ type: "shorten", index, ...(part !== undefined && { part }), ref, text: shown });
    }
  }
  return edits;
}

/** Shortest text that a result is cut to, in tokens. */
const SHORTEST_TOKENS = 64;

/**
 * Cuts results that the model hasn't seen yet to head and tail, the longest first and to the same length, until so many
 * tokens are won or nothing more can be.
 *
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
  const shown = messages.flatMap((message, row) => {
    const index = places[row]!;
    const said = history[index];
    if (index < newest || message.role !== "tool" || said?.role !== "tool" || said.keep) return [];
    const original = resultText(said);
    if (original === undefined) return [];
    return [{
      index,
      original,
      toolCallId: said.tool_call_id,
      tokens: countMessageTokens(message, countTokens),
    }];
  });
  const limitTokens = commonLimit(shown.map(({ tokens }) => tokens), neededTokens);
  const edits: ElideEdit[] = [];
  for (const { index, original, toolCallId, tokens } of shown) {
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

/** The length to which the longest of some must shrink for so many tokens to be won. */
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
