import { checkGiven } from "@tare/messages";

/** What a model costs, in US dollars for a million tokens. */
export interface Price {
  /** Prompt tokens that are neither served from a cache nor written to one. */
  readonly input: number;
  readonly output: number;
  /** Prompt tokens that the cache serves. Default: as `input`. */
  readonly cacheRead?: number;
  /** Prompt tokens that are written to the cache for as short as the provider caches. Default: as `input`. */
  readonly cacheWrite?: number;
  /** Prompt tokens that are written to the cache for an hour. Default: as `cacheWrite`. */
  readonly cacheWriteHour?: number;
  /** What prompts of more than `aboveTokens` cost, the whole call: so many times the rest. Default: the same. */
  readonly long?: { readonly aboveTokens: number; readonly input: number; readonly output: number };
}

/** When {@linkcode PRICES} were looked up. */
export const PRICES_DATE = "2026-11-21";

const ABOVE_272K = { aboveTokens: 272_000, input: 2, output: 1.5 } as const;
const ABOVE_200K = { aboveTokens: 200_000, input: 2, output: 1.5 } as const;
const ABOVE_100K = { aboveTokens: 100_000, input: 5, output: 5 } as const;

/**
 * List prices of the standard tier, without taxes, discounts and surcharges, as of {@linkcode PRICES_DATE}. They change:
 * compare them with your provider's own list before you rely on them.
 * https://platform.claude.com/docs/en/about-claude/pricing
 * https://developers.openai.com/api/docs/pricing
 * https://api-docs.deepseek.com/quick_start/pricing (at its peak hours)
 * https://ai.google.dev/gemini-api/docs/pricing
 */
export const PRICES: Readonly<Record<string, Price>> = {
  "claude-fable-5-1": claude(10, 50, 0.25),
  "claude-fable-5": claude(10, 50, 1),
  "claude-opus-5-5": claude(4, 20, 0.2),
  "claude-opus-5": claude(5, 25, 0.5),
  "claude-opus-4-8": claude(5, 25, 0.5),
  "claude-opus-4-7": claude(5, 25, 0.5),
  "claude-opus-4-6": claude(5, 25, 0.5),
  "claude-opus-4-5": claude(5, 25, 0.5),
  "claude-opus-4-1": claude(15, 75, 1.5),
  "claude-opus-4": claude(15, 75, 1.5),
  "claude-sonnet-5-5": claude(2, 10, 0.1),
  "claude-sonnet-5": claude(2, 10, 0.2),
  "claude-sonnet-4-6": claude(3, 15, 0.3),
  "claude-sonnet-4-5": claude(3, 15, 0.3),
  "claude-sonnet-4": claude(3, 15, 0.3),
  "claude-3-7-sonnet": claude(3, 15, 0.3),
  "claude-haiku-5-5": claude(0.1, 0.5, 0.01, ABOVE_100K),
  "claude-haiku-4-5": claude(1, 5, 0.1),
  "claude-3-5-haiku": claude(0.8, 4, 0.08),
  "gpt-6.1-sol": newerGpt(2, 10, 0.1),
  "gpt-6-astra": newerGpt(10, 50, 1),
  "gpt-6-sol": newerGpt(2, 10, 0.2),
  "gpt-6-luna": newerGpt(0.1, 0.5, 0.01),
  "gpt-5.6-sol": newerGpt(4, 20, 0.4),
  "gpt-5.6-terra": newerGpt(2, 12, 0.2),
  "gpt-5.6-luna": newerGpt(0.2, 1.2, 0.02),
  "gpt-5.5": price(5, 30, 0.5, { long: ABOVE_272K }),
  "gpt-5.5-pro": { input: 30, output: 180, long: ABOVE_272K },
  "gpt-5.4": price(2.5, 15, 0.25, { long: ABOVE_272K }),
  "gpt-5.4-mini": price(0.75, 4.5, 0.075),
  "gpt-5.4-nano": price(0.2, 1.25, 0.02),
  "gpt-5.3-codex": price(1.75, 14, 0.175),
  "gpt-5.2": price(1.75, 14, 0.175),
  "gpt-5.1": price(1.25, 10, 0.125),
  "gpt-5": price(1.25, 10, 0.125),
  "gpt-5-mini": price(0.25, 2, 0.025),
  "gpt-5-nano": price(0.05, 0.4, 0.005),
  "gpt-4.1": price(2, 8, 0.5),
  "gpt-4.1-mini": price(0.4, 1.6, 0.1),
  "gpt-4.1-nano": price(0.1, 0.4, 0.025),
  "gpt-4o": price(2.5, 10, 1.25),
  "gpt-4o-mini": price(0.15, 0.6, 0.075),
  "o3": price(2, 8, 0.5),
  "o4-mini": price(1.1, 4.4, 0.275),
  "deepseek-flash": price(0.3, 1.2, 0.006),
  "deepseek-v4-flash": price(0.3, 1.2, 0.006),
  "deepseek-v4-pro": price(1.32, 3.96, 0.044),
  "gemini-3-pro": price(2, 12, 0.2, { long: ABOVE_200K }),
  "gemini-3.1-pro": price(2, 12, 0.2, { long: ABOVE_200K }),
  "gemini-3-flash": price(0.5, 3, 0.05),
  "gemini-2.5-pro": price(1.25, 10, 0.125, { long: ABOVE_200K }),
  "gemini-2.5-flash": price(0.3, 2.5, 0.03),
  "gemini-2.5-flash-lite": price(0.1, 0.4, 0.01),
};

/** For the profiles of providers that name a price: the model whose price stands for it in examples. */
export const EXAMPLE_MODELS: Readonly<Record<string, string>> = {
  "anthropic-5m": "claude-sonnet-5",
  "anthropic-1h": "claude-sonnet-5",
  openai: "gpt-5.5",
  "openai-5.6": "gpt-5.6-terra",
  deepseek: "deepseek-v4-pro",
  gemini: "gemini-3.1-pro",
};

/** No provider has a longer name for a model; that of a request may be of any length. */
const LONGEST_NAME = 200;

function price(
  input: number,
  output: number,
  cacheRead: number,
  more?: Pick<Price, "cacheWrite" | "cacheWriteHour" | "long">,
): Price {
  return { input, output, cacheRead, ...more };
}

/** OpenAI's newer models charge 1.25 times the input for what they write. */
function newerGpt(input: number, output: number, cacheRead: number): Price {
  return price(input, output, cacheRead, { cacheWrite: 1.25 * input, long: ABOVE_272K });
}

/** Anthropic's writes cost 1.25 times the input for five minutes, and twice the input for an hour. */
function claude(input: number, output: number, cacheRead: number, long?: Price["long"]): Price {
  const writes = { cacheWrite: 1.25 * input, cacheWriteHour: 2 * input };
  return price(input, output, cacheRead, long ? { ...writes, long } : writes);
}

/** What may stand behind a model's name without making it another model: a date, `latest`, `preview`, a window. */
const SUFFIX = /(?:-\d{8}|-\d{4}-\d{2}-\d{2}|-latest|-preview|@\d{8}|\[1m\])+$/;

/**
 * The list price of a model, whose name may have a vendor in front (`anthropic/…`) and a date behind; nothing of a model
 * that isn't in {@linkcode PRICES}.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { listPrice } from "@tare/planner";
 *
 * assertEquals(listPrice("openai/gpt-5-2025-08-07")?.output, 10);
 * assertEquals(listPrice("gpt-oss:20b"), undefined);
 * ```
 */
export function listPrice(model: string): Price | undefined {
  checkGiven("listPrice()", { model }, { model: "string" });
  if (model.length > LONGEST_NAME) return undefined;
  const name = model.slice(model.lastIndexOf("/") + 1).toLowerCase().replace(SUFFIX, "");
  return Object.hasOwn(PRICES, name) ? PRICES[name] : undefined;
}

const OPTIONAL_FIELDS: readonly string[] = ["cacheRead", "cacheWrite", "cacheWriteHour", "long"];

/** Whether a value that somebody wrote down is a price: no field is missing, unknown, or no number from 0. */
export function isPrice(value: unknown): value is Price {
  const { long, ...prices } = Object(value) as Readonly<Record<string, unknown>>;
  return hasNumbers(prices, ["input", "output"]) &&
    (long === undefined || hasNumbers(long, ["aboveTokens", "input", "output"], []));
}

function hasNumbers(value: unknown, needed: readonly string[], more = OPTIONAL_FIELDS): boolean {
  const fields = Object(value) as Readonly<Record<string, unknown>>;
  return needed.every((name) => name in fields) &&
    Object.entries(fields).every(([name, number]) =>
      (needed.includes(name) || more.includes(name)) && Number.isFinite(number) && Number(number) >= 0
    );
}
