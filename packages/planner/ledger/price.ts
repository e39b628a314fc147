import { checkGiven, type Cost, type Usage } from "@tare/messages";
import type { Price } from "../prices.ts";
import type { Profile } from "../providers.ts";

/**
 * What a prompt costs, in the price of one uncached input token: what the cache serves at the profile's reading
 * price, the rest at its writing price; where the provider tells what it wrote for how long, that at the price of each,
 * and what was neither served nor written at 1.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { profileNamed, promptCost } from "@tare/planner";
 *
 * assertEquals(promptCost(profileNamed("anthropic-5m"), { promptTokens: 1000, cachedTokens: 800 }), 330);
 * ```
 */
export function promptCost(
  { write, read, writes }: Pick<Profile, "write" | "read" | "writes">,
  usage: Pick<Usage, "promptTokens" | "cachedTokens" | "cacheWriteTokens" | "hourWriteTokens">,
): number {
  const { promptTokens, cachedTokens, cacheWriteTokens = 0, hourWriteTokens } = usage;
  const uncached = promptTokens - cachedTokens;
  if (!writes || hourWriteTokens === undefined) return cachedTokens * read + uncached * write;
  const shortTokens = cacheWriteTokens - hourWriteTokens;
  return cachedTokens * read + (uncached - cacheWriteTokens) + shortTokens * writes.short +
    hourWriteTokens * writes.hour;
}

/**
 * What a call costs: its prompt in token units, and in US dollars prompt and reply, if the model's price is known. Where
 * the provider doesn't tell what it wrote to its cache, all that wasn't served is taken for written.
 *
 * @example
 * ```ts
 * import { assertAlmostEquals, assertEquals } from "@std/assert";
 * import { callCost, profileNamed } from "@tare/planner";
 *
 * const usage = { promptTokens: 1_000_000, cachedTokens: 800_000, outputTokens: 10_000 };
 * const { tokenUnits, usd } = callCost(usage, {
 *   profile: profileNamed("openai"),
 *   price: { input: 2.5, output: 15, cacheRead: 0.25 },
 * });
 * assertEquals(tokenUnits, 280_000);
 * assertAlmostEquals(usd!, 0.5 + 0.2 + 0.15);
 * ```
 */
export function callCost(usage: Usage, rates: Rates): Cost {
  checkGiven("callCost()", { usage, rates }, {
    usage: { promptTokens: "number", cachedTokens: "number", outputTokens: "number" },
    rates: { profile: { write: "number", read: "number" } },
  });
  const { profile, price } = rates;
  const tokenUnits = promptCost(profile, usage);
  return price ? { tokenUnits, usd: usdOf(usage, price) } : { tokenUnits };
}

/** What a model's calls cost. */
export interface Rates {
  readonly profile: Pick<Profile, "write" | "read" | "writes">;
  /** Default: not known. */
  readonly price?: Price | undefined;
}

function usdOf(usage: Usage, price: Price): number {
  const { promptTokens, cachedTokens, outputTokens, hourWriteTokens = 0 } = usage;
  const { input, output, cacheRead = input, cacheWrite = input, cacheWriteHour = cacheWrite, long } = price;
  const uncached = promptTokens - cachedTokens;
  const { cacheWriteTokens: written = uncached } = usage;
  const prompt = cachedTokens * cacheRead + (uncached - written) * input +
    (written - hourWriteTokens) * cacheWrite + hourWriteTokens * cacheWriteHour;
  const times = long && promptTokens > long.aboveTokens ? long : { input: 1, output: 1 };
  return (prompt * times.input + outputTokens * output * times.output) / 1e6;
}
