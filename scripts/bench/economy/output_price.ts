import type { Profile } from "@tare/planner";

/** What an output token costs, in the price of one uncached input token, by profile. */
const OUTPUT_PRICES: Readonly<Record<string, number>> = {
  openai: 8,
  "openai-5.6": 8,
  gemini: 8,
  deepseek: 1.5,
};

/** Anthropic's, and that of most others. */
const DEFAULT_PRICE = 5;

/** What an output token costs at a provider, in the price of one uncached input token. */
export function outputPrice({ name }: Pick<Profile, "name">): number {
  return OUTPUT_PRICES[name] ?? DEFAULT_PRICE;
}
