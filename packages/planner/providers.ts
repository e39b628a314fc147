import type { Usage } from "@tare/messages";

/**
 * Cache rules and prices of a provider. Prices are relative to one uncached input token. Observed usage takes
 * precedence.
 */
export interface Profile {
  /** Name for `TARE_PROFILE` and {@linkcode profileNamed}. */
  readonly name: string;
  /** Smallest prefix that is cached, in tokens; infinite without a cache. */
  readonly minTokens: number;
  /** Tokens per block; cached prefixes consist of whole blocks. */
  readonly blockTokens: number;
  /** Cache lifetime after the last use, in milliseconds. */
  readonly ttlMs: number;
  /** Price of an uncached prompt token, including its cache write. */
  readonly write: number;
  /** Write prices for the shortest lifetime and for an hour, if they differ. */
  readonly writes?: {
    readonly short: number;
    readonly hour: number;
  };
  /** Price of a prompt token served from the cache. */
  readonly read: number;
  /** Prices of a self-hosted model in money. Default: the model's list price. */
  readonly price?: Price;
  /** Idle time after which a cache is certainly cold, in milliseconds. */
  readonly coldAfterMs: number;
  /** Cache hit probability over idle time, ascending; after the last entry it is 0. */
  readonly cacheLifetime: readonly {
    /** Longest idle time of this entry, in milliseconds. */
    readonly idleMs: number;
    /** Probability, from 0 to 1, that a prefix last used that long ago is still cached. */
    readonly probability: number;
  }[];
  /** Usage format of the provider. */
  readonly dialect: "openai" | "deepseek" | "anthropic";
  readonly notes?: string;
  readonly source?: string;
}

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

const COMMON = {
  dialect: "openai",
  minTokens: 1024,
  blockTokens: 1,
  ttlMs: 5 * MINUTE,
  write: 1,
  coldAfterMs: 24 * HOUR,
} as const;

function warm(
  ...chances: readonly (readonly [minutes: number, probability: number])[]
): Profile["cacheLifetime"] {
  return chances.map(([minutes, probability]) => ({ idleMs: minutes * MINUTE, probability }));
}

const DAY = 1_440;

/**
 * Best-effort caches without published lifetimes. A short lifetime and the lowest published read price are
 * assumed.
 */
const BEST_EFFORT = { ...COMMON, read: 0.1, cacheLifetime: warm([1, 0.9], [5, 0.7], [60, 0.2], [DAY, 0.02]) };

const ANTHROPIC = {
  ...COMMON,
  dialect: "anthropic",
  writes: { short: 1.25, hour: 2 },
  read: 0.1,
  coldAfterMs: 2 * HOUR,
  // https://docs.claude.com/en/docs/build-with-claude/prompt-caching
  // The smallest cached prompt is 512 to 4,096 tokens, by model; at most 4 breakpoints, each looking back 20
  // blocks. The same on Amazon Bedrock and Vertex AI, where names differ and regional endpoints cost more:
  // https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html
  // https://docs.cloud.google.com/vertex-ai/generative-ai/docs/partner-models/claude/use-claude
} as const;

/** Default profile and base URL. */
export const DEFAULT_PROVIDER = { profile: "openai", baseURL: "https://api.openai.com/v1" } as const;

const LOCAL_PROFILE = "local";

/**
 * Default base URL and profile in the Messages format, and the models requested there if there is another
 * provider too.
 */
export const MESSAGES_PROVIDER: {
  readonly baseURL: string;
  readonly profile: string;
  readonly models: RegExp;
} = { baseURL: "https://api.anthropic.com", profile: "anthropic-5m", models: /^claude/i };

const RULES: Readonly<Record<string, Omit<Profile, "name">>> = {
  "anthropic-5m": {
    ...ANTHROPIC,
    write: 1.25,
    // From 17,523 recorded calls, some with an hour's lifetime.
    cacheLifetime: warm([1, 0.994], [5, 0.913], [10, 0.516], [30, 0.457], [60, 0.404], [120, 0.045]),
  },
  "anthropic-1h": {
    ...ANTHROPIC,
    ttlMs: HOUR,
    write: 2,
    cacheLifetime: warm([1, 0.994], [5, 0.95], [60, 0.9], [120, 0.05]),
  },
  openai: {
    ...COMMON,
    blockTokens: 128,
    ttlMs: 10 * MINUTE,
    read: 0.1,
    cacheLifetime: warm([1, 0.95], [5, 0.9], [10, 0.7], [60, 0.2], [DAY, 0.02]),
    // https://platform.openai.com/docs/guides/prompt-caching
    // Models to GPT-5.5. Idle prefixes expire after 5 to 10 minutes, at most 1 hour; prompt_cache_retention
    // can request 24 hours. Older models read at 0.25 to 0.5. Azure caches likewise, but its deployment names
    // don't identify the model:
    // https://learn.microsoft.com/en-us/azure/ai-foundry/openai/how-to/prompt-caching
  },
  "openai-24h": {
    ...COMMON,
    blockTokens: 128,
    ttlMs: 24 * HOUR,
    read: 0.1,
    coldAfterMs: 48 * HOUR,
    cacheLifetime: warm([1, 0.97], [60, 0.93], [DAY, 0.8], [2 * DAY, 0.02]),
    // https://platform.openai.com/docs/guides/prompt-caching
    // Models to GPT-5.5 with prompt_cache_retention; up to 24 hours.
  },
  "openai-5.6": {
    ...COMMON,
    blockTokens: 128,
    ttlMs: 30 * MINUTE,
    write: 1.25,
    read: 0.1,
    cacheLifetime: warm([1, 0.99], [30, 0.97], [60, 0.5], [DAY, 0.05]),
    // https://platform.openai.com/docs/guides/prompt-caching
    // Models from GPT-5.6; at least 30 minutes.
  },
  deepseek: {
    ...COMMON,
    dialect: "deepseek",
    minTokens: 64,
    blockTokens: 64,
    ttlMs: 24 * HOUR,
    read: 0.025,
    coldAfterMs: 7 * 24 * HOUR,
    cacheLifetime: warm([60, 0.99], [DAY, 0.9], [3 * DAY, 0.5], [7 * DAY, 0.1]),
    // https://api-docs.deepseek.com/guides/kv_cache
    // Reads cost 1/30 to 1/50. A prefix three days old was served at 99.2 %.
  },
  gemini: {
    ...BEST_EFFORT,
    minTokens: 2048,
    // https://ai.google.dev/gemini-api/docs/caching
    // Implicit caching; the smallest cached prompt is 1,024 to 4,096 tokens, by model.
  },
  grok: {
    ...BEST_EFFORT,
    blockTokens: 128,
    read: 0.16,
    // https://docs.x.ai/developers/advanced-api-usage/prompt-caching/best-practices
    // https://docs.x.ai/developers/models: reads cost 0.25 with Grok 4.5 to 4.7, 0.16 with 4.3. A reseller
    // measured blocks of 128 tokens: https://docs.apiyi.com/en/api-capabilities/grok/prompt-caching
  },
  glm: {
    ...BEST_EFFORT,
    read: 0.18,
    // https://docs.z.ai/guides/capabilities/cache
    // https://docs.z.ai/guides/overview/pricing: reads cost 0.186 with GLM-5.1 to 5.3.
  },
  kimi: {
    ...BEST_EFFORT,
    // https://forum.moonshot.ai/t/context-caching-upgrade-5-min-1-hour-ttl-options/613
    // From kimi-k3 on 5 minutes, written at the prompt's price; an hour with prompt_cache_options, at twice
    // that.
    // https://platform.kimi.ai/docs/pricing/chat-k3: reads cost 0.1; with kimi-k2 0.17 to 0.2.
  },
  qwen: {
    ...BEST_EFFORT,
    read: 0.2,
    // https://www.alibabacloud.com/help/en/model-studio/context-cache
    // Implicit caching. Marked content lives 5 minutes, at 1.25 and 0.1.
  },
  mistral: {
    ...BEST_EFFORT,
    // https://docs.mistral.ai/studio-api/conversations/advanced/prompt-caching
  },
  minimax: {
    ...BEST_EFFORT,
    minTokens: 512,
    // https://platform.minimax.io/docs/api-reference/text-prompt-caching
    // https://platform.minimax.io/docs/guides/pricing-paygo: reads cost 0.1 with M2.5, 0.2 with M2.7 and M3.
  },
  [LOCAL_PROFILE]: {
    ...COMMON,
    minTokens: 16,
    blockTokens: 16,
    ttlMs: 24 * HOUR,
    read: 0,
    cacheLifetime: warm([60, 0.99], [DAY, 0.99]),
    // https://docs.vllm.ai/en/latest/design/prefix_caching.html
    // llama.cpp, vLLM, Ollama. A prefix lives while memory lasts; the price is prefill time.
  },
  none: {
    ...COMMON,
    minTokens: Infinity,
    ttlMs: 0,
    read: 1,
    cacheLifetime: [],
  },
};

/** Known providers, by name. Facts as of autumn 2026. */
export const PROFILES: Readonly<Record<string, Profile>> = Object.fromEntries(
  Object.entries(RULES).map(([name, rules]) => [name, { name, ...rules }]),
);

/**
 * Returns the profile of this name.
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
    `Cannot use profile ${JSON.stringify(name)}: unknown name. Use one of ${
      Object.keys(PROFILES).join(", ")
    }.`,
  );
}

/** Returns the rules for a provider that reports no cache reads: those without a cache. */
export function withoutCache({ writes: _, ...profile }: Profile): Profile {
  return { ...profile, minTokens: Infinity, write: 1, read: 1, cacheLifetime: [] };
}

/**
 * Returns a profile's provider by its name in OpenTelemetry's conventions for generative AI, or the profile's
 * name.
 */
export function providerOf({ name }: Pick<Profile, "name">): string {
  const conventional: Readonly<Record<string, string>> = {
    gemini: "gcp.gemini",
    grok: "x_ai",
    mistral: "mistral_ai",
  };
  return conventional[name] ?? /^(anthropic|openai)(?=-)/.exec(name)?.[0] ?? name;
}

/**
 * Returns the profile for prompts with this cache lifetime in milliseconds (0: no cache), or the same profile
 * if its provider offers no choice.
 */
export function profileForTtl(profile: Profile, ttlMs: number): Profile {
  if (!profile.writes) return profile;
  if (ttlMs === 0) return profileNamed("none");
  const others = Object.values(PROFILES);
  return others.find((other) => other.dialect === profile.dialect && other.ttlMs === ttlMs) ?? profile;
}

/** Fields and headers that identify a conversation to the cache at one address. */
interface CacheRoute {
  readonly address: RegExp;
  readonly fields: readonly string[];
  /** Headers that contain it, unless the client sends any of them. */
  readonly headers: readonly string[];
  /** Models whose prompts are cached for a day at no price with `prompt_cache_retention`. Default: none. */
  readonly day?: RegExp;
  /** Whether only marked content is cached. Default: false. */
  readonly needsBreakpoints?: true;
  readonly searchesTools?: RegExp;
}

/**
 * Models that find deferred tools by their provider's own search. Facts as of autumn 2026.
 * https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool
 */
const TOOL_SEARCHERS =
  /^claude-(?:(?:opus|sonnet)-(?:[4-9]|\d\d)|haiku-(?:4-5|[5-9]|\d\d)|(?:fable|mythos)-)/;

const OPENAI = /^https:\/\/([\w-]+\.)?api\.openai\.com\/v1$/;

/**
 * Providers that route the requests of one conversation to the same cache by a key. Facts as of autumn 2026.
 * Others may refuse unknown fields.
 */
const CACHE_ROUTES: readonly CacheRoute[] = [
  {
    address: /^https:\/\/api\.anthropic\.com\/v1$/,
    fields: [],
    headers: [],
    needsBreakpoints: true,
    searchesTools: TOOL_SEARCHERS,
    // https://docs.claude.com/en/docs/build-with-claude/prompt-caching
  },
  {
    address: OPENAI,
    fields: ["prompt_cache_key"],
    headers: [],
    day: /^gpt-(5\.5(-pro)?|5\.4|5\.2|5\.1(-codex(-mini|-max)?|-chat)?|5(-codex)?|4\.1)$/,
    // https://platform.openai.com/docs/guides/prompt-caching
  },
  {
    // The field alone didn't reach the same cache reliably, and `prompt_cache_retention` is refused.
    address: /^https:\/\/chatgpt\.com\/backend-api\/codex$/,
    fields: ["prompt_cache_key"],
    headers: ["session_id", "session-id"],
    // https://github.com/openai/codex
  },
  {
    address: /^https:\/\/api\.x\.ai\/v1$/,
    fields: [],
    headers: ["x-grok-conv-id"],
    // https://docs.x.ai/developers/advanced-api-usage/prompt-caching/maximizing-cache-hits
  },
  {
    address: /^https:\/\/[\w-]+\.openai\.azure\.com\/openai\/v1$/,
    fields: ["prompt_cache_key"],
    headers: [],
    // https://learn.microsoft.com/en-us/azure/ai-foundry/openai/how-to/prompt-caching
  },
  {
    address: /^https:\/\/api\.mistral\.ai\/v1$/,
    fields: ["prompt_cache_key"],
    headers: [],
    // https://docs.mistral.ai/studio-api/conversations/advanced/prompt-caching
  },
  {
    address: /^https:\/\/api\.moonshot\.(ai|cn)\/v1$/,
    fields: ["prompt_cache_key"],
    headers: [],
    // https://platform.moonshot.ai/docs/api/chat
  },
];

/** A conversation's request, for cache routing. */
export interface CacheRequest {
  readonly baseURL: string;
  readonly model: string;
  /** Identifies the conversation: equal for all requests with the same start. */
  readonly key: string;
}

/** Cache routing of a request. */
export interface CacheRouting {
  /** Fields of the body, unless the client sets them. */
  readonly fields: Readonly<Record<string, string>>;
  /** Headers, unless the client sets one of them. */
  readonly headers: Readonly<Record<string, string>>;
  /** Whether only marked content is cached. Absent: unknown. */
  readonly needsBreakpoints?: true;
}

/**
 * Returns the fields and headers that route a request to its cache, and extend its lifetime where that is
 * free; none for an unknown address.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { routeToCache } from "@tare/planner/internal";
 *
 * const request = { model: "gpt-4o", key: "c0ffee" };
 * const openai = routeToCache({ ...request, baseURL: "https://api.openai.com/v1" });
 * assertEquals(openai, { fields: { prompt_cache_key: "c0ffee" }, headers: {} });
 * assertEquals(routeToCache({ ...request, baseURL: "http://localhost:8080/v1" }), { fields: {}, headers: {} });
 * ```
 */
export function routeToCache({ baseURL, model, key }: CacheRequest): CacheRouting {
  const route = routeAt(baseURL);
  if (!route) return { fields: {}, headers: {} };
  const keyed = (names: readonly string[]) => Object.fromEntries(names.map((name) => [name, key]));
  return {
    fields: {
      ...keyed(route.fields),
      ...(lastsADay({ baseURL, model }) && { prompt_cache_retention: "24h" }),
    },
    headers: keyed(route.headers),
    ...(route.needsBreakpoints && { needsBreakpoints: true }),
  };
}

function routeAt(baseURL = ""): CacheRoute | undefined {
  return CACHE_ROUTES.find(({ address }) => address.test(baseURL.replace(/\/+$/, "")));
}

/**
 * Returns whether a model's tools can be deferred: it finds them by the provider's own search at this address.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { searchesTools } from "@tare/planner/internal";
 *
 * const model = "claude-sonnet-4-5";
 * assertEquals(searchesTools({ model, baseURL: "https://api.anthropic.com/v1" }), true);
 * assertEquals(searchesTools({ model, baseURL: "http://localhost:8080/v1" }), false);
 * ```
 */
export function searchesTools({ baseURL, model }: {
  readonly baseURL?: string;
  readonly model: string;
}): boolean {
  const models = baseURL === undefined ? TOOL_SEARCHERS : routeAt(baseURL)?.searchesTools;
  return models?.test(plainModelName(model)) ?? false;
}

function lastsADay(
  { baseURL, model = "" }: { readonly baseURL?: string | undefined; readonly model?: string | undefined },
): boolean {
  return routeAt(baseURL)?.day?.test(plainModelName(model)) ?? false;
}

/**
 * Returns the current profile.
 * @throws {TypeError} if the function returns no profile.
 */
export function currentProfile(profile: Profile | (() => Profile)): Profile {
  if (typeof profile !== "function") return profile;
  const current = profile();
  if (typeof current?.name === "string") return current;
  throw new TypeError(`Cannot plan a prompt: options.profile returned ${current}. It must return a profile.`);
}

/**
 * Returns the current context window; infinite if unknown.
 * @throws {TypeError} if it is not a number above 0.
 */
export function currentWindow(
  windowTokens: number | (() => number | undefined) | undefined,
): number {
  const tokens = (typeof windowTokens === "function" ? windowTokens() : windowTokens) ?? Infinity;
  if (typeof tokens === "number" && tokens > 0) return tokens;
  throw new TypeError(
    `Cannot plan a prompt: windowTokens is ${tokens}. It must be a number above 0, or undefined.`,
  );
}

/** Criteria for the choice of a profile. */
export interface ProfileHints {
  /** Name of a profile; takes precedence. */
  readonly name?: string;
  /** Profile derived from the server's list of models. */
  readonly server?: string | undefined;
  readonly baseUrl?: string;
  /**
   * Name of the model, in any provider's spelling (`anthropic/claude-…`, `us.anthropic.claude-…-v1:0`,
   * `claude-…@2025…`).
   */
  readonly model?: string;
}

/**
 * Returns the profile by its name, or by the server's list of models, a local port, the model's name (not for
 * open-weight models on a loopback address), the provider's address, or `none`, in this order. The model
 * precedes the provider because gateways serve many vendors' models. An Azure deployment may not reveal its
 * model; name the profile then. Requests are assumed to contain the fields of {@linkcode routeToCache}.
 *
 * @throws {RangeError} if `name` names no profile.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { chooseProfile } from "@tare/planner";
 *
 * assertEquals(chooseProfile({ model: "anthropic/claude-sonnet-4-5" }).name, "anthropic-5m");
 * assertEquals(chooseProfile({ baseUrl: "http://localhost:11434/v1" }).name, "local");
 * ```
 */
export function chooseProfile({ name, server, baseUrl, model }: ProfileHints): Profile {
  if (name) return profileNamed(name);
  const { hostname = "", port = "" } = URL.canParse(baseUrl ?? "") ? new URL(baseUrl!) : {};
  const known = server ?? (LOCAL_PORTS.includes(port) ? LOCAL_PROFILE : undefined) ??
    profileOfModel(model ?? "", isOwnMachine(hostname)) ?? profileOfHost(hostname) ?? "none";
  return profileNamed(known === "openai" && lastsADay({ baseURL: baseUrl, model }) ? "openai-24h" : known);
}

/** Owners in the lists of llama.cpp, vLLM, SGLang, Ollama and LM Studio. */
const LOCAL_OWNERS: readonly unknown[] = ["llamacpp", "vllm", "sglang", "library", "organization_owner"];

interface JsonModel {
  readonly id?: unknown;
  readonly owned_by?: unknown;
  readonly meta?: unknown;
}

/** Fields with the context window, from the loaded or accepted size to the model's maximum. */
const WINDOW_FIELDS = [
  "loaded_context_length",
  "max_input_tokens",
  "max_model_len",
  "context_length",
  "context_window",
  "max_context_length",
];
const LLAMA_WINDOW_FIELDS = ["n_ctx", "n_ctx_train"];

const LEAST_WINDOW = 512;
const MAX_WINDOW = 100_000_000;

/**
 * Reads a server's list of models (`GET /models`). Returns `profile: "local"` if every model is owned by a
 * local server, and the context windows in tokens by model name, as OpenRouter, Groq, Mistral, vLLM, SGLang,
 * llama.cpp, LM Studio and others report them.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { readModelList } from "@tare/planner/internal";
 *
 * const list = { data: [{ id: "qwen3", owned_by: "llamacpp", max_model_len: 40_960 }, { id: "other" }] };
 * assertEquals(readModelList(list), { windows: new Map([["qwen3", 40_960]]) });
 * const { profile } = readModelList({ data: [list.data[0]] });
 * assertEquals(profile, "local");
 * ```
 */
export function readModelList(
  list: unknown,
): { readonly profile?: string; readonly windows: ReadonlyMap<string, number> } {
  const { data } = Object(list) as { readonly data?: unknown };
  const models: readonly unknown[] = Array.isArray(data) ? data : [];
  const isLocal = models.every((model) => LOCAL_OWNERS.includes((Object(model) as JsonModel).owned_by));
  const windows = new Map<string, number>();
  for (const model of models) {
    const { id, meta, ...fields } = Object(model) as JsonModel;
    const tokens = firstWindow(fields, WINDOW_FIELDS) ?? firstWindow(meta, LLAMA_WINDOW_FIELDS);
    if (typeof id === "string" && tokens !== undefined) windows.set(id, tokens);
  }
  return { ...(models.length > 0 && isLocal && { profile: LOCAL_PROFILE }), windows };
}

function firstWindow(of: unknown, fields: readonly string[]): number | undefined {
  const values = Object(of) as Readonly<Record<string, unknown>>;
  return fields.map((field) => windowFrom(values[field])).find((tokens) => tokens !== undefined);
}

function windowFrom(value: unknown): number | undefined {
  const tokens = Number(value);
  return Number.isInteger(tokens) && tokens >= LEAST_WINDOW && tokens <= MAX_WINDOW ? tokens : undefined;
}

const WINDOW_ERRORS: readonly RegExp[] = [
  /prompt is too long: [\d,]+ tokens > (?<window>[\d,]+) maximum/i,
  /exceed context limit: [\d,]+ \+ (?<reply>[\d,]+) > (?<window>[\d,]+)/i,
  /maximum context length is (?<window>[\d,]+) tokens[^]{0,80}\([\d,]+ [a-z ]+, (?<reply>[\d,]+) in the (?:completion|output)/i,
  /maximum (?:context|prompt|model) length (?:is|of) (?<window>[\d,]+)/i,
  /input tokens exceed the configured limit of (?<window>[\d,]+)/i,
  /exceeds the maximum number of tokens allowed \((?<window>[\d,]+)\)/i,
  /too large for model with (?<window>[\d,]+) maximum context length/i,
  /available context size \((?<window>[\d,]+) tokens\)/i,
  /the model reads (?<window>[\d,]+) (?:tokens )?at most/i,
  /prompt token count of [\d,]+ exceeds the limit of (?<window>[\d,]+)/i,
  /exceeded model token limit: (?<window>[\d,]+)/i,
];

const PROMPT_ERRORS: readonly RegExp[] = [
  /prompt is too long: (?<prompt>[\d,]+) tokens/i,
  /exceed context limit: (?<prompt>[\d,]+) \+/i,
  /\((?<prompt>[\d,]+) (?:in the messages|of text input|in your prompt)/i,
  /(?:messages resulted in|request has|request contains|prompt contains) (?<prompt>[\d,]+) (?:input )?tokens/i,
  /requested (?<prompt>[\d,]+) tokens in the messages/i,
  /input token count \((?<prompt>[\d,]+)\)/i,
  /request \((?<prompt>[\d,]+) tokens\) exceeds/i,
  /prompt token count of (?<prompt>[\d,]+)/i,
  /prompt \(length (?<prompt>[\d,]+)\)/i,
  /tokens at most, and it has (?<prompt>[\d,]+)/i,
];

const TOO_LONG =
  /context_length_exceeded|exceed_context_size|(?:exceeds?|exceeded|larger than|longer than) (?:the |its |this model's )?(?:available |maximum |model's )?context|(?:prompt|input) is too (?:long|large)|reduce the length of the (?:messages|prompt|input)|too many input tokens/i;

/** Details of a refused prompt that is too long. */
export interface TooLong {
  /** Most tokens of a prompt. Absent: not reported. */
  readonly windowTokens?: number;
  /** Tokens of the prompt, as the provider counted them. Absent: not reported. */
  readonly promptTokens?: number;
}

/**
 * Parses a provider's error about a prompt that is too long. Returns `undefined` for other errors.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { readTooLong } from "@tare/planner";
 *
 * assertEquals(readTooLong("prompt is too long: 210000 tokens > 200000 maximum"), {
 *   windowTokens: 200_000,
 *   promptTokens: 210_000,
 * });
 * assertEquals(readTooLong("Your input exceeds the context window of this model."), {});
 * assertEquals(readTooLong("Rate limit reached."), undefined);
 * ```
 */
export function readTooLong(message: string): TooLong | undefined {
  const found = WINDOW_ERRORS.map((error) => error.exec(message)?.groups).find((groups) => groups);
  const all = numberOf(found?.window);
  if (!TOO_LONG.test(message) && (all === undefined || windowFrom(all) === undefined)) return undefined;
  const windowTokens = all === undefined ? undefined : windowFrom(all - (numberOf(found?.reply) ?? 0));
  const counted = PROMPT_ERRORS.map((error) => error.exec(message)?.groups).find((groups) => groups);
  const promptTokens = numberOf(counted?.prompt);
  return {
    ...(windowTokens !== undefined && { windowTokens }),
    ...(promptTokens !== undefined && { promptTokens }),
  };
}

function numberOf(digits: string | undefined): number | undefined {
  return digits === undefined ? undefined : Number(digits.replaceAll(",", ""));
}

const MODEL_NAMES: readonly (readonly [RegExp, string])[] = [
  [/\.gguf$/i, LOCAL_PROFILE],
  [/claude/i, "anthropic-5m"],
  [/deepseek/i, "deepseek"],
  [/gemini/i, "gemini"],
  [/grok/i, "grok"],
  [/glm-/i, "glm"],
  [/kimi|moonshot/i, "kimi"],
  [/qwen|qwq/i, "qwen"],
  [/(?:mi|magi|mini)stral|(?:code|dev)stral|pixtral/i, "mistral"],
  [/minimax/i, "minimax"],
];

function profileOfModel(model: string, onOwnMachine: boolean): string | undefined {
  const named = MODEL_NAMES.find(([names]) => names.test(model))?.[1];
  if (named !== undefined) return onOwnMachine && OPEN_WEIGHTS.includes(named) ? undefined : named;
  const gpt = /(?:^|[/.])gpt-(\d+)(?:\.(\d+))?/i.exec(model);
  if (gpt) return openAiGeneration(Number(gpt[1]), Number(gpt[2] ?? 0));
  return /(?:^|[/.])(?:chatgpt|codex|o\d)/i.test(model) ? "openai" : undefined;
}

function openAiGeneration(major: number, minor: number): string | undefined {
  // `gpt-oss` has no number; GPT-3.5 and GPT-4 had no cache.
  if (major < 4) return "none";
  return major > 5 || (major === 5 && minor >= 6) ? "openai-5.6" : "openai";
}

/** Ports of Ollama and LM Studio. A loopback address may also be a proxy's. */
const LOCAL_PORTS: readonly string[] = ["11434", "1234"];

/** Profiles of open-weight models: on a loopback address their names don't identify the provider. */
const OPEN_WEIGHTS: readonly string[] = ["glm", "kimi", "minimax", "mistral", "qwen"];

function isOwnMachine(hostname: string): boolean {
  return hostname === "localhost" || hostname === "[::1]" || /^127\./.test(hostname);
}

const HOSTS: Readonly<Record<string, string>> = {
  "anthropic.com": "anthropic-5m",
  "openai.com": "openai",
  "openai.azure.com": "openai",
  "deepseek.com": "deepseek",
  "googleapis.com": "gemini",
  "x.ai": "grok",
  "z.ai": "glm",
  "bigmodel.cn": "glm",
  "moonshot.ai": "kimi",
  "moonshot.cn": "kimi",
  "aliyuncs.com": "qwen",
  "mistral.ai": "mistral",
  "minimax.io": "minimax",
  "minimaxi.com": "minimax",
};

function profileOfHost(hostname: string): string | undefined {
  return Object.entries(HOSTS).find(([end]) => `.${hostname}`.endsWith(`.${end}`))?.[1];
}

/**
 * Returns the name of the profile that a usage indicates: by the reported lifetime of its writes (a prompt's
 * end has the shortest); for an unknown provider with cached tokens, by whether it reports cache writes, or
 * by the size of its blocks. Returns `undefined` without evidence.
 */
export function recognizeProfile(usage: Usage, known: Profile = profileNamed("none")): string | undefined {
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

/** Price of a model, in US dollars per million tokens. */
export interface Price {
  /** Prompt tokens that are neither read from a cache nor written to one. */
  readonly input: number;
  readonly output: number;
  /** Prompt tokens read from the cache. Default: `input`. */
  readonly cacheRead?: number;
  /** Prompt tokens written to the cache for the shortest lifetime. Default: `input`. */
  readonly cacheWrite?: number;
  /** Prompt tokens written to the cache for an hour. Default: `cacheWrite`. */
  readonly cacheWriteHour?: number;
  /** Factors for the whole call if its prompt exceeds `aboveTokens`. Default: none. */
  readonly long?: {
    readonly aboveTokens: number;
    readonly input: number;
    readonly output: number;
    /** Tiers without a price for such prompts. Default: none. */
    readonly except?: readonly string[];
  };
  /** Factors of service tiers and speeds other than standard. Default: their prices are unknown. */
  readonly tiers?: Readonly<Record<string, number>>;
  /** Factors of regions other than global. Default: their prices are unknown. */
  readonly regions?: Readonly<Record<string, number>>;
  /** US dollars for each use of the provider's own tools. Default: their prices are unknown. */
  readonly tools?: Readonly<Record<string, number>>;
}

/** Date of all list prices: {@linkcode MODELS}, and their tiers, regions and tools. */
export const MODELS_DATE = "2026-11-21";

const ABOVE_272K = { aboveTokens: 272_000, input: 2, output: 1.5 } as const;
/** To GPT-5.5, priority processing excludes long prompts. */
const STANDARD_ABOVE_272K = { ...ABOVE_272K, except: ["priority", "fast"] } as const;
const ABOVE_200K = { aboveTokens: 200_000, input: 2, output: 1.5 } as const;
const ABOVE_100K = { aboveTokens: 100_000, input: 5, output: 5 } as const;
const TWICE_ABOVE_200K = { aboveTokens: 200_000, input: 2, output: 2 } as const;

const HALF_PRICED = { batch: 0.5, flex: 0.5 } as const;

// Code execution is billed by time, in containers.
const CLAUDE_TOOLS = { web_search: 0.01, web_fetch: 0, tool_search: 0 } as const;
const GPT_TOOLS = { web_search: 0.01, file_search: 0.002_5, mcp: 0 } as const;
const GROK_TOOLS = {
  web_search: 0.005,
  x_search: 0.005,
  code_execution: 0.005,
  code_interpreter: 0.005,
  attachment_search: 0.01,
  collections_search: 0.002_5,
  file_search: 0.002_5,
} as const;

export interface PublishedModel {
  /** Context window for prompts, in tokens, or the provider's lower limit. */
  readonly windowTokens: number;
  readonly price: Price;
}

/**
 * Windows, and list prices without taxes and discounts, as of {@linkcode MODELS_DATE}. Compare them with your
 * provider's own list before you rely on them.
 * https://platform.claude.com/docs/en/about-claude/pricing
 * https://platform.claude.com/docs/en/build-with-claude/context-windows
 * https://platform.claude.com/docs/en/build-with-claude/fast-mode
 * https://platform.claude.com/docs/en/manage-claude/data-residency
 * https://developers.openai.com/api/docs/pricing
 * https://openai.com/api-priority-processing
 * https://developers.openai.com/api/docs/models (the window without the longest reply)
 * https://api-docs.deepseek.com/quick_start/pricing (at its peak hours)
 * https://ai.google.dev/gemini-api/docs/pricing
 * https://ai.google.dev/gemini-api/docs/models
 * https://ai.google.dev/gemini-api/docs/optimization
 * https://docs.x.ai/developers/models
 * https://docs.x.ai/developers/pricing
 * https://docs.z.ai/guides/overview/pricing
 * https://platform.kimi.ai/docs/pricing/chat-k3
 * https://platform.minimax.io/docs/guides/pricing-paygo
 * The last four as quoted from July to October. Alibaba (prices by region and prompt length) and newer
 * Mistral models (no list found) are missing.
 */
export const MODELS: Readonly<Record<string, PublishedModel>> = {
  "claude-fable-5-2": fast(claude(1_000_000, 8, 40, 0.2), 2),
  "claude-fable-5-1": claude(1_000_000, 10, 50, 0.25),
  "claude-fable-5": claude(1_000_000, 10, 50, 1),
  "claude-opus-5-5": fast(claude(1_000_000, 4, 20, 0.2), 2),
  "claude-opus-5": fast(claude(1_000_000, 5, 25, 0.5), 2),
  "claude-opus-4-8": fast(claude(1_000_000, 5, 25, 0.5), 2),
  "claude-opus-4-7": fast(claude(1_000_000, 5, 25, 0.5), 6),
  "claude-opus-4-6": fast(claude(1_000_000, 5, 25, 0.5), 6),
  "claude-opus-4-5": claude(200_000, 5, 25, 0.5),
  "claude-opus-4-1": claude(200_000, 15, 75, 1.5),
  "claude-opus-4": claude(200_000, 15, 75, 1.5),
  "claude-sonnet-5-5": claude(1_000_000, 2, 10, 0.1),
  "claude-sonnet-5": claude(1_000_000, 2, 10, 0.2),
  "claude-sonnet-4-6": claude(1_000_000, 3, 15, 0.3),
  "claude-sonnet-4-5": claude(200_000, 3, 15, 0.3),
  "claude-sonnet-4": claude(200_000, 3, 15, 0.3),
  "claude-3-7-sonnet": claude(200_000, 3, 15, 0.3),
  "claude-haiku-5-5": claude(1_000_000, 0.1, 0.5, 0.01, ABOVE_100K),
  "claude-haiku-4-5": claude(200_000, 1, 5, 0.1),
  "claude-3-5-haiku": claude(200_000, 0.8, 4, 0.08),
  "gpt-6.1-sol": newerGpt(922_000, 2, 10, 0.1),
  "gpt-6-astra": newerGpt(922_000, 10, 50, 1),
  "gpt-6-sol": newerGpt(922_000, 2, 10, 0.2),
  "gpt-6-luna": newerGpt(922_000, 0.1, 0.5, 0.01),
  "gpt-5.6-sol": newerGpt(922_000, 4, 20, 0.4),
  "gpt-5.6-terra": newerGpt(922_000, 2, 12, 0.2),
  "gpt-5.6-luna": newerGpt(922_000, 0.2, 1.2, 0.02),
  "gpt-5.5": gpt(2.5, 922_000, 5, 30, 0.5, STANDARD_ABOVE_272K),
  "gpt-5.5-pro": {
    windowTokens: 922_000,
    price: { input: 30, output: 180, long: ABOVE_272K, tiers: HALF_PRICED, tools: GPT_TOOLS },
  },
  "gpt-5.4": gpt(2, 922_000, 2.5, 15, 0.25, STANDARD_ABOVE_272K),
  "gpt-5.4-mini": gpt(2, 272_000, 0.75, 4.5, 0.075),
  "gpt-5.4-nano": gpt(undefined, 272_000, 0.2, 1.25, 0.02),
  "gpt-5.3-codex": gpt(2, 272_000, 1.75, 14, 0.175),
  "gpt-5.2": gpt(2, 272_000, 1.75, 14, 0.175),
  "gpt-5.1": gpt(2, 272_000, 1.25, 10, 0.125),
  "gpt-5": gpt(2, 272_000, 1.25, 10, 0.125),
  "gpt-5-mini": gpt(1.8, 272_000, 0.25, 2, 0.025),
  "gpt-5-nano": gpt(undefined, 272_000, 0.05, 0.4, 0.005),
  "gpt-4.1": olderGpt(1.75, 1_047_576, 2, 8, 0.5),
  "gpt-4.1-mini": olderGpt(1.75, 1_047_576, 0.4, 1.6, 0.1),
  "gpt-4.1-nano": olderGpt(2, 1_047_576, 0.1, 0.4, 0.025),
  "gpt-4o": olderGpt(1.7, 128_000, 2.5, 10, 1.25),
  "gpt-4o-mini": olderGpt(5 / 3, 128_000, 0.15, 0.6, 0.075),
  "o3": gpt(1.75, 200_000, 2, 8, 0.5),
  "o4-mini": gpt(20 / 11, 200_000, 1.1, 4.4, 0.275),
  "deepseek-flash": plain(1_000_000, 0.3, 1.2, 0.006),
  "deepseek-v4-flash": plain(1_000_000, 0.3, 1.2, 0.006),
  "deepseek-v4-pro": plain(1_000_000, 1.32, 3.96, 0.044),
  "gemini-3-pro": gemini(1_048_576, 2, 12, 0.2, ABOVE_200K),
  "gemini-3.1-pro": gemini(1_048_576, 2, 12, 0.2, ABOVE_200K),
  "gemini-3-flash": gemini(1_048_576, 0.5, 3, 0.05),
  "gemini-2.5-pro": gemini(1_048_576, 1.25, 10, 0.125, ABOVE_200K),
  "gemini-2.5-flash": gemini(1_048_576, 0.3, 2.5, 0.03),
  "gemini-2.5-flash-lite": gemini(1_048_576, 0.1, 0.4, 0.01),
  "grok-4.7": grok(500_000, 2, 6, 0.5, TWICE_ABOVE_200K),
  "grok-4.6": grok(500_000, 2, 6, 0.5, TWICE_ABOVE_200K),
  "grok-4.5": grok(500_000, 2, 6, 0.5, TWICE_ABOVE_200K),
  "grok-4.3": grok(1_000_000, 1.25, 2.5, 0.2, TWICE_ABOVE_200K),
  "glm-5.3": plain(1_000_000, 1.4, 4.4, 0.26),
  "kimi-k3": plain(1_048_576, 3, 15, 0.3),
  "kimi-k2.7-code": plain(262_144, 0.95, 4, 0.19),
  "kimi-k2.6": plain(262_144, 0.95, 4, 0.16),
  "kimi-k2.5": plain(262_144, 0.6, 3, 0.1),
  "minimax-m3": plain(1_000_000, 0.3, 1.2, 0.06, { aboveTokens: 512_000, input: 2, output: 2 }),
  "minimax-m2.7": plain(204_800, 0.3, 1.2, 0.06),
  "minimax-m2.5": plain(204_800, 0.3, 1.2, 0.03),
};

/**
 * Reasoning by plain model name, the first match; efforts ascending. Facts as of autumn 2026.
 * https://platform.claude.com/docs/en/build-with-claude/adaptive-thinking
 * https://platform.claude.com/docs/en/build-with-claude/effort
 * https://developers.openai.com/api/docs/guides/reasoning
 * https://api-docs.deepseek.com/guides/thinking_mode (reasoning must be sent back; Moonshot likewise)
 */
const REASONING: readonly (readonly [
  RegExp,
  Pick<ModelProtocol, "reasoning" | "thinking"> & { readonly efforts?: string },
])[] = [
  [/^claude-opus-4-[78]$|^claude-[a-z]+-[5-9]/, {
    efforts: "low medium high xhigh max",
    thinking: "adaptive",
  }],
  [/^claude-(opus|sonnet)-4-6$/, { efforts: "low medium high max", thinking: "adaptive" }],
  [
    /^claude-(opus-4(-[15])?|sonnet-4(-5)?|haiku-4-5|3-7-sonnet)$/,
    { efforts: "low medium high", thinking: "budget" },
  ],
  [/^claude-3-5-|^gpt-[34]|^chatgpt-|^gpt-5.*-chat/, { efforts: "" }],
  [/^gpt-5(\.\d)?-pro$/, { efforts: "medium high xhigh", reasoning: "sealed" }],
  [/^gpt-(5\.[6-9]|[6-9])/, { efforts: "none low medium high xhigh max", reasoning: "sealed" }],
  [/^gpt-5\.\d-codex/, { efforts: "low medium high xhigh", reasoning: "sealed" }],
  [/^gpt-5\.[2-5]/, { efforts: "none low medium high xhigh", reasoning: "sealed" }],
  [/^gpt-5\.1/, { efforts: "none low medium high", reasoning: "sealed" }],
  [/^gpt-5/, { efforts: "minimal low medium high", reasoning: "sealed" }],
  [/^o[1-9]/, { efforts: "low medium high", reasoning: "sealed" }],
  [/^deepseek-(v[4-9]|flash)/, { efforts: "high max", reasoning: "some" }],
  [/^deepseek-reasoner/, { reasoning: "some" }],
  [/^kimi-(k2\.[5-9]|k2-thinking|k[3-9]|for-coding)/, { reasoning: "some" }],
];

const SEEING =
  /^(claude|gpt-(4o|4\.1|[5-9])|chatgpt-|o[134]\b|gemini|gemma-?[3-9]|grok-[4-9]|kimi-k(2\.[5-9]|[3-9])|llama-?4|minimax-m3|pixtral|mistral-(small|medium|large))|(^|[-.:])(vl|vision|omni|llava)\b|\dv\b/;

/** Protocol of a model. */
export interface ModelProtocol {
  readonly protocol: "chat" | "responses";
  /** Accepted reasoning efforts; empty if it doesn't reason. Absent: unknown. */
  readonly efforts?: readonly string[];
  /**
   * Whether its reasoning is `sealed` in responses, or `some` must be sent back with each chat completion.
   * Absent: neither.
   */
  readonly reasoning?: "sealed" | "some";
  /** Form of thinking in the Messages format: adaptive, or with a budget. Absent: none. */
  readonly thinking?: "adaptive" | "budget";
  /**
   * Whether it accepts images in results; false if unknown, because providers refuse the whole request
   * otherwise.
   */
  readonly supportsImages: boolean;
}

/**
 * Returns the protocol of a model at this address.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { modelProtocolOf } from "@tare/planner/internal";
 *
 * const baseURL = "https://api.openai.com/v1";
 * const { protocol, efforts, supportsImages } = modelProtocolOf({ model: "gpt-5.1", baseURL });
 * assertEquals([protocol, efforts, supportsImages], ["responses", ["none", "low", "medium", "high"], true]);
 * assertEquals(modelProtocolOf({ model: "qwen3", baseURL: "http://localhost:8080/v1" }), {
 *   protocol: "chat",
 *   supportsImages: false,
 * });
 * ```
 */
export function modelProtocolOf({ model, baseURL }: Pick<CacheRequest, "model" | "baseURL">): ModelProtocol {
  const name = plainModelName(model);
  const [, { efforts, ...reasoning } = {}] = REASONING.find(([names]) => names.test(name)) ?? [];
  return {
    // OpenAI returns sealed reasoning there; chat completions lose it.
    protocol: routeAt(baseURL)?.address === OPENAI ? "responses" : "chat",
    ...(efforts !== undefined && { efforts: efforts.split(" ").filter(Boolean) }),
    ...reasoning,
    supportsImages: SEEING.test(name),
  };
}

/** Example model of each profile with a published price. */
export const EXAMPLE_MODELS: Readonly<Record<string, string>> = {
  "anthropic-5m": "claude-sonnet-5",
  "anthropic-1h": "claude-sonnet-5",
  openai: "gpt-5.5",
  "openai-5.6": "gpt-5.6-terra",
  deepseek: "deepseek-v4-pro",
  gemini: "gemini-3.1-pro",
  grok: "grok-4.7",
  glm: "glm-5.3",
  kimi: "kimi-k3",
  minimax: "minimax-m3",
};

/** Models for an agent, of each provider the current one first. */
const PROPOSED_MODELS: readonly string[] = [
  ...["claude-sonnet-5-5", "claude-sonnet-5", "gpt-6.1-sol", "gpt-6-sol", "gpt-5.6-terra", "gpt-5.5"],
  ...["deepseek-v4-pro", "gemini-3.1-pro", "grok-4.7", "glm-5.3", "kimi-k3", "minimax-m3"],
];

/** Parts of names of models that don't answer in an agent's loop. */
const OTHER_MODELS =
  /embed|rerank|whisper|transcri|tts|audio|realtime|speech|image|dall-e|imagen|sora|veo|video|moderation|guard|search-(api|preview)|babbage|davinci|instruct$/i;

/**
 * Returns the models of a provider's list that an agent can use, the one to propose first: the provider's current
 * default if known, else the first with a published price, else the first listed.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { proposedModels } from "@tare/planner/internal";
 *
 * const listed = ["text-embedding-3-small", "gpt-4.1", "gpt-5.5"];
 * assertEquals(proposedModels(listed), ["gpt-5.5", "gpt-4.1"]);
 * ```
 */
export function proposedModels(listed: readonly string[]): readonly string[] {
  const rank = (name: string) => {
    const place = PROPOSED_MODELS.indexOf(plainModelName(name));
    if (place >= 0) return place;
    return PROPOSED_MODELS.length + (listPrice(name) === undefined ? 1 : 0);
  };
  return listed.filter((name) => !OTHER_MODELS.test(name))
    .map((name) => ({ name, place: rank(name) }))
    .sort((one, other) => one.place - other.place)
    .map(({ name }) => name);
}

const LONGEST_NAME = 200;

type Row = [windowTokens: number, input: number, output: number, cacheRead: number, long?: Price["long"]];

function plain(...[windowTokens, input, output, cacheRead, long]: Row): PublishedModel {
  return { windowTokens, price: { input, output, cacheRead, ...(long && { long }) } };
}

/** OpenAI's models with the factor of priority processing, also called fast mode, if it is published. */
function gpt(priority: number | undefined, ...row: Row): PublishedModel {
  const { windowTokens, price } = plain(...row);
  const tiers = { ...HALF_PRICED, ...(priority !== undefined && { priority, fast: priority }) };
  return { windowTokens, price: { ...price, tiers, tools: GPT_TOOLS } };
}

/** OpenAI's newer models charge 1.25 times the input price for cache writes. */
function newerGpt(...[windowTokens, input, output, cacheRead]: Row): PublishedModel {
  const { price } = gpt(2, windowTokens, input, output, cacheRead, ABOVE_272K);
  return { windowTokens, price: { ...price, cacheWrite: 1.25 * input } };
}

/** Has no flex tier, and two web searches with different prices. */
function olderGpt(priority: number, ...row: Row): PublishedModel {
  const { windowTokens, price } = plain(...row);
  const { web_search: _, ...tools } = GPT_TOOLS;
  return { windowTokens, price: { ...price, tiers: { batch: 0.5, priority, fast: priority }, tools } };
}

/** Anthropic charges 1.25 times the input price for five minutes, and twice for an hour. */
function claude(...row: Row): PublishedModel {
  const { windowTokens, price } = plain(...row);
  const { input } = price;
  return {
    windowTokens,
    price: {
      ...price,
      cacheWrite: 1.25 * input,
      cacheWriteHour: 2 * input,
      tiers: { batch: 0.5 },
      regions: { us: 1.1 },
      tools: CLAUDE_TOOLS,
    },
  };
}

function fast({ windowTokens, price }: PublishedModel, factor: number): PublishedModel {
  return { windowTokens, price: { ...price, tiers: { ...price.tiers, fast: factor } } };
}

function gemini(...row: Row): PublishedModel {
  const { windowTokens, price } = plain(...row);
  return { windowTokens, price: { ...price, tiers: { ...HALF_PRICED, priority: 1.8 } } };
}

function grok(...row: Row): PublishedModel {
  const { windowTokens, price } = plain(...row);
  return { windowTokens, price: { ...price, tools: GROK_TOOLS } };
}

/**
 * Suffixes that don't change the model: a date, `latest`, `preview`, a window; on Vertex AI `@` and a date or
 * `default`; on Amazon Bedrock a version; on OpenRouter how its provider is chosen. `:free` is another offer.
 */
const SUFFIX =
  /(?:-\d{8}|-\d{4}-\d{2}-\d{2}|-latest|-preview|@(?:\d{8}|latest|default)|-v[12](?::\d+k?)*|\[1m\]|:(?:nitro|floor|exacto|thinking|beta))+$/;

/** Claude's version before its family, as OpenRouter writes it; Anthropic did until 3.7. */
const VERSION_FIRST = /^claude-((?:[4-9]|\d\d)(?:-\d+)?)-([a-z]+)(?=-|$)/;

const BEDROCK = /^(?:[a-z-]+\.)?[a-z]+\.(?=[a-z])/;

const MILLION = /\[1m\]$/i;

/**
 * Returns a model's list price; `undefined` if it isn't in {@linkcode MODELS}. The name may have a vendor
 * before it and a date after it (`anthropic/…`, `us.anthropic.…-v1:0`, `…@20250929`).
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
  return publishedModel(model)?.price;
}

/** Returns a model's price in a list by names, of which vendor and suffixes may differ. */
export function priceIn(prices: Readonly<Record<string, Price>>, model: string): Price | undefined {
  if (Object.hasOwn(prices, model)) return prices[model];
  const name = plainModelName(model);
  return Object.entries(prices).find(([other]) => name !== "" && plainModelName(other) === name)?.[1];
}

/**
 * Returns a model's context window in tokens; `undefined` if it isn't in {@linkcode MODELS}. Names as for
 * {@linkcode listPrice}.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { listWindow } from "@tare/planner";
 *
 * assertEquals([listWindow("claude-sonnet-4-5"), listWindow("gpt-oss:20b")], [200_000, undefined]);
 * ```
 */
export function listWindow(model: string): number | undefined {
  const published = publishedModel(model);
  return published && MILLION.test(model) ? 1_000_000 : published?.windowTokens;
}

function publishedModel(model: string): PublishedModel | undefined {
  const name = plainModelName(model);
  return Object.hasOwn(MODELS, name) ? MODELS[name] : fastModel(name);
}

/** Model whose name requests its fast mode, as OpenRouter and Vercel offer it. */
function fastModel(name: string): PublishedModel | undefined {
  const [, plain = ""] = /^(claude-.+)-fast$/.exec(name) ?? [];
  const { windowTokens, price } = Object.hasOwn(MODELS, plain) ? MODELS[plain]! : {};
  const factor = price?.tiers?.fast;
  if (windowTokens === undefined || price === undefined || factor === undefined) return undefined;
  const { input, output, cacheRead = input, cacheWrite = input, cacheWriteHour = cacheWrite } = price;
  const { tiers: _, ...rest } = price;
  return {
    windowTokens,
    price: {
      ...rest,
      input: factor * input,
      output: factor * output,
      cacheRead: factor * cacheRead,
      cacheWrite: factor * cacheWrite,
      cacheWriteHour: factor * cacheWriteHour,
      tiers: { fast: 1 },
    },
  };
}

/** Returns a model's name without vendor and suffixes; empty if it is too long. */
function plainModelName(model: string): string {
  if (model.length > LONGEST_NAME) return "";
  const name = model.slice(model.lastIndexOf("/") + 1).toLowerCase().replace(BEDROCK, "").replace(SUFFIX, "");
  return name.startsWith("claude-") ? name.replaceAll(".", "-").replace(VERSION_FIRST, "claude-$2-$1") : name;
}
