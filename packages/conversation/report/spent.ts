import type { Cost, Usage } from "@tare/messages";
import { callCost, callCostParts, type LedgerEntry, type Rates } from "@tare/planner";

/** A cost by what it was paid for. All together are the whole. */
export interface SpentOn {
  /** What of the prompt was read from the cache. */
  readonly cacheRead: number;
  /** What stood in no request before, the first call's prompt included; where the provider does that it was written to the cache. */
  readonly new: number;
  /** What had been cached, and was no longer: the call came after the cache's time. */
  readonly expired: number;
  /** What moved because Tare rewrote the prompt, and summaries that were made for that. */
  readonly ownRewrite: number;
  /** What tools or a model brought that weren't those of the request before. */
  readonly changed: number;
  /** What the provider's cache didn't have though its time wasn't over. */
  readonly lost: number;
  /** The reply. */
  readonly output: number;
}

/** What a cost is paid for. */
export const SPENT_ON: readonly (keyof SpentOn)[] = [
  "cacheRead",
  "new",
  "expired",
  "ownRewrite",
  "changed",
  "lost",
  "output",
];

const NOTHING: SpentOn = {
  cacheRead: 0,
  new: 0,
  expired: 0,
  ownRewrite: 0,
  changed: 0,
  lost: 0,
  output: 0,
};

/** Which part the tokens of a cause belong to. */
const PARTS: Readonly<Record<LedgerEntry["uncached"][number]["cause"], keyof SpentOn>> = {
  first_call: "new",
  new: "new",
  own_rewrite: "ownRewrite",
  tools_changed: "changed",
  model_changed: "changed",
  expired: "expired",
  provider_lost: "lost",
};

/**
 * What a call was paid for: its prompt in token units, prompt and reply in US dollars, null where its price isn't known.
 * Within what the cache didn't serve each token is taken for as dear as any other; of what no cause is known is new.
 */
export function cutCost(
  usage: Usage,
  { cost, rates, uncached = [], summary }: {
    /** What the call cost when it was made. */
    readonly cost: Cost;
    readonly rates: Rates;
    /** Why tokens weren't read from the cache. Default: nobody knows. */
    readonly uncached?: LedgerEntry["uncached"] | undefined;
    /** What a summary cost that was made for it. */
    readonly summary?: Cost | undefined;
  },
): { readonly tokenUnits: SpentOn; readonly usd: SpentOn | null } {
  const rated = callCost(usage, rates);
  const parts = callCostParts(usage, rates);
  const tokens = usage.promptTokens - usage.cachedTokens;
  const cut = (unit: "tokenUnits" | "usd", whole: number, more = 0): SpentOn => {
    // Prices may have changed since; without any, the prompt's price tells.
    const by = rated[unit] ? unit : "tokenUnits";
    const times = rated[by] ? whole / rated[by] : 0;
    const [cached = 0, missed = 0, output = 0] = [parts.cached, parts.uncached, parts.output]
      .map((part) => times * (part[by] ?? 0));
    const sum: Record<keyof SpentOn, number> = { ...NOTHING, cacheRead: cached, output, ownRewrite: more };
    let left = missed;
    for (const { cause, tokens: its } of uncached) {
      const share = tokens > 0 ? missed * its / tokens : 0;
      sum[PARTS[cause]] += share;
      left -= share;
    }
    sum.new += left;
    return sum;
  };
  return {
    tokenUnits: cut("tokenUnits", cost.tokenUnits, summary?.tokenUnits),
    usd: cost.usd === undefined ? null : cut("usd", cost.usd, summary?.usd),
  };
}
