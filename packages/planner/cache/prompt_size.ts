import type { CountTokens } from "@tare/messages";
import { type ByKind, kindRates, minus, NO_TEXT, plus, TEXT_KINDS } from "./text_kinds.ts";

/**
 * What a session's last reported prompt showed of how its provider counts. Plain data. Lists of numbers by kind hold the
 * kinds that were seen, in the order of `kinds`.
 */
export interface SizeRecord {
  /** Name of the model that was asked: each counts as it likes. */
  readonly model?: string | undefined;
  /** What the provider reported of the prompt. */
  readonly tokens: number;
  /** Positions in `TEXT_KINDS`. */
  readonly kinds: readonly number[];
  /** Tokens of it that were counted here. */
  readonly shown: readonly number[];
  /** What the provider counts for each of these. */
  readonly scales: readonly number[];
  /** How little is known of that: variances and covariances, row by row. */
  readonly doubts: readonly number[];
  /** Share by which texts of one kind have differed from what was expected of them. */
  readonly noise: number;
}

/** How long a prompt is, as its provider counts. */
export interface PromptSize {
  /** The best estimate. */
  readonly tokens: number;
  /** What it is hardly shorter than. */
  readonly atLeast: number;
  /** What it is hardly longer than; before the first report the best estimate. */
  readonly atMost: number;
}

/** A size is within its bounds unless an estimate is so many standard deviations off. */
const DEVIATIONS = 3;

/** The same for what was never seen of a kind: within what tokenizers take of it. */
const FIRST_DEVIATIONS = 2.5;

/** What a provider may add to a prompt that isn't to be seen here, as a standard deviation in tokens. */
const UNSEEN_TOKENS = 4_000;

/** What it may add to a message or two. */
const FRAME_TOKENS = 30;

/** Texts of one kind differ by such a share at first; never taken for less; and how much of what was seen is remembered. */
const FIRST_NOISE = 0.2;
const LEAST_NOISE = 0.03;
const NOISE_MEMORY = 0.8;

/** A counter may count a text otherwise than the sample of its kind. */
const SLACK = 1.3;

/** So much of a prompt may have given way to other text of the same kind. */
const TURNOVER_SHARE = 0.05;

/** By this share a scale may move from one call to the next. */
const DRIFT = 0.01;

/** Shares of the usual rates within which a counter is a tokenizer's, rather than an estimate by length. */
const LIKELY = { least: 0.6, most: 2.5 };

/**
 * How long a prompt is: as long as the last that was reported, with what is more since and without what is less. What
 * each kind of text counts follows from the session's own calls (a Kalman filter over the scales of the kinds); what was
 * never seen may count as much as tokenizers take.
 *
 * @param record That of the last reported prompt; nothing if none was.
 * @param kinds Tokens of the prompt, counted here.
 */
export function sizePrompt(
  record: SizeRecord | undefined,
  kinds: ByKind,
  countTokens: CountTokens,
): PromptSize {
  const filter = new Filter(record, countTokens);
  const net = record ? minus(kinds, shownOf(record)) : kinds;
  const start = record?.tokens ?? 0;
  const tokens = Math.max(0, start + filter.expected(net));
  const { least, most } = filter.bounds;
  const [came, left] = [net.map((tokens) => Math.max(0, tokens)), net.map((tokens) => Math.max(0, -tokens))];
  const low = start + dot(came, least) - dot(left, most);
  const high = start + dot(came, most) - dot(left, least);
  const margin = DEVIATIONS * Math.sqrt(filter.variance(net)) +
    2 * filter.noise * (filter.expected(plus(came, left)) + TURNOVER_SHARE * tokens);
  return {
    tokens,
    atLeast: Math.max(0, low, tokens - margin),
    // Before anything was reported nothing leaves for what a prompt might be at worst: the provider would say so.
    atMost: record ? Math.max(tokens, Math.min(high, tokens + margin)) : tokens,
  };
}

/** The record after a prompt that was reported. */
export function observeSize(
  { model, tokens, kinds: shown }: {
    readonly model?: string | undefined;
    /** What the provider reported. */
    readonly tokens: number;
    /** Tokens of it that were counted here. */
    readonly kinds: ByKind;
  },
  { record, countTokens }: {
    /** That of the last reported prompt. */
    readonly record: SizeRecord | undefined;
    readonly countTokens: CountTokens;
  },
): SizeRecord {
  const filter = new Filter(record, countTokens);
  const net = record ? minus(shown, shownOf(record)) : shown;
  filter.learn(tokens - (record?.tokens ?? 0), net, record ? FRAME_TOKENS : UNSEEN_TOKENS);
  const kinds = [...TEXT_KINDS.keys()].filter((kind) => shown[kind] !== 0 || record?.kinds.includes(kind));
  return {
    ...(model !== undefined && { model }),
    tokens,
    kinds,
    shown: kinds.map((kind) => shown[kind]!),
    scales: kinds.map((kind) => rounded(filter.scales[kind]!)),
    doubts: kinds.flatMap((row) => kinds.map((kind) => rounded(filter.doubts[row]![kind]!))),
    noise: rounded(filter.noise),
  };
}

/** What was counted here of the prompt that a record is of. */
function shownOf({ kinds, shown }: SizeRecord): ByKind {
  const all = [...NO_TEXT];
  for (const [at, kind] of kinds.entries()) all[kind] = shown[at]!;
  return all;
}

/** The most that any tokenizer takes for a prompt. */
export function longestSize(shown: ByKind, countTokens: CountTokens): number {
  return dot(shown, new Filter(undefined, countTokens).bounds.most);
}

/** What is known of how a provider counts each kind of text, and how well. */
class Filter {
  readonly scales: number[];
  readonly doubts: number[][];
  readonly bounds: { readonly least: ByKind; readonly most: ByKind };
  noise: number;

  constructor(record: SizeRecord | undefined, countTokens: CountTokens) {
    const rates = kindRates(countTokens);
    const isLikely = [WORDS, DENSE, HAN].every((kind) => {
      const share = rates[kind]! / TEXT_KINDS[kind]!.usual;
      return LIKELY.least <= share && share <= LIKELY.most;
    });
    this.bounds = {
      least: TEXT_KINDS.map(({ least }, kind) => least / SLACK / rates[kind]!),
      most: TEXT_KINDS.map(({ most }, kind) => SLACK * most / rates[kind]!),
    };
    this.scales = TEXT_KINDS.map(({ usual }, kind) => isLikely ? 1 : usual / rates[kind]!);
    this.doubts = this.scales.map((scale, row) =>
      this.scales.map((_, kind) =>
        kind === row ? ((this.bounds.most[row]! - scale) / FIRST_DEVIATIONS) ** 2 : 0
      )
    );
    this.noise = record?.noise ?? FIRST_NOISE;
    const { kinds = [], scales = [], doubts = [] } = record ?? {};
    for (const [row, one] of kinds.entries()) {
      this.scales[one] = scales[row]!;
      for (const [column, other] of kinds.entries()) {
        this.doubts[one]![other] = doubts[row * kinds.length + column]!;
      }
    }
  }

  expected(tokens: ByKind): number {
    return dot(tokens, this.scales);
  }

  variance(tokens: ByKind): number {
    return Math.max(0, this.doubts.reduce((sum, row, kind) => sum + tokens[kind]! * dot(tokens, row), 0));
  }

  /** Learns from the number of tokens by which a prompt has grown. */
  learn(grown: number, net: ByKind, frameTokens: number): void {
    const moved = this.expected(net.map(Math.abs));
    const spread = (this.noise * moved) ** 2 + frameTokens ** 2;
    const toward = this.doubts.map((row) => dot(net, row));
    const all = spread + dot(net, toward);
    const missed = grown - this.expected(net);
    for (const [row, its] of toward.entries()) {
      if (its === 0) continue;
      const { least, most } = this.bounds;
      const scale = this.scales[row]! + its * missed / all;
      this.scales[row] = Math.min(most[row]!, Math.max(least[row]!, scale));
      for (const [kind, other] of toward.entries()) this.doubts[row]![kind]! -= its * other / all;
    }
    // What is left of it once the scales have moved is what texts of a kind differ by.
    const rest = Math.max(0, Math.abs(grown - this.expected(net)) - frameTokens);
    const share = moved > 0 ? rest / moved : 0;
    this.noise = Math.max(LEAST_NOISE, NOISE_MEMORY * this.noise, Math.min(1, share));
    for (const [kind, scale] of this.scales.entries()) {
      if (net[kind] !== 0) this.doubts[kind]![kind]! += (DRIFT * scale) ** 2;
    }
  }
}

/** Kinds by which a counter is told from an estimate by length. */
const WORDS = 0;
const DENSE = 2;
const HAN = 11;

function dot(one: ByKind, other: ByKind): number {
  let sum = 0;
  for (let kind = 0; kind < one.length; kind++) sum += one[kind]! * other[kind]!;
  return sum;
}

/** To so many digits as matter. */
function rounded(value: number): number {
  return Number(value.toPrecision(5));
}
