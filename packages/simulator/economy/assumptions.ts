import { type Profile, profileNamed } from "@tare/planner";

/** In cost units per output token. */
const OUTPUT_PRICES: Readonly<Record<string, number>> = {
  openai: 8,
  "openai-24h": 8,
  "openai-5.6": 8,
  gemini: 8,
  deepseek: 1.5,
};

/** Price of Anthropic and most others. */
const DEFAULT_PRICE = 5;

export function outputPrice({ name }: Pick<Profile, "name">): number {
  return OUTPUT_PRICES[name] ?? DEFAULT_PRICE;
}

/** Assumed context windows in tokens; that of `local` exceeds every recorded session. */
const WINDOWS: Readonly<Record<string, number>> = {
  openai: 272_000,
  "openai-24h": 272_000,
  "openai-5.6": 272_000,
  deepseek: 128_000,
  gemini: 1_000_000,
  local: 1_000_000,
};
const DEFAULT_WINDOW = 200_000;

export function windowFor({ name }: Pick<Profile, "name">): number {
  return WINDOWS[name] ?? DEFAULT_WINDOW;
}

export const HOUR_PROFILE: Profile = profileNamed("anthropic-1h");
