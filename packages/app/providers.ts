import { ModelError } from "@tare/loop";
import { anthropicModel } from "@tare/loop/anthropic";
import { openaiModel } from "@tare/loop/openai";
import type { Model } from "@tare/messages";
import { chooseProfile, listPrice, listWindow, type Price, type Profile, readTooLong } from "@tare/planner";
import {
  DEFAULT_PROVIDER,
  howToAsk,
  MESSAGES_PROVIDER,
  readModelList,
  routeToCache,
  searchesTools,
} from "@tare/planner/internal";
import type { Settings } from "./settings/settings.ts";
import type { GatewayOptions } from "@tare/gateway";
import { readBytes } from "@tare/gateway/internal";

/** The settings that say whom the agent asks. */
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

/** Whom the agent asks for a model. */
export interface AgentModels {
  /** The model that is asked unless a session names another. Default: there is none, and no agent. */
  readonly model?: string;
  /** Makes the port for a model. */
  readonly ask: (model: string) => Model;
  /** The efforts that a model knows; none of one that doesn't reason. Nothing where nobody knows. */
  readonly efforts: (model: string) => readonly string[] | undefined;
  /** Whether a model is shown pictures in results of its calls. */
  readonly seesPictures: (model: string) => boolean;
  /** Where requests for a model go. */
  readonly address: (model: string) => string;
  /** The cache rules and prices of a model; of an empty name those of the provider. */
  readonly profile: (model: string) => Profile;
  /** The context window of a model, in tokens. */
  readonly windowTokens: (model: string) => number;
  /** Whether that is only what is published, or usual, rather than set, or told by the provider. */
  readonly assumesWindow: (model: string) => boolean;
  /** First line of every turn. Default: none. */
  readonly notice?: string;
}

/** The window of a model of which nothing is known, in tokens: few models that agents work with have a smaller one. */
export const USUAL_WINDOW = 128_000;

/** Whether there is a provider of chat completions and responses. */
export function hasChatProvider({ apiKey, baseUrl }: ProviderSettings): boolean {
  return apiKey !== undefined || baseUrl !== undefined;
}

/** Whether no provider is configured for the agent, so that it answers by rehearsal. */
export function isRehearsed(settings: ProviderSettings): boolean {
  return !hasChatProvider(settings) && settings.messagesKey === undefined && settings.model === undefined;
}

/**
 * The models behind the configured providers. With a key, or an address of its own, for Messages as well as a provider of
 * chat completions each model name goes to its own; with one of them all go there.
 */
export function configuredModels(
  settings: ProviderSettings,
  server?: Pick<ServerProfile, "name" | "windowTokens">,
): AgentModels {
  const { apiKey, baseUrl: baseURL = DEFAULT_PROVIDER.baseURL, messagesKey, messagesUrl, model } = settings;
  const profile = agentProfiles(settings, server?.name);
  const listed = remembered(listWindow);
  const told = new Map<string, number>();
  const ask = (model: string) => {
    if (settings.model === undefined) return noModel;
    const { protocol: usual, reasoning, thinking } = howToAsk({ model, baseURL });
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
  const toldWindow = (model: string) =>
    settings.windowTokens ?? told.get(model) ??
      (speaksMessages(settings, model) ? undefined : server?.windowTokens(model));
  return {
    ...(model !== undefined && { model }),
    ask: (model) => tellingWindow(ask(model), (tokens) => told.set(model, tokens)),
    efforts: (model) => howToAsk({ model, baseURL }).efforts,
    seesPictures: (model) => howToAsk({ model, baseURL }).seesPictures,
    address: (model) => speaksMessages(settings, model) ? messagesUrl : baseURL,
    profile,
    windowTokens: (model) => toldWindow(model) ?? listed(model) ?? USUAL_WINDOW,
    assumesWindow: (model) => toldWindow(model) === undefined,
  };
}

/** A turn of many steps shall not end because its provider is overloaded for a minute. */
const BUSY_WAITS_MS = [1_000, 4_000, 8_000, 16_000, 30_000];

/** A model whose refusals tell how much it reads. */
function tellingWindow(model: Model, told: (tokens: number) => void): Model {
  return async function* (request) {
    try {
      yield* model(request);
    } catch (error) {
      const tokens = error instanceof ModelError ? readTooLong(error.message)?.windowTokens : undefined;
      if (tokens !== undefined) told(tokens);
      throw error;
    }
  };
}

/**
 * Returns the cache rules and prices of models at the provider of chat completions; `server` returns the profile that it
 * reports itself.
 */
function chatProfiles(
  { baseUrl = DEFAULT_PROVIDER.baseURL, profile: own }: ProviderSettings,
  server?: () => string | undefined,
): (model: string) => Profile {
  if (own) return () => own.profile;
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

/** Most results that {@linkcode remembered} holds: clients may name any model. */
const MOST_REMEMBERED = 1_000;

/** Returns a function of a text that computes each result once, as long as it is among the newest. */
function remembered<T>(work: (text: string) => T): (text: string) => T {
  const known = new Map<string, T>();
  return (text) => {
    if (known.has(text)) return known.get(text)!;
    if (known.size >= MOST_REMEMBERED) known.clear();
    const result = work(text);
    known.set(text, result);
    return result;
  };
}

/** What a model costs in money: one's own price, else the list price; nothing on one's own machine. */
export function priceOf(
  { price, profile: own }: Pick<ProviderSettings, "price" | "profile">,
  profile: (model: string) => Profile,
): (model: string) => Price | undefined {
  const set = price ?? own?.profile.price;
  const listed = remembered(listPrice);
  return (model) => set ?? (profile(model).name === "local" ? undefined : listed(model));
}

function agentProfiles(
  settings: ProviderSettings,
  server?: () => string | undefined,
): (model: string) => Profile {
  const chat = chatProfiles(settings, server);
  const messages = settings.profile?.profile ?? chooseProfile({ name: MESSAGES_PROVIDER.profile });
  return (model) => speaksMessages(settings, model) ? messages : chat(model);
}

/** Whether a model is asked in the Messages format. */
function speaksMessages(settings: ProviderSettings, model: string): boolean {
  const { messagesKey, messagesUrl, protocol } = settings;
  if (protocol === "messages") return true;
  const isThere = messagesKey !== undefined || messagesUrl !== MESSAGES_PROVIDER.baseURL;
  return !hasChatProvider(settings) || (isThere && MESSAGES_PROVIDER.models.test(model));
}

/** What the agent says where only the gateway has a provider. */
const noModel: Model = () => {
  throw new ModelError(
    "no_such_model",
    "Cannot ask a model: TARE_MODEL isn't set, so that there is only a gateway.",
  );
};

/**
 * Returns the upstreams of the gateway by protocol. Agents ask for any model, and those that speak Messages are cached by
 * other rules.
 *
 * @param asked What the provider of chat completions reports of its models. Absent: there is no such provider.
 */
export function upstreamsOf(
  settings: Settings,
  asked: ServerProfile | undefined,
): GatewayOptions["upstreams"] {
  const { apiKey, baseUrl: baseURL = DEFAULT_PROVIDER.baseURL } = settings;
  const { messagesKey, messagesUrl, windowTokens, deferTools } = settings;
  const chatRules = chatProfiles(settings, asked?.name);
  const messagesRules = remembered((model) => chooseProfile({ model, baseUrl: messagesUrl }));
  const listed = remembered(listWindow);
  const chat = {
    baseURL,
    ...(apiKey !== undefined && { apiKey }),
    profile: chatRules,
    price: priceOf(settings, chatRules),
    windowTokens: windowTokens ?? ((model: string) => asked?.windowTokens(model) ?? listed(model)),
    assumesWindow: (model: string) => asked?.windowTokens(model) === undefined,
  };
  const messages = {
    // This address names the server, the other one the API.
    baseURL: `${messagesUrl.replace(/\/+$/, "")}/v1`,
    ...(messagesKey !== undefined && { apiKey: messagesKey }),
    profile: messagesRules,
    price: priceOf(settings, messagesRules),
    windowTokens: windowTokens ?? listed,
    ...(deferTools !== "auto" && {
      searchesTools: (model: string) => deferTools === "on" && searchesTools({ model }),
    }),
  };
  // The rehearsal provider is nobody's upstream.
  return { ...(hasChatProvider(settings) && { chat, responses: chat }), messages };
}

/** Longest list of models that is read, in bytes: who passes on others' models has hundreds. */
const MAX_LIST_BYTES = 2 ** 23;

/** An answer may take so many looks of so many milliseconds: time for which this process stood still is one of them. */
const MOST_LOOKS = 10;
const LOOK_MS = 100;

/** A server that gave no list is asked again after so long, in milliseconds. */
const PAUSE_MS = 30_000;

/** Whom to ask, and how. */
interface AskedServer {
  readonly baseURL: string;
  readonly apiKey?: string | undefined;
  /** Default: the global `fetch`. */
  readonly fetch?: typeof fetch;
  /** Milliseconds since some fixed moment. Default: `performance.now`. */
  readonly now?: () => number;
}

/** What a server says of itself. */
export interface ServerProfile {
  /** Name of the profile that it points to, as far as is known by now; asks the server, without waiting, if it isn't. */
  readonly name: () => string | undefined;
  /** The context window of a model in tokens, as far as that is known by now. */
  readonly windowTokens: (model: string) => number | undefined;
  /** Settles when the server has been asked for the first time; never rejects. */
  readonly asked: () => Promise<void>;
  /** Asks no more, and settles when nothing is asked any longer. */
  readonly close: () => Promise<void>;
}

/**
 * Finds out from a provider's list of models how much each reads, and whether it is a server on one's own machine, such
 * as llama.cpp or vLLM: their ports and the names of their models say nothing. A provider that its address tells isn't asked; one that
 * doesn't answer changes nothing.
 */
export function serverProfile(
  { baseURL, apiKey, fetch = globalThis.fetch, now = () => performance.now() }: AskedServer,
): ServerProfile {
  const byAddress = chooseProfile({ baseUrl: baseURL }).name;
  let isKnown = byAddress !== "none" && byAddress !== "local";
  let name: string | undefined;
  let windows: ReadonlyMap<string, number> = new Map();
  let asking: Promise<void> | undefined;
  let askedAt = -Infinity;
  const controller = new AbortController();
  const ask = async () => {
    askedAt = now();
    const late = new AbortController();
    let looked = 0;
    const looks = setInterval(() => ++looked === MOST_LOOKS && late.abort(), LOOK_MS);
    try {
      const response = await fetch(`${baseURL.replace(/\/+$/, "")}/models`, {
        headers: { ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }) },
        redirect: "manual",
        signal: AbortSignal.any([controller.signal, late.signal]),
      });
      const list = JSON.parse(new TextDecoder().decode(await readBytes(response, MAX_LIST_BYTES)));
      ({ profile: name, windows } = readModelList(list));
      // A list without models may have some later.
      isKnown = response.ok && Array.isArray(list?.data) && list.data.length > 0;
    } catch {
      // Whatever answers there says nothing of itself.
    } finally {
      clearInterval(looks);
      asking = undefined;
    }
  };
  const look = () => {
    if (!isKnown && !asking && now() - askedAt >= PAUSE_MS) asking = ask();
  };
  return {
    name() {
      look();
      return name;
    },
    windowTokens(model) {
      look();
      // One's own server answers with the one that it has, however it is called.
      const [only] = name === "local" && windows.size === 1 ? windows.values() : [];
      return windows.get(model) ?? only;
    },
    async asked() {
      if (!isKnown && askedAt === -Infinity) asking = ask();
      await asking;
    },
    async close() {
      isKnown = true;
      controller.abort();
      await asking;
    },
  };
}
