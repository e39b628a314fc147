import type { Cost, InnerCall, Usage } from "@tare/messages";
import { listPrice, type Price, type Profile } from "../providers.ts";
import { innerUnits, promptCost } from "./ledger.ts";

/** Profile and price of a model. */
export interface Rates {
  readonly profile: Pick<Profile, "write" | "read" | "writes">;
  readonly price?: Price | undefined;
  /** Prices of the models that a call uses inside. Default: list prices. */
  readonly priceOf?: ((model: string) => Price | undefined) | undefined;
}

/**
 * Returns the cost of a call: its prompts in cost units, and all that is billed in US dollars if it was
 * reported, or if each part has a price. Without reported writes all uncached tokens count as written.
 *
 * @example
 * ```ts
 * import { assertAlmostEquals, assertEquals } from "@std/assert";
 * import { profileNamed } from "@tare/planner";
 * import { callCost } from "@tare/planner/internal/parts";
 *
 * const usage = { promptTokens: 1_000_000, cachedTokens: 800_000, outputTokens: 10_000 };
 * const { costUnits, usd } = callCost(usage, {
 *   profile: profileNamed("openai"),
 *   price: { input: 2.5, output: 15, cacheRead: 0.25 },
 * });
 * assertEquals(costUnits, 280_000);
 * assertAlmostEquals(usd!, 0.5 + 0.2 + 0.15);
 * ```
 */
export function callCost(usage: Usage, rates: Rates): Cost {
  const { profile } = rates;
  const costUnits = promptCost(profile, usage) + innerUnits(profile, usage);
  const usd = usage.reportedUsd ?? ratedUsd(usage, rates);
  return { costUnits, ...(usd !== undefined && { usd }) };
}

/** Cost of a call by cached prompt, uncached prompt, reply, and the provider's own tools and inner calls. */
export type CostParts = Readonly<Record<"cached" | "uncached" | "output" | "serverSide", Cost>>;

/**
 * Returns {@linkcode callCost} by part; only prompts have cost units. A reported cost is split like the
 * prices.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { profileNamed } from "@tare/planner";
 * import { callCostParts } from "@tare/planner/internal/parts";
 *
 * const usage = { promptTokens: 1_000_000, cachedTokens: 800_000, outputTokens: 10_000 };
 * const { cached, uncached, output } = callCostParts(usage, {
 *   profile: profileNamed("openai"),
 *   price: { input: 2.5, output: 15, cacheRead: 0.25 },
 * });
 * assertEquals([cached.costUnits, uncached.costUnits, output.costUnits], [80_000, 200_000, 0]);
 * assertEquals([cached.usd, output.usd], [0.2, 0.15]);
 * ```
 */
export function callCostParts(usage: Usage, rates: Rates): CostParts {
  const { profile } = rates;
  const cached = usage.cachedTokens * profile.read;
  const units = {
    cached,
    uncached: promptCost(profile, usage) - cached,
    output: 0,
    serverSide: innerUnits(profile, usage),
  };
  const { usd } = callCost(usage, rates);
  const parts = ratedParts(usage, rates);
  const whole = parts && totalOf(parts);
  // Without prices, the prompt's cost decides.
  const shares = whole ? parts! : units;
  const times = usd === undefined ? 0 : usd / (totalOf(shares) || 1);
  const part = (name: keyof CostParts): Cost => ({
    costUnits: units[name],
    ...(usd !== undefined && { usd: times * shares[name] }),
  });
  return {
    cached: part("cached"),
    uncached: part("uncached"),
    output: part("output"),
    serverSide: part("serverSide"),
  };
}

/**
 * Returns the highest possible cost of a call: nothing cached, and all of it written for an hour.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { profileNamed } from "@tare/planner";
 * import { mostOfCall } from "@tare/planner/internal";
 *
 * const call = { promptTokens: 1_000_000, outputTokens: 100_000 };
 * const rates = { profile: profileNamed("openai"), price: { input: 2, output: 10, cacheRead: 0.2 } };
 * assertEquals(mostOfCall(call, rates).usd, 3);
 * ```
 */
export function mostOfCall(
  usage: Pick<Usage, "promptTokens" | "outputTokens">,
  rates: Rates,
): Cost {
  const { promptTokens, outputTokens } = usage;
  const written = { cacheWriteTokens: promptTokens, hourWriteTokens: promptTokens };
  const plain = callCost({ promptTokens, cachedTokens: 0, outputTokens }, rates);
  const hourWriteCost = callCost({ promptTokens, cachedTokens: 0, outputTokens, ...written }, rates);
  const usd = plain.usd === undefined ? undefined : Math.max(plain.usd, hourWriteCost.usd ?? 0);
  return {
    costUnits: Math.max(plain.costUnits, hourWriteCost.costUnits),
    ...(usd !== undefined && { usd }),
  };
}

/**
 * Returns the dollars that count toward a budget: the cost of a call, or at least the list price of its
 * tokens, so that an unpriced tier or tool isn't free. 0 without a price.
 */
export function budgetUsd(usage: Usage, rates: Rates): number {
  return callCost(usage, rates).usd ?? tokensUsd(usage, rates) ?? 0;
}

/**
 * Returns the dollars of a call that was not made, next to one that was: by the same prices. If that one's
 * cost was reported, the difference is scaled to it; a saving never above the prices' own.
 */
export function comparedUsd(
  usages: readonly Usage[],
  { actual, rates, costUnits, actualUnits }: {
    readonly actual: Usage;
    readonly rates: Rates;
    readonly costUnits: number;
    readonly actualUnits: number;
  },
): number | undefined {
  const { reportedUsd } = actual;
  if (reportedUsd === undefined) return sumOf(usages.map((usage) => ratedUsd(usage, rates)));
  const rated = ratedUsd(actual, rates);
  const priced = rated === undefined ? tokensUsd : ratedUsd;
  const [paid, other] = [
    rated ?? tokensUsd(actual, rates),
    sumOf(usages.map((usage) => priced(usage, rates))),
  ];
  if (!paid || other === undefined) {
    return actualUnits > 0 ? reportedUsd * Math.min(1, costUnits / actualUnits) : reportedUsd;
  }
  const times = reportedUsd / paid;
  return Math.max(0, reportedUsd + (other - paid) * (other > paid ? Math.min(1, times) : times));
}

function sumOf(amounts: readonly (number | undefined)[]): number | undefined {
  return amounts.reduce((sum, usd) => sum === undefined || usd === undefined ? undefined : sum + usd, 0);
}

type Parts = Readonly<Record<keyof CostParts, number>>;

function totalOf({ cached, uncached, output, serverSide }: Parts): number {
  return cached + uncached + output + serverSide;
}

function ratedUsd(usage: Usage, rates: Rates): number | undefined {
  const parts = ratedParts(usage, rates);
  return parts && totalOf(parts);
}

function tokensUsd(
  { tier: _, region: __, serverTools: ___, innerCalls: ____, ...tokens }: Usage,
  rates: Rates,
) {
  return ratedUsd(tokens, rates);
}

/** Returns dollars by price; `undefined` if the price of any part is unknown. */
function ratedParts(usage: Usage, rates: Rates): Parts | undefined {
  const { model, serverTools = {}, innerCalls = [] } = usage;
  const priceOf = rates.priceOf ?? listPrice;
  const price = model === undefined ? rates.price : priceOf(model);
  const own = price && tokenParts(usage, price);
  if (!own) return undefined;
  let serverSide = 0;
  for (const [tool, uses] of Object.entries(serverTools)) {
    const each = named(price.tools, tool);
    if (each === undefined) return undefined;
    serverSide += uses * each;
  }
  for (const call of innerCalls) {
    const parts = innerParts(call, { usage, price, priceOf });
    if (!parts) return undefined;
    serverSide += totalOf({ ...parts, serverSide: 0 });
  }
  return { ...own, serverSide };
}

type Needed = Pick<
  Usage,
  "promptTokens" | "cachedTokens" | "cacheWriteTokens" | "hourWriteTokens" | "outputTokens"
>;

function innerParts(
  { type, model, ...tokens }: InnerCall,
  { usage: { tier, region }, price, priceOf }: {
    readonly usage: Usage;
    readonly price: Price;
    readonly priceOf: (model: string) => Price | undefined;
  },
): ReturnType<typeof tokenParts> {
  const inherited = { ...(tier !== undefined && { tier }), ...(region !== undefined && { region }) };
  // A compaction is the call's own model's.
  if (model === undefined) {
    return type === "compaction" ? tokenParts({ ...tokens, ...inherited }, price) : undefined;
  }
  // Whether another model runs in the call's tier isn't reported.
  const other = tier === undefined ? priceOf(model) : undefined;
  return other && tokenParts({ ...tokens, ...inherited }, other);
}

function tokenParts(
  usage: Needed & Pick<Usage, "tier" | "region" | "firstRead">,
  price: Price,
): Omit<Parts, "serverSide"> | undefined {
  const { promptTokens, cachedTokens, outputTokens, hourWriteTokens = 0, tier, region, firstRead } = usage;
  const { input, output, cacheRead = input, cacheWrite = input, cacheWriteHour = cacheWrite, long } = price;
  const isLong = long !== undefined && (firstRead?.promptTokens ?? promptTokens) > long.aboveTokens;
  const hasTier = tier === undefined || !isLong || !long.except?.includes(tier);
  const factor = tier === undefined ? 1 : hasTier ? named(price.tiers, tier) : undefined;
  const regional = region === undefined ? 1 : named(price.regions, region);
  if (factor === undefined || regional === undefined) return undefined;
  const times = factor * regional;
  const [inTimes, outTimes] = isLong ? [times * long.input, times * long.output] : [times, times];
  const uncached = promptTokens - cachedTokens;
  const { cacheWriteTokens = uncached } = usage;
  const written = (cacheWriteTokens - hourWriteTokens) * cacheWrite + hourWriteTokens * cacheWriteHour;
  return {
    cached: cachedTokens * cacheRead * inTimes / 1e6,
    uncached: ((uncached - cacheWriteTokens) * input + written) * inTimes / 1e6,
    output: outputTokens * output * outTimes / 1e6,
  };
}

function named(amounts: Readonly<Record<string, number>> = {}, name: string): number | undefined {
  return Object.hasOwn(amounts, name) ? amounts[name] : undefined;
}
