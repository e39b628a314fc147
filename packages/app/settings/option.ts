import { dirname, resolve } from "@std/path";
import type { OptionReader } from "@tare/cli/parts";
import type { openS3Objects } from "@tare/conversation/s3";
import { type McpServerEntry, readMcpServers } from "@tare/tools/mcp";
import { type Price, type Profile, profileNamed, PROFILES } from "@tare/planner";
import type { PolicyOptions } from "@tare/planner/policies";
import { AGENT_MODEL, ALLOW_EVERYTHING, type ApprovalRule, faultOfRules } from "@tare/server";

/** A setting: where it is told, what it means, how it is read. */
export interface Option<T> {
  readonly variable: string;
  /** The same by flag; a key has none, since other users of the machine can read a command line. */
  readonly flag?: string;
  readonly fallback?: string;
  readonly help: string;
  /** True if no message may show the value. */
  readonly isSecret?: boolean;
  /** The only policy that goes by it. Default: each does. */
  readonly policy?: NonNullable<PolicyOptions["policy"]>;
  /** The value, or nothing for a wrong one. Paths count from `folder`, or from the current one. */
  readonly read: (text: string, folder?: string) => T | undefined;
  /** What would be right. */
  readonly right?: string;
}

/** A text as it is. */
export function text(value: string): string {
  return value;
}

/** Reads a list with commas between its members. */
export function list(isRight: (member: string) => boolean): (text: string) => readonly string[] | undefined {
  return (text) => {
    const members = text.split(",").map((member) => member.trim()).filter(Boolean);
    return members.every(isRight) ? members : undefined;
  };
}

/** Reads whether something is done. */
export function onOrOff(): OptionReader<boolean> {
  return {
    read: (word) => word === "on" || (word === "off" ? false : undefined),
    right: "on or off",
  };
}

/** Reads a number from 0 to 1. */
export function fraction(): OptionReader<number> {
  return {
    read: (text) => /^\d*\.?\d+$/.test(text) && Number(text) <= 1 ? Number(text) : undefined,
    right: "a number from 0 to 1, such as 0.1",
  };
}

/** Reads what keeping prompts warm may cost a day beside running turns, in dollars; zero for these alone. */
export function keepWarm(): OptionReader<number | "off"> {
  return {
    read: (text) => {
      const [, digits] = /^\$(\d*\.?\d+)\/day$/.exec(text.trim()) ?? [];
      if (digits !== undefined) return Number(digits) > 0 ? Number(digits) : undefined;
      return text === "off" ? text : text === "turns" ? 0 : undefined;
    },
    right: "off, turns, or dollars a day such as $0.50/day",
  };
}

/** Reads what a model costs. */
export function price(): OptionReader<Price> {
  return {
    read: (text) => {
      const pairs = text.split(",").map((pair) => pair.split("=").map((part) => part.trim()));
      const isRead = pairs.every(([, digits = "", ...more]) =>
        /^\d*\.?\d+$/.test(digits) && more.length === 0
      );
      // A name that appears twice has two prices.
      if (!isRead || new Set(pairs.map(([name]) => name)).size < pairs.length) return undefined;
      const prices = Object.fromEntries(pairs.map(([name, digits]) => [name, Number(digits)]));
      return isPrice(prices) ? prices : undefined;
    },
    right:
      "dollars for a million tokens such as input=3,output=15,cacheRead=0.3, and perhaps cacheWrite=3.75 and " +
      "cacheWriteHour=6",
  };
}

/** A path as it counts from a folder. Default: the current one, and the path stays as it is. */
export function fromFolder(path: string, folder: string | undefined): string {
  return folder === undefined ? path : resolve(folder, path);
}

/** The MCP servers that a file names, and where that stands. @throws {RangeError} naming what is wrong in it. */
export function readMcpFile(
  file: string,
  from: string | undefined,
): { readonly path: string; readonly servers: readonly McpServerEntry[] } | undefined {
  const path = resolve(fromFolder(file, from));
  return readFile(path, (text) => ({ path, servers: readMcpServers(text, dirname(path)) }));
}

/** Most characters of instructions. */
const MOST_INSTRUCTIONS = 64 * 1024;

/** What the agent is told first, and the file that holds it. @throws {RangeError} if it is too long. */
export function readInstructions(
  file: string,
  from: string | undefined,
): { readonly path: string; readonly text: string } | undefined {
  const path = fromFolder(file, from);
  return readFile(path, (text) => {
    if (text.length <= MOST_INSTRUCTIONS) return { path, text: text.trim() };
    throw new RangeError(
      `Cannot read instructions: they have ${text.length} characters, and at most ${MOST_INSTRUCTIONS} may be`,
    );
  });
}

/** An address that can be asked. */
export function address(url: string): string | undefined {
  return /^https?:$/.test(URL.parse(url)?.protocol ?? "") ? url : undefined;
}

/** The profile that a file holds, and where that stands. @throws {RangeError} naming what is wrong in it. */
export function readProfile(
  file: string,
  from: string | undefined,
): { readonly path: string; readonly profile: Profile } | undefined {
  const path = fromFolder(file, from);
  return readFile(path, (text) => ({ path, profile: readProfileFile(text) }));
}

/** What a file holds; nothing if there is none. @throws {RangeError} naming what is wrong in it, and the file. */
function readFile<T>(path: string, read: (text: string) => T): T | undefined {
  try {
    return read(Deno.readTextFileSync(path));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.IsADirectory) return undefined;
    if (!(error instanceof RangeError)) throw error;
    throw new RangeError(`${error.message.replace(/\.$/, "")}. It stands in ${path}.`, { cause: error });
  }
}

/** Rules of what tools may do, and the file that holds them. */
interface ApprovalFile {
  /** Absent where it is no file. */
  readonly path?: string;
  readonly rules: readonly ApprovalRule[];
}

/** The rules that a file holds, or by which everything may run. @throws {RangeError} naming what is wrong in it. */
export function readApprovals(file: string, from: string | undefined): ApprovalFile | undefined {
  if (file === "allow") return { rules: ALLOW_EVERYTHING };
  const path = fromFolder(file, from);
  const wrong = (fault: string) =>
    new RangeError(`Cannot read rules of what tools may do: ${fault}. It stands in ${path}.`);
  let value: unknown;
  try {
    value = JSON.parse(Deno.readTextFileSync(path));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.IsADirectory) return undefined;
    if (!(error instanceof SyntaxError)) throw error;
    throw wrong(error.message);
  }
  const fault = faultOfRules(value);
  if (fault !== undefined) throw wrong(fault);
  return { path, rules: value as readonly ApprovalRule[] };
}

/** The name of a provider's model, which isn't the server's own agent. */
export const providersModel: Pick<Option<string>, "read" | "right"> = {
  read: (name) => name === AGENT_MODEL ? undefined : text(name),
  right: `the provider's name for the model that the agent asks (${AGENT_MODEL} is the agent itself)`,
};

/** Reads the address of a bucket. */
export function bucket(): OptionReader<
  Pick<Parameters<typeof openS3Objects>[0], "bucket" | "endpoint"> & { prefix: string; region?: string }
> {
  return {
    read(text) {
      const url = URL.parse(text);
      if (url?.protocol !== "s3:" || !/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(url.host)) return undefined;
      const { region, endpoint, ...others } = Object.fromEntries(url.searchParams);
      const path = url.pathname.replace(/^\//, "");
      const isRight = /^([\w.-]+\/)*[\w.-]*$/.test(path) && Object.keys(others).length === 0 &&
        url.hash === "" &&
        url.username === "" && /^[a-z0-9-]*$/.test(region ?? "") &&
        (endpoint === undefined || address(endpoint));
      if (!isRight) return undefined;
      return {
        bucket: url.host,
        prefix: path === "" || path.endsWith("/") ? path : `${path}/`,
        ...(region && { region }),
        ...(endpoint !== undefined && { endpoint }),
      };
    },
    right:
      "an address such as s3://bucket/prefix?region=eu-central-1, with &endpoint=https://host if it isn't Amazon's",
  };
}

/** What a field must be, and whether a value is that. */
interface Rule {
  readonly right: string;
  readonly holds: (value: unknown) => boolean;
}

const PRICE: Rule = { right: "a number from 0", holds: (value) => isFrom(value, 0) };
const TIME: Rule = { right: "a number of milliseconds from 0", holds: (value) => isFrom(value, 0) };
const TEXT: Rule = { right: "a text", holds: (value) => typeof value === "string" && value !== "" };

const LINE = '{"idleMs": 60000, "probability": 0.9}';

const RULES: Readonly<Record<Exclude<keyof Profile, "warmth"> | "profile", Rule>> = {
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
    right: 'dollars for a million tokens such as {"input": 3, "output": 15, "cacheRead": 0.3}, and perhaps ' +
      'cacheWrite, cacheWriteHour and "long": {"aboveTokens": 200000, "input": 2, "output": 1.5}',
    holds: isPrice,
  },
  coldAfterMs: TIME,
  dialect: oneOf([...new Set(Object.values(PROFILES).map(({ dialect }) => dialect))].sort()),
  notes: TEXT,
  source: TEXT,
};

const FIELDS = [...Object.keys(RULES), "warmth"];

/**
 * Reads a profile from a file's text: a JSON object with `profile`, the name of a profile that is known, and any of a
 * {@linkcode Profile}'s fields that are to outrank its own, such as a `warmth` that was measured.
 *
 * @throws {RangeError} naming the field, its value and what would be right.
 */
export function readProfileFile(text: string): Profile {
  const { profile, ...own } = parseObject(text);
  const fields: Readonly<Record<string, unknown>> = { profile, ...own };
  for (const [field, value] of Object.entries(fields)) {
    if (!FIELDS.includes(field)) {
      refuse(`it has a field ${JSON.stringify(field)}, but fields are ${FIELDS.join(", ")}`);
    }
    if (field !== "warmth") check(field, value, RULES[field as keyof typeof RULES]);
  }
  if ("warmth" in own) checkWarmth(own.warmth);
  // Each field has been checked.
  return { ...profileNamed(String(profile)), ...own as Partial<Profile> };
}

function parseObject(text: string): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    refuse(`it is no JSON (${(error as Error).message})`, error);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) refuse("it is no JSON object");
  return value as Readonly<Record<string, unknown>>;
}

function checkWarmth(lines: unknown): void {
  const list = { right: `a list of lines such as ${LINE}`, holds: Array.isArray };
  check("warmth", lines, list);
  let before: Profile["warmth"][number] = { idleMs: 0, probability: 1 };
  for (const [at, line] of (lines as Profile["warmth"]).entries()) {
    const name = `warmth[${at}]`;
    check(name, line, {
      right: `a line such as ${LINE}`,
      holds: (value) => typeof value === "object" && value !== null,
    });
    check(`${name}.idleMs`, line.idleMs, {
      right: `a number above ${before.idleMs}`,
      holds: (value) => isFrom(value, before.idleMs) && value !== before.idleMs,
    });
    const most = before.probability;
    check(`${name}.probability`, line.probability, {
      right: `a number from 0 to ${most}${most < 1 ? ": a prefix doesn't come back" : ""}`,
      holds: (value) => isFrom(value, 0) && Number(value) <= most,
    });
    before = line;
  }
}

function check(field: string, value: unknown, { right, holds }: Rule): void {
  if (holds(value)) return;
  refuse(`${field} is ${value === undefined ? "missing" : JSON.stringify(value)}, but it must be ${right}`);
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

/** Whether a value that somebody wrote down is a price: no field is missing, unknown, or no number from 0. */
function isPrice(value: unknown): value is Price {
  const { long, ...prices } = Object(value) as Readonly<Record<string, unknown>>;
  return hasNumbers(prices, ["input", "output"]) &&
    (long === undefined || hasNumbers(long, ["aboveTokens", "input", "output"], []));
}

function hasNumbers(value: unknown, needed: readonly string[], more = PRICE_FIELDS): boolean {
  const fields = Object(value) as Readonly<Record<string, unknown>>;
  return needed.every((name) => name in fields) &&
    Object.entries(fields).every(([name, number]) =>
      (needed.includes(name) || more.includes(name)) && Number.isFinite(number) && Number(number) >= 0
    );
}
