import type { CountTokens, Message } from "@tare/messages";
import { countMessageTokens, hashPiece, pairCalls } from "@tare/messages/internal";
import type { ToolTraits } from "@tare/prune";
import { type ElisionCandidate, resultOriginal } from "@tare/prune/internal";
import type { Layout } from "./view.ts";
import { candidateOf, EXPECTED_LINE_TOKENS, resultTools, type Way } from "./edit.ts";

/** A user's pin of one message. Plain data. */
export interface Pin {
  /** Position of the message in the history. */
  readonly place: number;
  /** Retention (with restoration) of the message, or eviction of a result. */
  readonly wish: "retain" | "evict";
  readonly by: string;
  /** Hash of the message: the pin doesn't apply to another message at this position. */
  readonly hash: number;
}

/** A new pin. */
export interface NewPin extends Pick<Pin, "place" | "wish"> {
  readonly by?: string;
}

const LINE_TOKENS = 40;

/** Token counter, and the tools whose results a recall restores completely. Default: only texts are. */
export interface PinOptions {
  readonly countTokens: CountTokens;
  readonly tools?: ToolTraits | undefined;
}

/**
 * Creates a pin for a message of a history.
 * @throws {RangeError} if there is no such message, or it is retained anyway, or it can't be evicted.
 */
export function makePin(history: readonly Message[], wanted: NewPin, options: PinOptions): Pin {
  const { place, wish, by = "user" } = wanted;
  const refusal = pinRefusals(history, options)(wanted);
  if (refusal !== undefined) throw new RangeError(`Cannot ${wish} message ${place}: ${refusal}.`);
  return { place, wish, by, hash: hashPiece(history[place]!) };
}

/** Returns a function that returns the reason why a message can't be pinned; `undefined` if it can. */
export function pinRefusals(
  history: readonly Message[],
  { countTokens, tools }: PinOptions,
): (wanted: Pick<Pin, "place" | "wish">) => string | undefined {
  const names = resultTools(history);
  return ({ place, wish }) => {
    const message = history[place];
    if (!message) return `the session has ${history.length} messages, numbered from 0`;
    const { role } = message;
    if (wish === "retain") {
      return role === "system" || role === "developer" ? "instructions are never evicted" : undefined;
    }
    if (role !== "tool") return `it is the ${role}'s. Only tool results can be evicted`;
    if (message.keep) return "the provider requires it in its place";
    if (resultOriginal(message, tools?.[names.get(place) ?? "tool"] !== undefined) === undefined) {
      return "only its text could be recalled";
    }
    if (countMessageTokens(message, countTokens) <= LINE_TOKENS) {
      return "it is no longer than its placeholder";
    }
    return undefined;
  };
}

/** Returns the pins by position after a change. */
export function pinsAfter(
  pins: readonly Pin[],
  change: { readonly set: Pin } | { readonly remove: number },
): readonly Pin[] {
  const changed = "set" in change ? change.set.place : change.remove;
  const others = pins.filter(({ place }) => place !== changed);
  return "set" in change ? [...others, change.set].sort((a, b) => a.place - b.place) : others;
}

/** Returns the pins whose messages are in the history. */
export function fittingPins(pins: readonly Pin[], history: readonly Message[]): readonly Pin[] {
  return pins.filter(({ place, hash }) => {
    const message = history[place];
    return message !== undefined && hashPiece(message) === hash;
  });
}

export interface PinnedPlaces {
  readonly retained: ReadonlySet<number>;
  readonly steps: ReadonlySet<number>;
}

export const NOTHING_PINNED: PinnedPlaces = { retained: new Set(), steps: new Set() };

/** Pending pins that can be applied now. Tokens are counted locally. */
export interface Wishes {
  readonly back: readonly OpenWish[];
  readonly gone: readonly OpenWish[];
}

export const NO_WISHES: Wishes = { back: [], gone: [] };

export interface OpenWish {
  readonly pin: Pin;
  readonly start: number;
  readonly tokens: number;
  readonly candidates: readonly ElisionCandidate[];
}

interface Eviction {
  readonly how: Way;
}

/** Tokens from which results next to a restored one stay evicted. */
const EXTRA_TOKENS = 100;

export function pinnedPlaces(pins: readonly Pin[], history: readonly Message[]): PinnedPlaces {
  const retained = new Set(pins.flatMap(({ wish, place }) => wish === "retain" ? [place] : []));
  if (retained.size === 0) return NOTHING_PINNED;
  const steps = new Set(retained);
  for (const step of stepsOf(history)) {
    if (step.some((at) => retained.has(at))) { for (const at of step) steps.add(at); }
  }
  return { retained, steps };
}

export function findWishes(
  pins: readonly Pin[],
  { history, layout, seenMessages, countTokens }: {
    readonly history: readonly Message[];
    readonly layout: Layout;
    readonly seenMessages: number;
    readonly countTokens: CountTokens;
  },
): Wishes {
  const back: OpenWish[] = [];
  const gone: OpenWish[] = [];
  const newest = Math.min(seenMessages, history.findLastIndex(({ role }) => role === "assistant"));
  const isIntact = (at: number) => layout.find(at)?.message === history[at];
  const candidate = (at: number, isRequested: boolean): ElisionCandidate | undefined => {
    const message = history[at];
    if (message?.role !== "tool" || resultOriginal(message, isRequested) === undefined) return undefined;
    const tool = resultTools(history).get(at) ?? "tool";
    return candidateOf(message, { index: at, tool, tokensBefore: countMessageTokens(message, countTokens) });
  };
  for (const pin of pins) {
    const { place } = pin;
    const start = layout.startAt(place);
    if (pin.wish === "evict") {
      const isLong = layout.shows(place) && layout.tokensAt(place) > LINE_TOKENS;
      const one = isLong && place < newest ? candidate(place, true) : undefined;
      if (!one) continue;
      gone.push({ pin, start, tokens: layout.tokensAt(place) - EXPECTED_LINE_TOKENS, candidates: [one] });
      continue;
    }
    if (isIntact(place)) continue;
    const step = stepsOf(history).find((step) => step.includes(place)) ?? [place];
    const siblings = layout.hasLeft(place) ? step.filter((at) => at !== place && layout.hasLeft(at)) : [];
    const candidates = siblings.flatMap((at) => layout.isElided(at) ? [] : candidate(at, false) ?? [])
      .filter(({ tokensBefore, index }) =>
        tokensBefore > EXTRA_TOKENS &&
        !pins.some((other) => other.place === index && other.wish === "retain")
      );
    const out = new Set([
      ...candidates.map(({ index }) => index),
      ...siblings.filter((at) => layout.isElided(at)),
    ]);
    let tokens = layout.tokensAt(place);
    for (const at of [place, ...siblings]) {
      tokens -= out.has(at) ? EXPECTED_LINE_TOKENS : countMessageTokens(history[at]!, countTokens);
    }
    back.push({
      pin,
      start: Math.min(start, ...siblings.map((at) => layout.startAt(at))),
      tokens,
      candidates,
    });
  }
  return { back, gone };
}

export function removalsOf(
  wishes: readonly OpenWish[],
  evicted: readonly Eviction[],
): Eviction[] {
  return wishes.flatMap(({ candidates }) =>
    candidates.filter(({ index }) => !isEvicted(evicted, index)).map((candidate) => ({
      how: { type: "elide", candidate } as const,
    }))
  );
}

function isEvicted(evicted: readonly Eviction[], at: number): boolean {
  return evicted.some(({ how }) =>
    how.type === "elide" ? how.candidate.index === at : how.type === "drop" && how.from <= at && at < how.to
  );
}

/**
 * Returns where pins change a prompt and the tokens they free, as the provider counts, in addition to
 * `evicted`; `undefined` without pins.
 */
export function rideOf(
  { back, gone }: Wishes,
  evicted: readonly Eviction[],
  { startOf, perToken }: { readonly startOf: (tokens: number) => number; readonly perToken: number },
): { readonly start: number; readonly tokens: number } | undefined {
  const all = [...back, ...gone];
  if (all.length === 0) return undefined;
  const more = [...back, ...gone.filter(({ pin }) => !isEvicted(evicted, pin.place))];
  return {
    start: startOf(Math.min(...all.map(({ start }) => start))),
    tokens: more.reduce((sum, { tokens }) => sum + perToken * tokens, 0),
  };
}

export function describeNoRoom({ place, by }: Pin): string {
  return `Cannot restore message ${place}, pinned by ${by}: it would fill the window. The pin has ended.`;
}

export function describeEvictedPin({ place, by }: Pin): string {
  return `The window is full: message ${place}, pinned by ${by}, was evicted. The pin has ended.`;
}

function stepsOf(history: readonly Message[]): readonly (readonly number[])[] {
  const known = steps.get(history);
  if (known?.length === history.length) return known.steps;
  const byCall = new Map<number, number[]>();
  for (const { at, answer } of pairCalls(history)) {
    const step = byCall.get(at) ?? [at];
    if (answer) step.push(answer.at);
    byCall.set(at, step);
  }
  const found = [...byCall.values()];
  steps.set(history, { length: history.length, steps: found });
  return found;
}

const steps = new WeakMap<
  readonly Message[],
  { readonly length: number; readonly steps: readonly (readonly number[])[] }
>();
