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
  "claude-fable-5-1": price(10, 50, { cacheRead: 0.25, cacheWrite: 12.5, cacheWriteHour: 20 }),
  "claude-fable-5": price(10, 50, { cacheRead: 1, cacheWrite: 12.5, cacheWriteHour: 20 }),
  "claude-opus-5-5": price(4, 20, { cacheRead: 0.2, cacheWrite: 5, cacheWriteHour: 8 }),
  "claude-opus-5": price(5, 25, { cacheRead: 0.5, cacheWrite: 6.25, cacheWriteHour: 10 }),
  "claude-opus-4-8": price(5, 25, { cacheRead: 0.5, cacheWrite: 6.25, cacheWriteHour: 10 }),
  "claude-opus-4-7": price(5, 25, { cacheRead: 0.5, cacheWrite: 6.25, cacheWriteHour: 10 }),
  "claude-opus-4-6": price(5, 25, { cacheRead: 0.5, cacheWrite: 6.25, cacheWriteHour: 10 }),
  "claude-opus-4-5": price(5, 25, { cacheRead: 0.5, cacheWrite: 6.25, cacheWriteHour: 10 }),
  "claude-opus-4-1": price(15, 75, { cacheRead: 1.5, cacheWrite: 18.75, cacheWriteHour: 30 }),
  "claude-opus-4": price(15, 75, { cacheRead: 1.5, cacheWrite: 18.75, cacheWriteHour: 30 }),
  "claude-sonnet-5-5": price(2, 10, { cacheRead: 0.1, cacheWrite: 2.5, cacheWriteHour: 4 }),
  "claude-sonnet-5": price(2, 10, { cacheRead: 0.2, cacheWrite: 2.5, cacheWriteHour: 4 }),
  "claude-sonnet-4-6": price(3, 15, { cacheRead: 0.3, cacheWrite: 3.75, cacheWriteHour: 6 }),
  "claude-sonnet-4-5": price(3, 15, { cacheRead: 0.3, cacheWrite: 3.75, cacheWriteHour: 6 }),
  "claude-sonnet-4": price(3, 15, { cacheRead: 0.3, cacheWrite: 3.75, cacheWriteHour: 6 }),
  "claude-3-7-sonnet": price(3, 15, { cacheRead: 0.3, cacheWrite: 3.75, cacheWriteHour: 6 }),
  "claude-haiku-5-5": price(0.1, 0.5, {
    cacheRead: 0.01,
    cacheWrite: 0.125,
    cacheWriteHour: 0.2,
    long: ABOVE_100K,
  }),
  "claude-haiku-4-5": price(1, 5, { cacheRead: 0.1, cacheWrite: 1.25, cacheWriteHour: 2 }),
  "claude-3-5-haiku": price(0.8, 4, { cacheRead: 0.08, cacheWrite: 1, cacheWriteHour: 1.6 }),
  "gpt-6.1-sol": price(2, 10, { cacheRead: 0.1, cacheWrite: 2.5, long: ABOVE_272K }),
  "gpt-6-astra": price(10, 50, { cacheRead: 1, cacheWrite: 12.5, long: ABOVE_272K }),
  "gpt-6-sol": price(2, 10, { cacheRead: 0.2, cacheWrite: 2.5, long: ABOVE_272K }),
  "gpt-6-luna": price(0.1, 0.5, { cacheRead: 0.01, cacheWrite: 0.125, long: ABOVE_272K }),
  "gpt-5.6-sol": price(4, 20, { cacheRead: 0.4, cacheWrite: 5, long: ABOVE_272K }),
  "gpt-5.6-terra": price(2, 12, { cacheRead: 0.2, cacheWrite: 2.5, long: ABOVE_272K }),
  "gpt-5.6-luna": price(0.2, 1.2, { cacheRead: 0.02, cacheWrite: 0.25, long: ABOVE_272K }),
  "gpt-5.5": price(5, 30, { cacheRead: 0.5, long: ABOVE_272K }),
  "gpt-5.5-pro": { input: 30, output: 180, long: ABOVE_272K },
  "gpt-5.4": price(2.5, 15, { cacheRead: 0.25, long: ABOVE_272K }),
  "gpt-5.4-mini": price(0.75, 4.5, { cacheRead: 0.075 }),
  "gpt-5.4-nano": price(0.2, 1.25, { cacheRead: 0.02 }),
  "gpt-5.3-codex": price(1.75, 14, { cacheRead: 0.175 }),
  "gpt-5.2": price(1.75, 14, { cacheRead: 0.175 }),
  "gpt-5.1": price(1.25, 10, { cacheRead: 0.125 }),
  "gpt-5": price(1.25, 10, { cacheRead: 0.125 }),
  "gpt-5-mini": price(0.25, 2, { cacheRead: 0.025 }),
  "gpt-5-nano": price(0.05, 0.4, { cacheRead: 0.005 }),
  "gpt-4.1": price(2, 8, { cacheRead: 0.5 }),
  "gpt-4.1-mini": price(0.4, 1.6, { cacheRead: 0.1 }),
  "gpt-4.1-nano": price(0.1, 0.4, { cacheRead: 0.025 }),
  "gpt-4o": price(2.5, 10, { cacheRead: 1.25 }),
  "gpt-4o-mini": price(0.15, 0.6, { cacheRead: 0.075 }),
  "o3": price(2, 8, { cacheRead: 0.5 }),
  "o4-mini": price(1.1, 4.4, { cacheRead: 0.275 }),
  "deepseek-flash": price(0.3, 1.2, { cacheRead: 0.006 }),
  "deepseek-v4-flash": price(0.3, 1.2, { cacheRead: 0.006 }),
  "deepseek-v4-pro": price(1.32, 3.96, { cacheRead: 0.044 }),
  "gemini-3-pro": price(2, 12, { cacheRead: 0.2, long: ABOVE_200K }),
  "gemini-3.1-pro": price(2, 12, { cacheRead: 0.2, long: ABOVE_200K }),
  "gemini-3-flash": price(0.5, 3, { cacheRead: 0.05 }),
  "gemini-2.5-pro": price(1.25, 10, { cacheRead: 0.125, long: ABOVE_200K }),
  "gemini-2.5-flash": price(0.3, 2.5, { cacheRead: 0.03 }),
  "gemini-2.5-flash-lite": price(0.1, 0.4, { cacheRead: 0.01 }),
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

function price(input: number, output: number, rest: Omit<Price, "input" | "output">): Price {
  return { input, output, ...rest };
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
