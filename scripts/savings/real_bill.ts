import { contentText, type CountTokens, type Message } from "@tare/messages";
import { countMessageTokens } from "@tare/messages/internal";
import { chooseProfile, type Profile } from "@tare/planner";
import { profileForTtl } from "@tare/planner/internal";
import { promptCost } from "@tare/planner/internal/parts";
import { outputPrice, type PlayOptions, type Recording, windowFor } from "@tare/simulator/economy";

/**
 * The bill of a recorded session, and a replay with the same tokens, cache and prices: if the client resent
 * everything, both cost the same.
 */
export interface RealBill {
  /** In cost units, by the reported usage of each call. */
  readonly cost: number;
  /** Recording with the fixed prefix and the reasoning that its usage reveals. */
  readonly recording: Recording;
  readonly options: Pick<PlayOptions, "profile" | "windowTokens" | "countTokens"> & {
    readonly cachedAtMost: (call: number) => number;
  };
}

interface BilledCall {
  /** Position of the reply. */
  readonly at: number;
  readonly timeMs: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly writtenTokens: number;
}

/** Smallest share of the calls whose usage is reported. */
const BILLED = 0.95;
const HOUR_MS = 3_600_000;
const WARM = 0.9;
const COMPACTED = 0.7;
const LARGE_WINDOW = 1_000_000;

/** Returns a session's bill, or `undefined` without reported cache reads of this profile's provider. */
export function billOf(
  recorded: Recording,
  { profile: given, countTokens }: { readonly profile: Profile; readonly countTokens: CountTokens },
): RealBill | undefined {
  if (recorded.model === undefined || chooseProfile({ model: recorded.model }).name !== given.name) return;
  const calls = billedCalls(recorded);
  const [first] = calls;
  if (!first || calls.length < BILLED * recorded.calls.length) return undefined;

  const { scale, prefixTokens } = fitTokens(recorded, { calls, countTokens });
  const scaled: CountTokens = (text) => Math.round(scale * countTokens(text));
  const messages = recorded.messages.map((message, at): Message => {
    const hidden = (recorded.usage.get(at)?.output ?? 0) / scale - countMessageTokens(message, countTokens);
    if (message.role !== "assistant" || hidden < 1) return message;
    return { ...message, content: contentText(message.content) + reasoning(hidden, countTokens) };
  });

  const pairs = calls.slice(1).map((call, at) => ({ call, before: calls[at]! }));
  const isWarm = ({ call, before }: (typeof pairs)[number]) =>
    call.cachedTokens >= WARM * before.promptTokens;
  const pauseOf = ({ call, before }: (typeof pairs)[number]) => call.timeMs - before.timeMs;
  const lastsAnHour = pairs.some((pair) => isWarm(pair) && pauseOf(pair) > given.ttlMs);
  const profile = lastsAnHour ? profileForTtl(given, HOUR_MS) : given;
  const cachedAt = new Map([[first.at, first.cachedTokens]]);
  for (const pair of pairs) {
    const { call, before } = pair;
    const isCompacted = call.promptTokens < COMPACTED * before.promptTokens &&
      pauseOf(pair) <= profile.ttlMs;
    if (!isWarm(pair) && !isCompacted) cachedAt.set(call.at, call.cachedTokens);
  }

  const price = outputPrice(profile);
  const cost = calls.reduce((sum, { at, promptTokens, cachedTokens, writtenTokens }) => {
    const reported = recorded.usage.get(at)?.output ?? 0;
    const outputTokens = Math.max(reported, countMessageTokens(messages[at]!, scaled));
    const usage = { promptTokens, cachedTokens, cacheWriteTokens: writtenTokens };
    return sum + promptCost(profile, usage) + price * outputTokens;
  }, 0);
  const windowTokens = windowFor(profile);
  const isLarge = calls.some(({ promptTokens }) => promptTokens > windowTokens);
  return {
    cost,
    recording: { ...recorded, messages, fixedPrefixTokens: prefixTokens, calls: replayed(recorded, calls) },
    options: {
      profile,
      windowTokens: isLarge ? LARGE_WINDOW : windowTokens,
      countTokens: scaled,
      cachedAtMost: (call) => cachedAt.get(calls[call]?.at ?? -1) ?? Infinity,
    },
  };
}

export function reportsCacheReads({ usage }: Pick<Recording, "usage">): boolean {
  return usage.values().some(({ cache_read }) => cache_read !== undefined);
}

function billedCalls({ calls, usage }: Recording): BilledCall[] {
  return calls.flatMap(({ messages: at, timeMs }) => {
    const { input = 0, cache_read: cachedTokens, cache_write: writtenTokens = 0 } = usage.get(at) ?? {};
    if (cachedTokens === undefined) return [];
    const promptTokens = input + cachedTokens + writtenTokens;
    return promptTokens > 0 ? [{ at, timeMs, promptTokens, cachedTokens, writtenTokens }] : [];
  });
}

/** Returns the calls of the recording that were billed. */
function replayed({ calls }: Recording, billed: readonly BilledCall[]): Recording["calls"] {
  const places = new Set(billed.map(({ at }) => at));
  return calls.filter(({ messages }) => places.has(messages));
}

const FITS = 8;
const FIRST_SCALE = 1.3;

/**
 * Fits reported prompt sizes before the first compaction: fixed prefix + scale × counted tokens. A reply counts at
 * least its reported output, because later prompts contain its reasoning.
 */
function fitTokens(
  { messages, usage, compacted }: Recording,
  { calls, countTokens }: { readonly calls: readonly BilledCall[]; readonly countTokens: CountTokens },
): { readonly scale: number; readonly prefixTokens: number } {
  const counted = messages.map((message) => countMessageTokens(message, countTokens));
  const fitted = calls.filter(({ at }) => at < (compacted[0] ?? Infinity));
  let [scale, prefix] = [FIRST_SCALE, 0];
  for (let round = 0; round < FITS; round++) {
    const sizes = [0];
    for (const [at, tokens] of counted.entries()) {
      sizes.push(sizes[at]! + Math.max(tokens, (usage.get(at)?.output ?? 0) / scale));
    }
    const mean = (of: (call: BilledCall) => number) =>
      fitted.reduce((sum, call) => sum + of(call), 0) / fitted.length;
    const [x, y] = [mean(({ at }) => sizes[at]!), mean(({ promptTokens }) => promptTokens)];
    const variance = mean(({ at }) => (sizes[at]! - x) ** 2);
    const covariance = mean(({ at, promptTokens }) => (sizes[at]! - x) * (promptTokens - y));
    if (variance > 0 && covariance > 0) scale = covariance / variance;
    prefix = y - scale * x;
  }
  return { scale, prefixTokens: Math.max(1, Math.round(prefix)) };
}

function reasoning(tokens: number, countTokens: CountTokens): string {
  const word = " a";
  return word.repeat(Math.round(tokens * 1_000 / countTokens(word.repeat(1_000))));
}
