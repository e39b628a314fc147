import { dirname, resolve } from "@std/path";
import type { OptionReader } from "@tare/cli/parts";
import { type Price, profileNamed } from "@tare/planner";
import { isPrice, type ProfileFile, PROFILES, readProfileFile } from "@tare/planner/internal";
import { ALLOW_EVERYTHING, type ApprovalRule } from "@tare/server";
import { AGENT_MODEL, faultOfRules } from "@tare/server/internal";
import { type McpServerEntry, readMcpServers } from "@tare/tools/mcp";

export interface Option<T> {
  /** Environment variable. TARE_X_Y has the flag --x-y unless it is a secret. */
  readonly variable: string;
  /** Flag of a variable without our prefix. Default: none. */
  readonly flag?: string;
  readonly fallback?: string;
  readonly help: string;
  /** Whether `--help` lists it. Default: only `--help all` does. */
  readonly isCommon?: boolean;
  /** Whether the value is omitted from messages. Default: false. */
  readonly isSecret?: boolean;
  /** Returns the value, or `undefined` if it is invalid. Paths are relative to `folder`. */
  readonly read: (text: string, folder?: string) => T | undefined;
  readonly right?: string;
}

export const KEY: OptionReader<string> = {
  read: (key) => /^[\x21-\x7e]+$/.test(key) ? key : undefined,
  right: "printable ASCII without spaces and line breaks",
};

export function anyText(value: string): string {
  return value;
}

export function oneOf<const Word extends string>(...words: readonly Word[]): OptionReader<Word> {
  return { read: (text) => words.find((word) => word === text), right: `one of ${words.join(", ")}` };
}

export function list(isRight: (member: string) => boolean): (text: string) => readonly string[] | undefined {
  return (text) => {
    const members = text.split(",").map((member) => member.trim()).filter(Boolean);
    return members.every(isRight) ? members : undefined;
  };
}

export function onOrOff(): OptionReader<boolean> {
  return {
    read: (word) => word === "on" || (word === "off" ? false : undefined),
    right: "on or off",
  };
}

export function fraction(): OptionReader<number> {
  return {
    read: (text) => /^\d*\.?\d+$/.test(text) && Number(text) <= 1 ? Number(text) : undefined,
    right: "a number from 0 to 1, such as 0.1",
  };
}

/** Reads the daily budget in dollars of keep-alive for idle conversations. Zero means running turns only. */
export function keepAlive(): OptionReader<number | "off"> {
  return {
    read: (text) => {
      const [, digits] = /^\$(\d*\.?\d+)\/day$/.exec(text.trim()) ?? [];
      if (digits !== undefined) return Number(digits) > 0 ? Number(digits) : undefined;
      return text === "off" ? text : text === "turns" ? 0 : undefined;
    },
    right: "off, turns, or dollars a day such as $0.50/day",
  };
}

export function price(): OptionReader<Price> {
  return {
    read: (text) => {
      const pairs = text.split(",").map((pair) => pair.split("=").map((part) => part.trim()));
      const isRead = pairs.every(([, digits = "", ...more]) =>
        /^\d*\.?\d+$/.test(digits) && more.length === 0
      );
      // A name must not appear twice.
      if (!isRead || new Set(pairs.map(([name]) => name)).size < pairs.length) return undefined;
      const prices = Object.fromEntries(pairs.map(([name, digits]) => [name, Number(digits)]));
      return isPrice(prices) ? prices : undefined;
    },
    right:
      "dollars per million tokens such as input=3,output=15,cacheRead=0.3, optionally with cacheWrite=3.75 and " +
      "cacheWriteHour=6",
  };
}

/** Resolves a path from a folder. Default: unchanged. */
export function fromFolder(path: string, folder: string | undefined): string {
  return folder === undefined ? path : resolve(folder, path);
}

export function isAddress(url: string): boolean {
  return /^https?:$/.test(URL.parse(url)?.protocol ?? "");
}

export function address(example: string): OptionReader<string> {
  return { read: (url) => isAddress(url) ? url : undefined, right: `an address such as ${example}` };
}

/** Reads a model name; that of the server's own agent is invalid. */
export const providersModel: OptionReader<string> = {
  read: (name) => name === AGENT_MODEL ? undefined : name,
  right: `the provider's name of the agent's model (${AGENT_MODEL} is the agent itself)`,
};

interface FromFile {
  readonly path: string;
}

/** Reads a file of MCP servers. @throws {RangeError} if it is invalid. */
export function readMcpFile(
  file: string,
  from: string | undefined,
): FromFile & { readonly servers: readonly McpServerEntry[] } | undefined {
  const path = resolve(fromFolder(file, from));
  return readFile(path, (text) => ({ path, servers: readMcpServers(text, dirname(path)) }));
}

const MAX_INSTRUCTIONS = 64 * 1024;

/** Reads a file of instructions. @throws {RangeError} if it is too long. */
export function readInstructions(
  file: string,
  from: string | undefined,
): FromFile & { readonly text: string } | undefined {
  const path = fromFolder(file, from);
  return readFile(path, (text) => {
    if (text.length <= MAX_INSTRUCTIONS) return { path, text: text.trim() };
    throw new RangeError(
      `Cannot read instructions: they have ${text.length} characters, and the limit is ${MAX_INSTRUCTIONS}`,
    );
  });
}

/** Reads a profile's name or file. @throws {RangeError} if the file is invalid. */
export function readProfile(
  name: string,
  from: string | undefined,
): Partial<FromFile> & ProfileFile | undefined {
  if (Object.hasOwn(PROFILES, name)) return { profile: profileNamed(name) };
  const path = fromFolder(name, from);
  return readFile(path, (text) => ({ path, ...readProfileFile(text) }));
}

/** Reads a file of approval rules, or `allow`. @throws {RangeError} if it is invalid. */
export function readApprovals(
  file: string,
  from: string | undefined,
): Partial<FromFile> & { readonly rules: readonly ApprovalRule[] } | undefined {
  if (file === "allow") return { rules: ALLOW_EVERYTHING };
  const path = fromFolder(file, from);
  return readFile(path, (text) => {
    let fault: string | undefined;
    try {
      const rules = JSON.parse(text);
      fault = faultOfRules(rules);
      if (fault === undefined) return { path, rules };
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      fault = error.message;
    }
    throw new RangeError(`Cannot read approval rules: ${fault}.`);
  });
}

/** Returns `undefined` if there is no file. @throws {RangeError} if it is invalid. */
function readFile<T>(path: string, read: (text: string) => T): T | undefined {
  try {
    return read(Deno.readTextFileSync(path));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.IsADirectory) return undefined;
    if (!(error instanceof RangeError)) throw error;
    throw new RangeError(`${error.message.replace(/\.$/, "")}. File: ${path}.`, { cause: error });
  }
}
