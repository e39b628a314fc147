import type { Profile } from "../providers.ts";

/** What a rule goes by for one message before one call. Ages are in calls, counted from 1. */
export interface Standing {
  /** Tokens of the message, counted by the provider. */
  readonly tokens: number;
  /** Whether it shows a file: a read's result, or a call that edits or writes. */
  readonly fileText: boolean;
  /** Whether it edits or writes. */
  readonly edits: boolean;
  /** Names of which it is the newest bearer. */
  readonly names: number;
  /** Calls since it came. */
  readonly age: number;
  /** Calls since it came or one of its names was last used by a call. */
  readonly wantedAge: number;
  /** Tokens in front of the prompt that the provider counts and that aren't to be seen here. */
  readonly unseenTokens: number;
}

/** What may leave the prompt, and what of it stays. */
export interface Retention {
  /**
   * What a message's absence is expected to cost at the next call, in the price of one uncached input token: what
   * costs more to carry may leave. As long as nobody refers to the message it must not grow.
   */
  readonly loss: (standing: Standing, profile: Profile) => number;
  /** Tokens at the end, at most half the window, in which no result leaves. Infinite: none leaves. */
  readonly resultTailTokens: number;
  /**
   * Tokens at the end, at most a quarter of the window, in which no step of an old turn leaves: calls and their results
   * together. Infinite: none leaves.
   */
  readonly stepTailTokens: number;
  /** Whether tools that have been called are shown by names and types alone. */
  readonly compactTools: boolean;
  /** So many calls long, what stays behind a cut must be worth being written again. Zero: it needn't be. */
  readonly horizonCalls: number;
  /** Whether a read of the active turn stays whose file the user has named and nobody has edited since. */
  readonly pins: boolean;
}

/** Prompt tokens that a repair is expected to read. The prompt as it is would feed back: a large one would keep more. */
const REPAIR_PROMPT_TOKENS = 20_000;
const REPAIR_OUTPUT_TOKENS = 60;
/** Price of an output token where nothing is known of it, in that of an input token. */
const OUTPUT_PRICE = 5;
/** Most tokens that a recall brings back at once. */
const REPAIR_ORIGINAL_TOKENS = 7_000;

/**
 * What is still wanted stays: the default. Fetching a message of `s` tokens back costs
 *
 *     R = (20,000 + unseen) · read + 60 · output + min(s, 7,000) · write
 *
 * and it is needed at the next call with a probability that falls with the calls since it was last referred to,
 * about as 0.12 / age in recorded sessions, and grows with the root of its size; that of a file's text is higher at
 * first and falls faster. What its names are worth falls from when it came: a name that is used moves on to the call that
 * used it. To keep a message while that is worth more than carrying it is GreedyDual-Size (Cao, Irani 1997), the Landlord
 * algorithm (Young 2002), with a measured hazard in place of a credit.
 */
export const KEEP_WANTED: Retention = {
  loss({ tokens, fileText, edits, names, age, wantedAge, unseenTokens }, { read, write }) {
    const size = Math.sqrt(tokens / 1000);
    const text = edits
      ? 0.3 * size / wantedAge ** 1.25
      : fileText
      ? 0.3 * size / wantedAge ** 1.5
      : 0.024 * size / wantedAge;
    const named = names > 0 ? 0.12 * names ** 0.15 / age : 0;
    const repair = (REPAIR_PROMPT_TOKENS + unseenTokens) * read + REPAIR_OUTPUT_TOKENS * OUTPUT_PRICE +
      Math.min(tokens, REPAIR_ORIGINAL_TOKENS) * write;
    return 2.2 * (text + named) * repair;
  },
  resultTailTokens: 0,
  stepTailTokens: 8_000,
  compactTools: true,
  horizonCalls: 5,
  pins: true,
};

/** By age alone: results behind the protected tail go, whatever they hold; steps and tools stay. */
export const BY_AGE: Retention = {
  loss: () => 0,
  resultTailTokens: 16_384,
  stepTailTokens: Infinity,
  compactTools: false,
  horizonCalls: 0,
  pins: false,
};
