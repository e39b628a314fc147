import { ModelError } from "@tare/loop";
import { anthropicModel } from "@tare/loop/anthropic";
import { openaiModel } from "@tare/loop/openai";
import type { Model } from "@tare/messages";
import {
  chooseProfile,
  DEFAULT_PROVIDER,
  listPrice,
  LOCAL_PROFILE,
  MESSAGES_PROVIDER,
  type Price,
  type Profile,
} from "@tare/planner";
import type { Settings } from "./settings/settings.ts";

/** The settings that say whom the agent asks. */
export type ProviderSettings = Pick<
  Settings,
  "apiKey" | "baseUrl" | "messagesKey" | "messagesUrl" | "model" | "price" | "profile" | "profileFile"
>;

/** Whom the agent asks for a model. */
export interface AgentModels {
  /** The model that is asked unless a session names another. Default: there is none, and no agent. */
  readonly model?: string;
  /** Makes the port for a model. */
  readonly ask: (model: string) => Model;
  /** Where requests for a model go. */
  readonly address: (model: string) => string;
  /** The cache rules and prices of a model; of an empty name those of the provider. */
  readonly profile: (model: string) => Profile;
}

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
export function configuredModels(settings: ProviderSettings, server?: () => string | undefined): AgentModels {
  const { apiKey, baseUrl: baseURL = DEFAULT_PROVIDER.baseURL, messagesKey, messagesUrl, model } = settings;
  const profile = (model: string) => agentProfile(settings, model, server);
  return {
    ...(model !== undefined && { model }),
    ask: (model) => {
      if (settings.model === undefined) return noModel;
      if (!speaksMessages(settings, model)) {
        return openaiModel({ model, baseURL, ...(apiKey !== undefined && { apiKey }) });
      }
      const access = { baseURL: messagesUrl, ...(messagesKey !== undefined && { apiKey: messagesKey }) };
      return anthropicModel({ model, ...access, cacheTtlMs: profile(model).ttlMs });
    },
    address: (model) => speaksMessages(settings, model) ? messagesUrl : baseURL,
    profile,
  };
}

/** The cache rules and prices of a model at the provider of chat completions; `server` tells what that says of itself. */
export function chatProfile(
  { baseUrl = DEFAULT_PROVIDER.baseURL, profile: name, profileFile }: ProviderSettings,
  model: string,
  server?: () => string | undefined,
): Profile {
  if (profileFile) return profileFile.profile;
  return chooseProfile(name !== undefined ? { name } : { baseUrl, model, server: server?.() });
}

/** What a model costs in money: one's own price, else the list price; nothing on one's own machine. */
export function priceOf(
  { price, profileFile }: Pick<ProviderSettings, "price" | "profileFile">,
  profile: (model: string) => Profile,
): (model: string) => Price | undefined {
  const own = price ?? profileFile?.profile.price;
  return (model) => own ?? (profile(model).name === LOCAL_PROFILE ? undefined : listPrice(model));
}

function agentProfile(settings: ProviderSettings, model: string, server?: () => string | undefined): Profile {
  if (!speaksMessages(settings, model)) return chatProfile(settings, model, server);
  const { profileFile, profile: name = MESSAGES_PROVIDER.profile } = settings;
  return profileFile?.profile ?? chooseProfile({ name });
}

/** Whether a model is asked in the Messages format. */
function speaksMessages(settings: ProviderSettings, model: string): boolean {
  const { messagesKey, messagesUrl } = settings;
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
