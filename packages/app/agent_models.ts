import { ModelError } from "@tare/loop";
import { anthropicModel } from "@tare/loop/anthropic";
import { openaiModel } from "@tare/loop/openai";
import type { Model } from "@tare/messages";
import { chooseProfile, listPrice, listWindow, type Price, type Profile, readTooLong } from "@tare/planner";
import { DEFAULT_PROVIDER, howToAsk, MESSAGES_PROVIDER, routeToCache } from "@tare/planner/internal";
import type { ServerProfile } from "@tare/gateway/internal";
import type { Settings } from "./settings/settings.ts";

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
  const profile = (model: string) => agentProfile(settings, model, server?.name);
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
    windowTokens: (model) => toldWindow(model) ?? listWindow(model) ?? USUAL_WINDOW,
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

/** The cache rules and prices of a model at the provider of chat completions; `server` tells what that says of itself. */
export function chatProfile(
  { baseUrl = DEFAULT_PROVIDER.baseURL, profile: own }: ProviderSettings,
  model: string,
  server?: () => string | undefined,
): Profile {
  return own?.profile ?? chooseProfile({ baseUrl, model, server: server?.() });
}

/** What a model costs in money: one's own price, else the list price; nothing on one's own machine. */
export function priceOf(
  { price, profile: own }: Pick<ProviderSettings, "price" | "profile">,
  profile: (model: string) => Profile,
): (model: string) => Price | undefined {
  const set = price ?? own?.profile.price;
  return (model) => set ?? (profile(model).name === "local" ? undefined : listPrice(model));
}

function agentProfile(settings: ProviderSettings, model: string, server?: () => string | undefined): Profile {
  if (!speaksMessages(settings, model)) return chatProfile(settings, model, server);
  return settings.profile?.profile ?? chooseProfile({ name: MESSAGES_PROVIDER.profile });
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
