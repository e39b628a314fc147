import type { CountTokens, ToolDefinition, Usage } from "@tare/messages";
import { type SentRequest, servedOf, sharedAlone, type TokenScale } from "../cache/predict.ts";
import type { Profile } from "../providers.ts";

/** What of a prompt's usage its price goes by. */
export type PromptUsage = Pick<
  Usage,
  "promptTokens" | "cachedTokens" | "cacheWriteTokens" | "hourWriteTokens"
>;

/** What a session has come to whose client keeps its window by itself. Plain data. */
export interface OwnCompaction {
  /** Tokens that its compactions have taken out of its prompt, counted here. */
  readonly tokens: number;
  /** Messages of the history that the newest of them read. */
  readonly messages: number;
}

/** Nothing was compacted. */
export const NOT_COMPACTED: OwnCompaction = { tokens: 0, messages: 0 };

/** How a client compacts a conversation that its window can't hold: one call for a summary, from which it goes on. */
export interface CompactionHabit {
  /** What of the prompt that call holds, from 0 to 1: all of it is served by a warm cache, and nothing of less. */
  readonly promptShare: number;
  /** Tokens of summary and newest messages from which the client goes on, behind the session's first prompt. */
  readonly keptTokens: number;
  /** Whether that first prompt is as it was, so that a warm cache serves it. */
  readonly keepsFront: boolean;
}

/** What is taken for a client's habit of which nothing is known: the cheapest of those that were seen. */
export const USUAL_COMPACTION: CompactionHabit = {
  promptShare: 1,
  keptTokens: 0,
  keepsFront: true,
};

/** Tokens of a summary. */
export const SUMMARY_TOKENS = 2_000;

/**
 * The prompt from which on clients compact: where what is left of the window would not hold a reply. Of four agents the
 * means were 188,000, 90,000 and 52,000 tokens in windows of 200,000, 100,000 and 60,000.
 */
function fullFrom(windowTokens: number): number {
  return Math.min(0.94 * windowTokens, Math.max(windowTokens - 12_000, windowTokens / 2));
}

/** A call as its client would have made it alone. Tokens are counted here. */
export interface AloneRequest {
  readonly model?: string | undefined;
  /** Those of its client, in full. */
  readonly tools: readonly ToolDefinition[];
  /** Messages of the history. */
  readonly length: number;
  /** What was said, with all tools: without what only Tare adds, such as recalls. */
  readonly ownTokens: number;
  /** Its first prompt, which a compaction leaves: tools, and what was said before the model's first word. */
  readonly frontTokens: number;
  /** Whether its reply was asked for only because Tare had left something out. */
  readonly isDetour: boolean;
}

/** What {@linkcode callAlone} goes by. Tokens are the provider's. */
export interface AloneOptions {
  readonly profile: Profile;
  readonly scale: TokenScale;
  /** The model's context window. */
  readonly windowTokens: number;
  /** What its client does where that is full. */
  readonly habit: CompactionHabit;
  readonly countTokens: CountTokens;
  /** Requests that succeeded before. */
  readonly sent: readonly SentRequest[];
  /** What the request that was sent took, or is expected to, and how many tokens of it were counted here. */
  readonly usage: PromptUsage;
  readonly countedTokens: number;
  /** Probability that what was sent then is still cached. */
  readonly aliveOf: (sent: SentRequest) => number;
}

/** What a call would have taken without Tare. */
export interface AloneCall {
  /** Its prompt; nothing if it would not have been made. */
  readonly usage: PromptUsage;
  /** The prompt by which its client would have compacted the conversation before; absent if it would not have. */
  readonly compaction?: PromptUsage;
  /** What resending everything would have taken, whether or not that fits the window. */
  readonly resend: PromptUsage;
  /** What its client has compacted until then. */
  readonly compacted: OwnCompaction;
}

const NOTHING: PromptUsage = { promptTokens: 0, cachedTokens: 0 };

/**
 * What a call would have taken had nothing left its prompt: the same call with the same provider, whose cache holds what
 * it held, within the same window. Where the conversation doesn't fit, its client compacts it as clients do.
 */
export function callAlone(
  before: OwnCompaction,
  request: AloneRequest,
  { profile, scale, windowTokens, habit, countTokens, sent, usage, countedTokens, aliveOf }: AloneOptions,
): AloneCall {
  const { model, tools, ownTokens, frontTokens, length, isDetour } = request;
  if (isDetour) return { usage: NOTHING, resend: NOTHING, compacted: before };
  const theirs = (tokens: number) => usage.promptTokens + scale.perToken * (tokens - countedTokens);
  let [last, alive] = [0, 0];
  for (const one of sent) {
    if (one.model !== model) continue;
    const shared = sharedAlone(one, { tools, ownTokens, countTokens });
    const chance = aliveOf(one);
    if (chance * shared > alive * last || last === 0) [last, alive] = [shared, chance];
  }
  /** A prompt of so many tokens that shares so many with one that was sent. */
  const take = (tokens: number, sharedTokens: number, servedTokens = usage.cachedTokens): PromptUsage => {
    const promptTokens = Math.max(0, theirs(tokens));
    const warm = alive * servedOf(profile, scale, { promptTokens, sharedTokens });
    // What is served of less would have been served of more: other sessions may have put it there.
    return writtenLike(usage, promptTokens, Math.max(warm, Math.min(servedTokens, promptTokens)));
  };
  const resend = take(ownTokens, last);
  const compacted = before.messages <= length ? before : NOT_COMPACTED;
  const tokens = ownTokens - compacted.tokens;
  const asked = compacted.tokens > 0 ? take(tokens, Math.max(0, last - compacted.tokens), 0) : resend;
  const left = frontTokens + habit.keptTokens / scale.perToken;
  if (asked.promptTokens <= fullFrom(windowTokens) || left >= tokens) {
    return { usage: asked, resend, compacted };
  }
  const compaction = habit.promptShare === 1
    ? asked
    : writtenLike(usage, habit.promptShare * asked.promptTokens, 0);
  return {
    usage: take(left, habit.keepsFront ? frontTokens : 0, 0),
    compaction,
    resend,
    compacted: { tokens: compacted.tokens + tokens - left, messages: length },
  };
}

/** A prompt whose part that isn't served is written to the cache as that of another. */
function writtenLike(like: PromptUsage, promptTokens: number, cachedTokens: number): PromptUsage {
  const { cacheWriteTokens, hourWriteTokens } = like;
  const uncached = like.promptTokens - like.cachedTokens;
  if (cacheWriteTokens === undefined || uncached <= 0) return { promptTokens, cachedTokens };
  const times = (promptTokens - cachedTokens) / uncached;
  return {
    promptTokens,
    cachedTokens,
    cacheWriteTokens: times * cacheWriteTokens,
    ...(hourWriteTokens !== undefined && { hourWriteTokens: times * hourWriteTokens }),
  };
}
