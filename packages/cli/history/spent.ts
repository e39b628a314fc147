import type { Usage } from "@tare/messages";
import { chooseProfile, listPrice, type Price, type Profile } from "@tare/planner";
import { callCostParts } from "@tare/planner/internal/parts";
import type { LoggedCall } from "./log.ts";

/** Parts of a cost; `broken`: resent although the cache had not expired. */
export const PAID_FOR = ["cacheRead", "new", "expired", "broken", "output", "serverSide"] as const;

export type PaidFor = typeof PAID_FOR[number];

/** Totals of calls, in dollars at list prices; calls of models without a price are counted. */
export interface HistoryTotals {
  calls: number;
  unpricedCalls: number;
  usd: number;
  promptTokens: number;
  cachedTokens: number;
  cacheWriteTokens: number;
  outputTokens: number;
  readonly usdFor: Record<PaidFor, number>;
  readonly tokensFor: Record<PaidFor, number>;
}

export function emptyTotals(): HistoryTotals {
  const none = () => ({ cacheRead: 0, new: 0, expired: 0, broken: 0, output: 0, serverSide: 0 });
  const tokens = { promptTokens: 0, cachedTokens: 0, cacheWriteTokens: 0, outputTokens: 0 };
  return { calls: 0, unpricedCalls: 0, usd: 0, ...tokens, usdFor: none(), tokensFor: none() };
}

export interface SpentCall {
  readonly call: LoggedCall;
  readonly usdFor: Readonly<Record<PaidFor, number>> | undefined;
  readonly tokensFor: Readonly<Record<PaidFor, number>>;
}

export function addCall(totals: HistoryTotals, { call: { usage }, usdFor, tokensFor }: SpentCall): void {
  totals.calls++;
  totals.promptTokens += usage.promptTokens;
  totals.cachedTokens += usage.cachedTokens;
  totals.cacheWriteTokens += usage.cacheWriteTokens ?? 0;
  totals.outputTokens += usage.outputTokens;
  if (!usdFor) totals.unpricedCalls++;
  for (const part of PAID_FOR) {
    const usd = usdFor?.[part] ?? 0;
    totals.usd += usd;
    totals.usdFor[part] += usd;
    totals.tokensFor[part] += tokensFor[part];
  }
}

/** A prompt shorter than this share of the preceding one doesn't continue it. */
const SAME_PROMPT_SHARE = 0.9;

/** Fewest tokens that count as a miss: the end of a prompt may not be cached. */
const LEAST_MISSING = 1024;

const HOUR_MS = 3_600_000;

export class SpentCalls {
  #before: LoggedCall | undefined;
  #isCached = false;

  next(call: LoggedCall): SpentCall {
    const { usage, model } = call;
    const { profile, price } = modelRates(model);
    const missing = this.#missing(call, profile);
    const uncached = usage.promptTokens - usage.cachedTokens;
    const parts = callCostParts(usage, { profile, price });
    const share = (tokens: number) => uncached === 0 ? 0 : tokens / uncached * (parts.uncached.usd ?? 0);
    const tokensFor = {
      cacheRead: usage.cachedTokens,
      new: uncached - missing.expired - missing.broken,
      ...missing,
      output: usage.outputTokens,
      serverSide: (usage.innerCalls ?? []).reduce(
        (sum, { promptTokens, outputTokens }) => sum + promptTokens + outputTokens,
        0,
      ),
    };
    const usdFor = parts.cached.usd === undefined ? undefined : {
      cacheRead: parts.cached.usd,
      new: share(tokensFor.new) + (uncached === 0 ? parts.uncached.usd ?? 0 : 0),
      expired: share(missing.expired),
      broken: share(missing.broken),
      output: parts.output.usd ?? 0,
      serverSide: parts.serverSide.usd ?? 0,
    };
    this.#before = call;
    this.#isCached ||= usage.cachedTokens + (usage.cacheWriteTokens ?? 0) > 0;
    return { call, usdFor, tokensFor };
  }

  #missing({ atMs, usage }: LoggedCall, profile: Profile): Readonly<Record<"expired" | "broken", number>> {
    const before = this.#before;
    const none = { expired: 0, broken: 0 };
    if (!before || !this.#isCached) return none;
    const { promptTokens: held } = before.usage;
    if (usage.promptTokens < SAME_PROMPT_SHARE * held) return none;
    const missing = Math.min(held, usage.promptTokens) - usage.cachedTokens;
    if (missing < LEAST_MISSING) return none;
    const ttlMs = lastsAnHour(before.usage) ? HOUR_MS : profile.ttlMs;
    return atMs - before.atMs > ttlMs ? { ...none, expired: missing } : { ...none, broken: missing };
  }
}

export function lastsAnHour({ cacheWriteTokens = 0, hourWriteTokens = 0 }: Usage): boolean {
  return hourWriteTokens > cacheWriteTokens / 2;
}

const rates = new Map<string, { readonly profile: Profile; readonly price: Price | undefined }>();

export function modelRates(model: string): { readonly profile: Profile; readonly price: Price | undefined } {
  const known = rates.get(model) ?? { profile: chooseProfile({ model }), price: listPrice(model) };
  rates.set(model, known);
  return known;
}

/**
 * Returns a logged usage. `prompt` is the whole prompt; `uncached` excludes cache reads and writes. Zero writes are
 * reported only if the model's provider charges for them.
 */
export function loggedUsage(
  { prompt, uncached, read, write, output, model }:
    & { readonly [N in "prompt" | "uncached" | "read" | "write"]?: unknown }
    & { readonly output: number; readonly model?: string },
): Usage {
  const tokens = { cached: tokensOf(read), written: tokensOf(write) };
  const hasWrites = tokens.written > 0 || model !== undefined && modelRates(model).profile.writes;
  return {
    promptTokens: prompt === undefined ? Number(uncached) + tokens.cached + tokens.written : tokensOf(prompt),
    cachedTokens: tokens.cached,
    ...(hasWrites && { cacheWriteTokens: tokens.written }),
    outputTokens: output,
  };
}

export function tokensOf(value: unknown): number {
  return typeof value === "number" && value > 0 ? value : 0;
}
