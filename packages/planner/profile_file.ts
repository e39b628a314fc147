import { type Price, type Profile, profileNamed, PROFILES } from "./providers.ts";

/** Requirement on a field, and its check. */
interface Rule {
  readonly right: string;
  readonly holds: (value: unknown) => boolean;
}

const PRICE: Rule = { right: "a number from 0", holds: (value) => isFrom(value, 0) };
const TIME: Rule = { right: "a number of milliseconds from 0", holds: (value) => isFrom(value, 0) };
const TEXT: Rule = {
  right: "a non-empty string",
  holds: (value) => typeof value === "string" && value !== "",
};

const PRICE_WORDS = 'dollars per million tokens, such as {"input": 3, "output": 15, "cacheRead": 0.3}, ' +
  'optionally cacheWrite, cacheWriteHour, "long": {"aboveTokens": 200000, "input": 2, "output": 1.5}, factors ' +
  '"tiers": {"priority": 2} and "regions": {"us": 1.1}, and dollars per use "tools": {"web_search": 0.01}';

const LINE = '{"idleMs": 60000, "probability": 0.9}';

const RULES: Readonly<Record<Exclude<keyof Profile, "cacheLifetime"> | "profile" | "prices", Rule>> = {
  profile: oneOf(Object.keys(PROFILES)),
  name: TEXT,
  minTokens: wholeFrom(0),
  blockTokens: wholeFrom(1),
  ttlMs: TIME,
  write: PRICE,
  writes: {
    right: 'two prices from 0, such as {"short": 1.25, "hour": 2}',
    holds: (value) => {
      const { short, hour } = Object(value) as Readonly<Record<string, unknown>>;
      return isFrom(short, 0) && isFrom(hour, 0);
    },
  },
  read: PRICE,
  price: {
    right: PRICE_WORDS,
    holds: isPrice,
  },
  prices: {
    right: `an object with prices by model name; each ${PRICE_WORDS}`,
    holds: (value) => isObject(value) && Object.values(value).every(isPrice),
  },
  coldAfterMs: TIME,
  dialect: oneOf([...new Set(Object.values(PROFILES).map(({ dialect }) => dialect))].sort()),
  notes: TEXT,
  source: TEXT,
};

const FIELDS = [...Object.keys(RULES), "cacheLifetime"];

/** Content of a profile file. */
export interface ProfileFile {
  /** Absent: the file sets only prices. */
  readonly profile?: Profile;
  /** Prices by model name. Default: none. */
  readonly prices?: Readonly<Record<string, Price>>;
}

/**
 * Parses a profile file: a JSON object with `profile`, the name of a known profile, and any fields of
 * {@linkcode Profile} that replace its own, such as a measured `cacheLifetime`; or with `prices`, or both.
 * @throws {RangeError} naming the field, its value and the requirement.
 */
export function readProfileFile(text: string): ProfileFile {
  const { profile, prices, ...own } = parseObject(text);
  const isForPrices = profile === undefined && prices !== undefined && Object.keys(own).length === 0;
  const fields: Readonly<Record<string, unknown>> = {
    ...(isForPrices ? {} : { profile }),
    ...(prices !== undefined && { prices }),
    ...own,
  };
  for (const [field, value] of Object.entries(fields)) {
    if (!FIELDS.includes(field)) {
      refuse(`unknown field ${JSON.stringify(field)}. Known fields: ${FIELDS.join(", ")}.`);
    }
    if (field !== "cacheLifetime") check(field, value, RULES[field as keyof typeof RULES]);
  }
  if ("cacheLifetime" in own) checkCacheLifetime(own.cacheLifetime);
  return {
    ...(!isForPrices && { profile: { ...profileNamed(String(profile)), ...own as Partial<Profile> } }),
    ...(prices !== undefined && { prices: prices as NonNullable<ProfileFile["prices"]> }),
  };
}

function parseObject(text: string): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    refuse(`invalid JSON (${(error as Error).message}).`, error);
  }
  if (!isObject(value)) refuse("it is not a JSON object.");
  return value as Readonly<Record<string, unknown>>;
}

function checkCacheLifetime(lines: unknown): void {
  const list = { right: `a list of entries such as ${LINE}`, holds: Array.isArray };
  check("cacheLifetime", lines, list);
  let before: Profile["cacheLifetime"][number] = { idleMs: 0, probability: 1 };
  for (const [at, line] of (lines as Profile["cacheLifetime"]).entries()) {
    const name = `cacheLifetime[${at}]`;
    check(name, line, {
      right: `an entry such as ${LINE}`,
      holds: (value) => typeof value === "object" && value !== null,
    });
    check(`${name}.idleMs`, line.idleMs, {
      right: `a number above ${before.idleMs}`,
      holds: (value) => isFrom(value, before.idleMs) && value !== before.idleMs,
    });
    const most = before.probability;
    check(`${name}.probability`, line.probability, {
      right: `a number from 0 to ${most}${most < 1 ? ": a lost prefix doesn't return" : ""}`,
      holds: (value) => isFrom(value, 0) && Number(value) <= most,
    });
    before = line;
  }
}

function check(field: string, value: unknown, { right, holds }: Rule): void {
  if (holds(value)) return;
  refuse(`${field} is ${value === undefined ? "missing" : JSON.stringify(value)}. It must be ${right}.`);
}

function refuse(why: string, cause?: unknown): never {
  throw new RangeError(`Cannot use the profile: ${why}`, { cause });
}

function isFrom(value: unknown, least: number): boolean {
  return typeof value === "number" && value >= least;
}

function wholeFrom(least: number): Rule {
  return {
    right: `a whole number from ${least}`,
    holds: (value) => isFrom(value, least) && Number.isInteger(value),
  };
}

function oneOf(names: readonly string[]): Rule {
  return { right: `one of ${names.join(", ")}`, holds: (value) => names.some((name) => name === value) };
}

const PRICE_FIELDS: readonly string[] = ["cacheRead", "cacheWrite", "cacheWriteHour", "long"];

/** Returns whether a value is a price: no field is missing, unknown or negative. */
export function isPrice(value: unknown): value is Price {
  const { long, tiers, regions, tools, ...prices } = Object(value) as Readonly<Record<string, unknown>>;
  const { except, ...factors } = Object(long) as Readonly<Record<string, unknown>>;
  return hasNumbers(prices, ["input", "output"]) &&
    (long === undefined || hasNumbers(factors, ["aboveTokens", "input", "output"], [])) &&
    (except === undefined || Array.isArray(except) && except.every((tier) => typeof tier === "string")) &&
    [tiers, regions, tools].every((named) =>
      named === undefined || isObject(named) && Object.values(named).every(isAmount)
    );
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isAmount(value: unknown): boolean {
  return Number.isFinite(value) && Number(value) >= 0;
}

function hasNumbers(value: unknown, needed: readonly string[], more = PRICE_FIELDS): boolean {
  const fields = Object(value) as Readonly<Record<string, unknown>>;
  return needed.every((name) => name in fields) &&
    Object.entries(fields).every(([name, number]) =>
      (needed.includes(name) || more.includes(name)) && isAmount(number)
    );
}
