// deno-lint-ignore-file no-console
import { join } from "@std/path";
import { parseArgs } from "node:util";
import { ModelError } from "@tare/loop";
import { anthropicModel } from "@tare/loop/anthropic";
import { openaiModel } from "@tare/loop/openai";
import type { AssistantMessage, CountTokens, Model, ModelRequest, Usage } from "@tare/messages";
import { loadTokenizer } from "@tare/tiktoken";
import { chooseProfile, type Profile, profileNamed } from "@tare/planner";
import { DEFAULT_PROVIDER, MESSAGES_PROVIDER } from "@tare/planner/internal";
import { type SimulatedModel, simulator } from "@tare/simulator";
import { readSettings } from "../../packages/app/settings/settings.ts";
import { type Clock, simulatedClock, systemClock } from "./clock.ts";
import { money, OutOfBudget, paidModel, type Prices } from "./paid_model.ts";
import { Results } from "./results.ts";

const VARIABLES = ["OPENAI_API_KEY", "OPENAI_BASE_URL", "TARE_MODEL", "TARE_PROFILE"];

const MESSAGES_VARIABLES = ["ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "TARE_MODEL", "TARE_PROFILE"];

const FOLDER = ".tare/measured";

/** In USD per million tokens. */
const SIMULATED_PRICES: Prices = { inUsd: 1, outUsd: 5, budgetUsd: Infinity };

export interface Surroundings {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly folder: string;
  readonly clock: Clock;
  readonly log: (line: string) => void;
}

export const FLAGS = {
  name: { type: "string" },
  "price-in": { type: "string" },
  "price-out": { type: "string" },
  budget: { type: "string" },
} as const;

export type FlagValues = { readonly [Flag in keyof typeof FLAGS]?: string | undefined };

export interface BenchPlan {
  readonly task: string;
  readonly values: FlagValues;
  /** Settings as plain data; only results with equal settings are continued. */
  readonly settings: Readonly<Record<string, unknown>>;
  readonly simulated: SimulatedModel;
  /** Whether the Messages API is used, with the shortest replies. Default: false. */
  readonly inMessages?: boolean;
}

export interface Bench<R> {
  readonly model: Model;
  readonly asking: (body: Readonly<Record<string, unknown>>) => Model;
  readonly modelName: string;
  readonly isSimulated: boolean;
  readonly profile: Profile;
  readonly prices: Prices;
  readonly clock: Clock;
  readonly countTokens: CountTokens;
  readonly results: Results<R>;
  readonly progress: (line: string) => void;
  readonly write: (ending: string, text: string) => string;
}

/**
 * Opens the environment's provider, otherwise the simulator, and the results so far.
 *
 * @throws {RangeError} if a setting is invalid, or a real provider has no price or budget.
 */
export async function openBench<R>(
  { task, values, settings, simulated, inMessages = false }: BenchPlan,
  surroundings: Surroundings,
): Promise<Bench<R>> {
  const { environment, folder, log } = surroundings;
  const variables = inMessages ? MESSAGES_VARIABLES : VARIABLES;
  const named = Object.fromEntries(variables.map((name) => [name, environment[name]]));
  const { model, profile: chosen, ...rest } = readSettings([], named);
  const apiKey = inMessages ? rest.messagesKey : rest.apiKey;
  const baseUrl = inMessages ? named.ANTHROPIC_BASE_URL || undefined : rest.baseUrl;
  const isSimulated = model === undefined;
  if (isSimulated && (apiKey ?? baseUrl) !== undefined) {
    throw new RangeError(
      "Cannot start: TARE_MODEL is not set. Set it to the provider's name of a model.",
    );
  }
  const modelName = model ?? "simulated";
  const prices = readPrices(values, isSimulated ? SIMULATED_PRICES : undefined);
  const provider = inMessages ? MESSAGES_PROVIDER : DEFAULT_PROVIDER;
  const baseURL = baseUrl ?? provider.baseURL;
  const profile = chosen?.profile ??
    (isSimulated ? profileNamed(provider.profile) : chooseProfile({ model, baseUrl: baseURL }));
  const name = readName(values.name ?? `${task}-${modelName}`.replaceAll(/[^\w.-]+/g, "-"));
  const results = new Results<R>(join(folder, `${name}.json`), {
    circumstances: {
      task,
      model: modelName,
      provider: isSimulated ? "simulator" : baseURL,
      profile: profile.name,
      settings,
    },
    seed: surroundings.clock.now(),
  });
  const tokenizer = await loadTokenizer({ model: modelName });
  const clock = isSimulated ? simulatedClock(surroundings.clock.now()) : surroundings.clock;
  const simulatedFetch = isSimulated
    ? simulator({ model: simulated, tokenizer, profile, now: clock.now }).fetch
    : undefined;
  const ask = (extraBody: Readonly<Record<string, unknown>>) => {
    const options = {
      ...(simulatedFetch
        ? {
          model: "simulated",
          baseURL: inMessages ? "http://simulator" : "http://simulator/v1",
          fetch: (input: RequestInfo | URL, init?: RequestInit) => simulatedFetch(new Request(input, init)),
        }
        : { model: modelName, baseURL, ...(apiKey !== undefined && { apiKey }) }),
      extraBody,
    };
    const one = inMessages
      ? anthropicModel({ ...options, maxTokens: 1, cacheTtlMs: 0 })
      : openaiModel(options);
    return paidModel(one, { prices, profile, account: results, countTokens: tokenizer.count });
  };
  if (isSimulated) {
    log(`No provider is configured: the simulator replies. Set ${variables[0]} and TARE_MODEL to use one.`);
  }
  return {
    model: ask({}),
    asking: ask,
    modelName,
    isSimulated,
    profile,
    prices,
    clock,
    countTokens: tokenizer.count,
    results,
    progress(line) {
      const budget = prices.budgetUsd < Infinity ? ` of ${money(prices.budgetUsd)}` : "";
      log(`${line} (${money(results.spentUsd)}${budget})`);
    },
    write(ending, text) {
      const path = join(folder, name + ending);
      Deno.writeTextFileSync(path, text);
      return path;
    },
  };
}

/**
 * Reads prices and budget.
 *
 * @throws {RangeError} if one is invalid, or missing without a default.
 */
export function readPrices(values: FlagValues, defaults?: Prices): Prices {
  const read = (flag: keyof FlagValues, fallback: number | undefined) => {
    const value = values[flag];
    if (value === undefined && fallback !== undefined) return fallback;
    const number = Number(value);
    if (value !== undefined && value !== "" && number >= 0 && number < Infinity) return number;
    throw new RangeError(
      `Cannot start: --${flag} is ${JSON.stringify(value) ?? "not set"}, but it must be a number ` +
        "from 0. With a provider this costs money: --price-in and --price-out are USD per million tokens, as the " +
        "provider lists them, and --budget is the limit in USD.",
    );
  };
  return {
    inUsd: read("price-in", defaults?.inUsd),
    outUsd: read("price-out", defaults?.outUsd),
    budgetUsd: read("budget", defaults?.budgetUsd),
  };
}

function readName(name: string): string {
  if (/^\w[\w.-]*$/.test(name)) return name;
  throw new RangeError(
    `Cannot start: --name is ${
      JSON.stringify(name)
    }, but it must be a file name of letters, digits, dots and dashes.`,
  );
}

/**
 * Reads a whole number from a flag.
 *
 * @throws {RangeError} with flag, value and valid values.
 */
export function readCount(flag: string, text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw new RangeError(
    `Cannot start: ${flag} is ${JSON.stringify(text)}, but it must be a whole number from 1.`,
  );
}

export interface Reply {
  readonly message: AssistantMessage;
  readonly usage: Usage;
}

/**
 * Calls a model once.
 *
 * @throws {RangeError} if the provider reports no usage.
 */
export async function ask(model: Model, request: Pick<ModelRequest, "messages" | "tools">): Promise<Reply> {
  for await (const event of model({ ...request, signal: new AbortController().signal })) {
    if (event.type !== "completed") continue;
    const { message, usage } = event;
    if (usage) return { message, usage };
  }
  throw new RangeError("Cannot measure this provider: it reports no usage with its replies.");
}

export async function withinBudget(work: () => Promise<void>): Promise<string | undefined> {
  try {
    await work();
    return undefined;
  } catch (error) {
    if (error instanceof OutOfBudget) return error.message;
    throw error;
  }
}

export async function runBench(
  experiment: (args: readonly string[], surroundings: Surroundings) => Promise<Report>,
): Promise<void> {
  try {
    const environment = Object.fromEntries(
      [...VARIABLES, ...MESSAGES_VARIABLES].map((name) => [name, Deno.env.get(name)]),
    );
    const surroundings = { environment, folder: FOLDER, clock: systemClock, log: console.error };
    const { text, stopped } = await experiment(Deno.args, surroundings);
    console.log(text);
    if (stopped === undefined) return;
    console.error(stopped);
  } catch (error) {
    // Expected errors are messages; anything else is a bug with a stack trace.
    if (!(error instanceof RangeError || error instanceof ModelError)) throw error;
    console.error(error.message);
  }
  Deno.exitCode = 1;
}

export interface Report {
  readonly text: string;
  readonly stopped?: string | undefined;
}

/**
 * Parses flags.
 *
 * @throws {RangeError} for unknown flags.
 */
export function parseFlags<Options extends NonNullable<Parameters<typeof parseArgs>[0]>["options"]>(
  args: readonly string[],
  options: Options,
) {
  try {
    return parseArgs({ args: [...args], options: { ...FLAGS, ...options }, strict: true }).values;
  } catch (error) {
    throw new RangeError(`Cannot start: ${(error as Error).message}`, { cause: error });
  }
}
