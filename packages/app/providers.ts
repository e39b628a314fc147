import { ModelError } from "@tare/loop";
import { anthropicModel } from "@tare/loop/anthropic";
import { openaiModel } from "@tare/loop/openai";
import type { Model } from "@tare/messages";
import { chooseProfile, listPrice, listWindow, type Price, type Profile, readTooLong } from "@tare/planner";
import {
  DEFAULT_PROVIDER,
  MESSAGES_PROVIDER,
  modelProtocolOf,
  priceIn,
  readModelList,
  routeToCache,
  searchesTools,
} from "@tare/planner/internal";
import type { Settings } from "./settings/settings.ts";
import type { GatewayOptions } from "@tare/gateway";
import { readBytes } from "@tare/gateway/internal";

export type ProviderSettings = Pick<
  Settings,
  | "apiKey"
  | "baseUrl"
  | "messagesKey"
  | "messagesUrl"
  | "model"
  | "price"
  | "profile"
  | "protocol"
  | "windowTokens"
>;

export interface AgentModels {
  /** The default model. Absent: there is no agent. */
  readonly model?: string;
  readonly ask: (model: string) => Model;
  /** Supported reasoning efforts, none for a model without reasoning; `undefined` if unknown. */
  readonly efforts: (model: string) => readonly string[] | undefined;
  /** Whether results may contain images. */
  readonly supportsImages: (model: string) => boolean;
  readonly address: (model: string) => string;
  /** Cache rules and prices; for an empty name those of the provider. */
  readonly profile: (model: string) => Profile;
  readonly windowTokens: (model: string) => number;
  /** Whether the window is a default or published value. */
  readonly assumesWindow: (model: string) => boolean;
  /** First line of every turn. Default: none. */
  readonly notice?: string;
}

/** Default context window in tokens; few models for agents have a smaller one. */
export const USUAL_WINDOW = 128_000;

export function hasChatProvider({ apiKey, baseUrl }: ProviderSettings): boolean {
  return apiKey !== undefined || baseUrl !== undefined;
}

export function isDemo(settings: ProviderSettings): boolean {
  return !hasChatProvider(settings) && settings.messagesKey === undefined && settings.model === undefined;
}

/**
 * Returns the models of the configured providers. If there are a provider of Messages and one of chat completions, the
 * model name selects one.
 */
export function configuredModels(
  settings: ProviderSettings,
  server?: Pick<ServerProfile, "name" | "windowTokens">,
): AgentModels {
  const { apiKey, baseUrl: baseURL = DEFAULT_PROVIDER.baseURL, messagesKey, messagesUrl, model } = settings;
  const profile = agentProfiles(settings, server?.name);
  const listed = remembered(listWindow);
  const reported = new Map<string, number>();
  const ask = (model: string) => {
    if (settings.model === undefined) return noModel;
    const { protocol: usual, reasoning, thinking } = modelProtocolOf({ model, baseURL });
    if (!speaksMessages(settings, model)) {
      const route = (key: string) => routeToCache({ baseURL, model, key });
      const protocol = settings.protocol === "messages" ? usual : settings.protocol ?? usual;
      return openaiModel({
        ...{ model, baseURL, route, protocol },
        ...(reasoning && { reasoning }),
        ...{ apiKeyName: "OPENAI_API_KEY", busyWaitsMs: BUSY_WAITS_MS },
        ...(apiKey !== undefined && { apiKey }),
      });
    }
    const apiKeyName = "ANTHROPIC_API_KEY";
    const access = {
      baseURL: messagesUrl,
      ...{ apiKeyName, busyWaitsMs: BUSY_WAITS_MS },
      ...(messagesKey !== undefined && { apiKey: messagesKey }),
    };
    return anthropicModel({
      ...{ model, ...access, cacheTtlMs: profile(model).ttlMs },
      ...(thinking && { thinking }),
    });
  };
  const reportedWindow = (model: string) =>
    settings.windowTokens ?? reported.get(model) ??
      (speaksMessages(settings, model) ? undefined : server?.windowTokens(model));
  return {
    ...(model !== undefined && { model }),
    ask: (model) => tellingWindow(ask(model), (tokens) => reported.set(model, tokens)),
    efforts: (model) => modelProtocolOf({ model, baseURL }).efforts,
    supportsImages: (model) => modelProtocolOf({ model, baseURL }).supportsImages,
    address: (model) => speaksMessages(settings, model) ? messagesUrl : baseURL,
    profile,
    windowTokens: (model) => reportedWindow(model) ?? listed(model) ?? USUAL_WINDOW,
    assumesWindow: (model) => reportedWindow(model) === undefined,
  };
}

/** A long turn survives a minute of overload. */
const BUSY_WAITS_MS = [1_000, 4_000, 8_000, 16_000, 30_000];

/** Returns a model that reports the context window which its errors contain. */
function tellingWindow(model: Model, onWindow: (tokens: number) => void): Model {
  return async function* (request) {
    try {
      yield* model(request);
    } catch (error) {
      const tokens = error instanceof ModelError ? readTooLong(error.message)?.windowTokens : undefined;
      if (tokens !== undefined) onWindow(tokens);
      throw error;
    }
  };
}

/** Returns the profiles of the chat provider's models; `server` returns the profile name that it reports. */
function chatProfiles(
  { baseUrl = DEFAULT_PROVIDER.baseURL, profile: own }: ProviderSettings,
  server?: () => string | undefined,
): (model: string) => Profile {
  const set = own?.profile;
  if (set) return () => set;
  const choose = (server: string | undefined) =>
    remembered((model) => chooseProfile({ baseUrl, model, server }));
  let reported: string | undefined;
  let chosen = choose(reported);
  return (model) => {
    const now = server?.();
    if (now !== reported) chosen = choose(reported = now);
    return chosen(model);
  };
}

const MAX_REMEMBERED = 1_000;

/** Memoizes a function of a text. */
function remembered<T>(work: (text: string) => T): (text: string) => T {
  const known = new Map<string, T>();
  return (text) => {
    if (known.has(text)) return known.get(text)!;
    if (known.size >= MAX_REMEMBERED) known.clear();
    const result = work(text);
    known.set(text, result);
    return result;
  };
}

/**
 * Returns the configured price, with the factors and tools of the list price unless it has its own; else the list
 * price; none for local models.
 */
export function priceOf(
  { price, profile: own }: Pick<ProviderSettings, "price" | "profile">,
  profile: (model: string) => Profile,
): (model: string) => Price | undefined {
  const { prices = {} } = own ?? {};
  const listed = remembered(listPrice);
  return (model) => {
    const set = priceIn(prices, model) ?? price ?? own?.profile?.price;
    const known = profile(model).name === "local" ? undefined : listed(model);
    const { tiers, regions, tools } = known ?? {};
    return set
      ? { ...(tiers && { tiers }), ...(regions && { regions }), ...(tools && { tools }), ...set }
      : known;
  };
}

function agentProfiles(
  settings: ProviderSettings,
  server?: () => string | undefined,
): (model: string) => Profile {
  const chat = chatProfiles(settings, server);
  const messages = settings.profile?.profile ?? chooseProfile({ name: MESSAGES_PROVIDER.profile });
  return (model) => speaksMessages(settings, model) ? messages : chat(model);
}

/** Whether requests use the Messages format. */
function speaksMessages(settings: ProviderSettings, model: string): boolean {
  const { messagesKey, messagesUrl, protocol } = settings;
  if (protocol === "messages") return true;
  const isThere = messagesKey !== undefined || messagesUrl !== MESSAGES_PROVIDER.baseURL;
  return !hasChatProvider(settings) || (isThere && MESSAGES_PROVIDER.models.test(model));
}

const noModel: Model = () => {
  throw new ModelError(
    "no_such_model",
    "Cannot call a model: TARE_MODEL isn't set. Set it to the agent's model.",
  );
};

/**
 * Returns the gateway's upstreams by protocol; Messages has its own cache rules.
 *
 * @param probed Model list of the chat provider. Absent: there is no such provider.
 */
export function upstreamsOf(
  settings: Settings,
  probed: ServerProfile | undefined,
): GatewayOptions["upstreams"] {
  const { apiKey, baseUrl: baseURL = DEFAULT_PROVIDER.baseURL } = settings;
  const { messagesKey, messagesUrl, windowTokens, deferTools } = settings;
  const chatRules = chatProfiles(settings, probed?.name);
  const messagesRules = remembered((model) => chooseProfile({ model, baseUrl: messagesUrl }));
  const listed = remembered(listWindow);
  const chat = {
    baseURL,
    ...(apiKey !== undefined && { apiKey }),
    profile: chatRules,
    price: priceOf(settings, chatRules),
    windowTokens: windowTokens ?? ((model: string) => probed?.windowTokens(model) ?? listed(model)),
    assumesWindow: (model: string) => probed?.windowTokens(model) === undefined,
    ...(deferTools === "off" && { defersTools: () => false }),
  };
  const messages = {
    // The setting is the server's URL, `baseURL` the API's.
    baseURL: `${messagesUrl.replace(/\/+$/, "")}/v1`,
    ...(messagesKey !== undefined && { apiKey: messagesKey }),
    profile: messagesRules,
    price: priceOf(settings, messagesRules),
    windowTokens: windowTokens ?? listed,
    ...(deferTools !== "auto" && {
      defersTools: (model: string) => deferTools === "on" && searchesTools({ model }),
    }),
  };
  // The offline demo model is no upstream.
  return { ...(hasChatProvider(settings) && { chat, responses: chat }), messages };
}

/** Longest model list in bytes: gateways list hundreds of models. */
const MAX_LIST_BYTES = 2 ** 23;

/** Timeout of a request in intervals, so that suspended time counts as one. */
const MAX_CHECKS = 10;
const CHECK_MS = 100;

/** Pause before a failed request for models is retried, in milliseconds. */
const PAUSE_MS = 30_000;

interface ProbedServer {
  readonly baseURL: string;
  readonly apiKey?: string | undefined;
  readonly fetch?: typeof fetch;
  readonly now?: () => number;
}

export interface ServerProfile {
  /** Returns the profile name if known; otherwise starts a request without waiting. */
  readonly name: () => string | undefined;
  readonly windowTokens: (model: string) => number | undefined;
  /** Resolves after the first request. Never rejects. */
  readonly probed: () => Promise<void>;
  /** Cancels requests and waits for their end. */
  readonly close: () => Promise<void>;
}

/**
 * Reads context windows from a provider's model list, and detects local servers such as llama.cpp or vLLM. Providers
 * with a known address aren't requested; failures are ignored.
 */
export function serverProfile(
  { baseURL, apiKey, fetch = globalThis.fetch, now = () => performance.now() }: ProbedServer,
): ServerProfile {
  const byAddress = chooseProfile({ baseUrl: baseURL }).name;
  let isKnown = byAddress !== "none" && byAddress !== "local";
  let name: string | undefined;
  let windows: ReadonlyMap<string, number> = new Map();
  let asking: Promise<void> | undefined;
  let probedAt = -Infinity;
  const controller = new AbortController();
  const ask = async () => {
    probedAt = now();
    const late = new AbortController();
    let inspected = 0;
    const looks = setInterval(() => ++inspected === MAX_CHECKS && late.abort(), CHECK_MS);
    try {
      const response = await fetch(`${baseURL.replace(/\/+$/, "")}/models`, {
        headers: { ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }) },
        redirect: "manual",
        signal: AbortSignal.any([controller.signal, late.signal]),
      });
      const list = JSON.parse(new TextDecoder().decode(await readBytes(response, MAX_LIST_BYTES)));
      ({ profile: name, windows } = readModelList(list));
      // An empty list may be filled later.
      isKnown = response.ok && Array.isArray(list?.data) && list.data.length > 0;
    } catch {
      // The server has no model list.
    } finally {
      clearInterval(looks);
      asking = undefined;
    }
  };
  const look = () => {
    if (!isKnown && !asking && now() - probedAt >= PAUSE_MS) asking = ask();
  };
  return {
    name() {
      look();
      return name;
    },
    windowTokens(model) {
      look();
      // A local server with one model uses it for every name.
      const [only] = name === "local" && windows.size === 1 ? windows.values() : [];
      return windows.get(model) ?? only;
    },
    async probed() {
      if (!isKnown && probedAt === -Infinity) asking = ask();
      await asking;
    },
    async close() {
      isKnown = true;
      controller.abort();
      await asking;
    },
  };
}
