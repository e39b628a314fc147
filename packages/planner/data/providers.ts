import type { Usage } from "@tare/messages";
import type { Price } from "./prices.ts";

/**
 * The cache rules and prices of a provider. Prices are relative to one uncached input token. Data, not law: what
 * a session observes in its usage outranks it.
 */
export interface Profile {
  /** What `TARE_PROFILE` and {@linkcode profileNamed} call it. */
  readonly name: string;
  /** Smallest prefix that is cached, in tokens; infinite where nothing is. */
  readonly minTokens: number;
  /** A cached prefix is rounded down to whole blocks of so many tokens. */
  readonly blockTokens: number;
  /** How long a prefix lives after its last use, in milliseconds. */
  readonly ttlMs: number;
  /** Price of a prompt token that is not served from the cache, writing it to the cache included. */
  readonly write: number;
  /** Prices of writing for as short as the provider caches and for an hour, where it tells them apart. */
  readonly writes?: { readonly short: number; readonly hour: number };
  /** Price of a prompt token that is served from the cache. */
  readonly read: number;
  /** What its models cost in money, where that is of one's own making. Default: their list price. */
  readonly price?: Price;
  /** Idle time after which a resumed session certainly is cold, in milliseconds. */
  readonly coldAfterMs: number;
  /** What is known of {@linkcode Profile.ttlMs}, by growing idle time; after the last line the prefix is gone. */
  readonly warmth: readonly {
    /** Longest idle time that this line speaks of, in milliseconds. */
    readonly idleMs: number;
    /** Probability, from 0 to 1, that a prefix last used that long ago is still cached. */
    readonly probability: number;
  }[];
  /** How the provider reports its cache (a `UsageDialect` of `@tare/wire`). */
  readonly dialect: "openai" | "deepseek" | "anthropic";
  /** What the figures leave out. */
  readonly notes: string;
  /** Where the figures are from. */
  readonly source: string;
}

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

const ANTHROPIC = {
  dialect: "anthropic",
  minTokens: 1024,
  blockTokens: 1,
  writes: { short: 1.25, hour: 2 },
  read: 0.1,
  source: "https://docs.claude.com/en/docs/build-with-claude/prompt-caching",
  notes:
    "The smallest cached prompt is 512 to 4,096 tokens, by model; at most 4 breakpoints, each looking back 20 blocks.",
} as const;

const OPENAI_SOURCE = "https://platform.openai.com/docs/guides/prompt-caching";

/** The cache rules and the address that count for who names neither. */
export const DEFAULT_PROVIDER = { profile: "openai", baseURL: "https://api.openai.com/v1" } as const;

/** The cache rules of a server on one's own machine, which has no price. */
export const LOCAL_PROFILE = "local";

/**
 * Where requests in the Messages format go, for who names no other address; the cache rules that count for who names none;
 * and the names of the models that are asked there, if there is another provider too.
 */
export const MESSAGES_PROVIDER: {
  readonly baseURL: string;
  readonly profile: string;
  readonly models: RegExp;
} = { baseURL: "https://api.anthropic.com", profile: "anthropic-5m", models: /^claude/i };

/** The providers that Tare knows, by name. Facts as of autumn 2026. */
export const PROFILES: Readonly<Record<string, Profile>> = {
  "anthropic-5m": {
    ...ANTHROPIC,
    name: "anthropic-5m",
    ttlMs: 5 * MINUTE,
    write: 1.25,
    coldAfterMs: 2 * HOUR,
    // Of 17,523 recorded calls, some of which asked for the hour: a session soon shows which it is.
    warmth: [
      { idleMs: MINUTE, probability: 0.994 },
      { idleMs: 5 * MINUTE, probability: 0.913 },
      { idleMs: 10 * MINUTE, probability: 0.516 },
      { idleMs: 30 * MINUTE, probability: 0.457 },
      { idleMs: HOUR, probability: 0.404 },
      { idleMs: 2 * HOUR, probability: 0.045 },
    ],
  },
  "anthropic-1h": {
    ...ANTHROPIC,
    name: "anthropic-1h",
    ttlMs: HOUR,
    write: 2,
    coldAfterMs: 2 * HOUR,
    warmth: [
      { idleMs: MINUTE, probability: 0.994 },
      { idleMs: 5 * MINUTE, probability: 0.95 },
      { idleMs: HOUR, probability: 0.9 },
      { idleMs: 2 * HOUR, probability: 0.05 },
    ],
  },
  openai: {
    name: "openai",
    dialect: "openai",
    minTokens: 1024,
    blockTokens: 128,
    ttlMs: 10 * MINUTE,
    write: 1,
    read: 0.1,
    coldAfterMs: 24 * HOUR,
    warmth: [
      { idleMs: MINUTE, probability: 0.95 },
      { idleMs: 5 * MINUTE, probability: 0.9 },
      { idleMs: 10 * MINUTE, probability: 0.7 },
      { idleMs: HOUR, probability: 0.2 },
      { idleMs: 24 * HOUR, probability: 0.02 },
    ],
    source: OPENAI_SOURCE,
    notes:
      "Models to GPT-5.5. Idle prefixes go after 5 to 10 minutes, at most 1 hour; prompt_cache_retention can ask for 24 hours. Older models read at 0.25 to 0.5.",
  },
  "openai-5.6": {
    name: "openai-5.6",
    dialect: "openai",
    minTokens: 1024,
    blockTokens: 128,
    ttlMs: 30 * MINUTE,
    write: 1.25,
    read: 0.1,
    coldAfterMs: 24 * HOUR,
    warmth: [
      { idleMs: MINUTE, probability: 0.99 },
      { idleMs: 30 * MINUTE, probability: 0.97 },
      { idleMs: HOUR, probability: 0.5 },
      { idleMs: 24 * HOUR, probability: 0.05 },
    ],
    source: OPENAI_SOURCE,
    notes: "Models from GPT-5.6. Prefixes live at least 30 minutes.",
  },
  deepseek: {
    name: "deepseek",
    dialect: "deepseek",
    minTokens: 64,
    blockTokens: 64,
    ttlMs: 24 * HOUR,
    write: 1,
    read: 0.025,
    coldAfterMs: 7 * 24 * HOUR,
    warmth: [
      { idleMs: HOUR, probability: 0.99 },
      { idleMs: 24 * HOUR, probability: 0.9 },
      { idleMs: 72 * HOUR, probability: 0.5 },
      { idleMs: 7 * 24 * HOUR, probability: 0.1 },
    ],
    source: "https://api-docs.deepseek.com/guides/kv_cache",
    notes: "Reads cost 1/30 to 1/50. A prefix three days old was seen served at 99.2 %.",
  },
  gemini: {
    name: "gemini",
    dialect: "openai",
    minTokens: 2048,
    blockTokens: 1,
    ttlMs: 5 * MINUTE,
    write: 1,
    read: 0.1,
    coldAfterMs: 24 * HOUR,
    warmth: [
      { idleMs: MINUTE, probability: 0.9 },
      { idleMs: 5 * MINUTE, probability: 0.7 },
      { idleMs: HOUR, probability: 0.2 },
      { idleMs: 24 * HOUR, probability: 0.02 },
    ],
    source: "https://ai.google.dev/gemini-api/docs/caching",
    notes: "Implicit caching: best effort; the smallest cached prompt is 1,024 to 4,096 tokens, by model.",
  },
  [LOCAL_PROFILE]: {
    name: LOCAL_PROFILE,
    dialect: "openai",
    minTokens: 16,
    blockTokens: 16,
    ttlMs: 24 * HOUR,
    write: 1,
    read: 0,
    coldAfterMs: 24 * HOUR,
    warmth: [
      { idleMs: HOUR, probability: 0.99 },
      { idleMs: 24 * HOUR, probability: 0.99 },
    ],
    source: "https://docs.vllm.ai/en/latest/design/prefix_caching.html",
    notes: "llama.cpp, vLLM, Ollama. A prefix lives while memory lasts; the price is prefill time.",
  },
  none: {
    name: "none",
    dialect: "openai",
    minTokens: Infinity,
    blockTokens: 1,
    ttlMs: 0,
    write: 1,
    read: 1,
    coldAfterMs: 24 * HOUR,
    warmth: [],
    source: "–",
    notes: "No prefix cache, or none that is known of.",
  },
};

/**
 * The profile of this name.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { profileNamed } from "@tare/planner";
 *
 * assertEquals(profileNamed("deepseek").blockTokens, 64);
 * ```
 *
 * @throws {RangeError} if there is none; the message lists those that exist.
 */
export function profileNamed(name: string): Profile {
  const profile = Object.hasOwn(PROFILES, name) ? PROFILES[name] : undefined;
  if (profile) return profile;
  throw new RangeError(
    `Cannot use profile ${JSON.stringify(name)}: it is none of ${Object.keys(PROFILES).join(", ")}`,
  );
}

/**
 * Whose a profile is, as OpenTelemetry's conventions for generative AI name providers; the profile's own name where they
 * have none.
 */
export function providerOf({ name }: Pick<Profile, "name">): string {
  return name === "gemini" ? "gcp.gemini" : /^(anthropic|deepseek|openai)(?=-|$)/.exec(name)?.[0] ?? name;
}

/**
 * A profile for prompts that are asked to be cached for so long, in milliseconds since the last use: no cache for zero.
 * The same profile if its provider isn't asked such a thing.
 */
export function profileForTtl(profile: Profile, ttlMs: number): Profile {
  if (!profile.writes) return profile;
  if (ttlMs === 0) return profileNamed("none");
  const others = Object.values(PROFILES);
  return others.find((other) => other.dialect === profile.dialect && other.ttlMs === ttlMs) ?? profile;
}

/** The profile that counts now, of one that may change. */
export function currentProfile(profile: Profile | (() => Profile)): Profile {
  return typeof profile === "function" ? profile() : profile;
}

/**
 * Chooses a profile: by its name, otherwise by what the server says of itself, otherwise by the model's name, otherwise
 * by the provider's address, otherwise `none`. The model comes before the address because gateways and proxies pass many
 * vendors' models on.
 *
 * @throws {RangeError} if `name` names no profile.
 */
export function chooseProfile({ name, server, baseUrl, model }: {
  /** Name of a profile; outranks the others. */
  readonly name?: string;
  /** Name of the profile that the server's own list of models points to ({@linkcode profileOfModelList}). */
  readonly server?: string | undefined;
  /** Base URL of the provider. */
  readonly baseUrl?: string;
  /** Name of the model, with or without a vendor in front (`anthropic/claude-…`). */
  readonly model?: string;
}): Profile {
  if (name) return profileNamed(name);
  return profileNamed(server ?? profileOfModel(model ?? "") ?? profileOfAddress(baseUrl ?? "") ?? "none");
}

/** What servers on one's own machine call themselves: llama.cpp, vLLM, SGLang, Ollama and LM Studio. */
const LOCAL_OWNERS: readonly unknown[] = ["llamacpp", "vllm", "sglang", "library", "organization_owner"];

/**
 * The name of the profile that a server's list of models (`GET /models` behind its base URL) points to: `local` if each
 * model is one's own. Absent of any other list.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { profileOfModelList } from "@tare/planner";
 *
 * assertEquals(profileOfModelList({ data: [{ id: "qwen3", owned_by: "llamacpp" }] }), "local");
 * ```
 */
export function profileOfModelList(list: unknown): string | undefined {
  const { data } = Object(list) as { readonly data?: unknown };
  if (!Array.isArray(data) || data.length === 0) return undefined;
  const isLocal = data.every((model) => LOCAL_OWNERS.includes((Object(model) as JsonModel).owned_by));
  return isLocal ? LOCAL_PROFILE : undefined;
}

/** A model in a list, as far as it is looked at. */
interface JsonModel {
  readonly owned_by?: unknown;
}

function profileOfModel(model: string): string | undefined {
  if (/claude/i.test(model)) return "anthropic-5m";
  if (/deepseek/i.test(model)) return "deepseek";
  if (/gemini/i.test(model)) return "gemini";
  if (/\.gguf$/i.test(model)) return "local";
  const gpt = /(?:^|\/)gpt-(\d+)(?:\.(\d+))?/i.exec(model);
  if (gpt) return openAiGeneration(Number(gpt[1]), Number(gpt[2] ?? 0));
  return /(?:^|\/)(?:chatgpt|codex|o\d)/i.test(model) ? "openai" : undefined;
}

function openAiGeneration(major: number, minor: number): string | undefined {
  // `gpt-oss` and the like have no number; GPT-3.5 and GPT-4 came before the cache.
  if (major < 4) return "none";
  return major > 5 || (major === 5 && minor >= 6) ? "openai-5.6" : "openai";
}

function profileOfAddress(baseUrl: string): string | undefined {
  if (!URL.canParse(baseUrl)) return undefined;
  const { hostname, port } = new URL(baseUrl);
  if (/(^|\.)anthropic\.com$/.test(hostname)) return "anthropic-5m";
  if (/(^|\.)openai\.com$/.test(hostname)) return "openai";
  if (/(^|\.)deepseek\.com$/.test(hostname)) return "deepseek";
  if (/(^|\.)googleapis\.com$/.test(hostname)) return "gemini";
  // The ports of Ollama and LM Studio. A loopback address alone says little: proxies stand there too.
  return port === "11434" || port === "1234" ? "local" : undefined;
}

/**
 * The name of the profile that a usage points to: by how long what it wrote stays, where it tells that (the end of a
 * prompt stays for the shortest time); with cached tokens of a provider that nothing is known of by whether it reports
 * cache writes, otherwise by the blocks in which it caches. Absent if it shows nothing.
 */
export function recogniseProfile(usage: Usage, known: Profile = profileNamed("none")): string | undefined {
  const { cachedTokens, cacheWriteTokens, hourWriteTokens } = usage;
  if (known.name !== "none" && !known.writes) return undefined;
  if (hourWriteTokens !== undefined && cacheWriteTokens) {
    return cacheWriteTokens > hourWriteTokens ? "anthropic-5m" : "anthropic-1h";
  }
  if (known.name !== "none" || cachedTokens === 0) return undefined;
  if (cacheWriteTokens !== undefined) return "anthropic-5m";
  if (cachedTokens % 128 === 0) return "openai";
  if (cachedTokens % 64 === 0) return "deepseek";
  return cachedTokens % 16 === 0 ? "local" : "gemini";
}
