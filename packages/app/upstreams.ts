import type { GatewayOptions } from "@tare/gateway";
import type { ServerProfile } from "@tare/gateway/internal";
import { chooseProfile, listWindow } from "@tare/planner";
import { DEFAULT_PROVIDER, searchesTools } from "@tare/planner/internal";
import { chatProfile, hasChatProvider, priceOf } from "./agent_models.ts";
import type { Settings } from "./settings/settings.ts";

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
  const chatRules = (model: string) => chatProfile(settings, model, asked?.name);
  const messagesRules = (model: string) => chooseProfile({ model, baseUrl: messagesUrl });
  const chat = {
    baseURL,
    ...(apiKey !== undefined && { apiKey }),
    profile: chatRules,
    price: priceOf(settings, chatRules),
    windowTokens: windowTokens ?? ((model: string) => asked?.windowTokens(model) ?? listWindow(model)),
    assumesWindow: (model: string) => asked?.windowTokens(model) === undefined,
  };
  const messages = {
    // This address names the server, the other one the API.
    baseURL: `${messagesUrl.replace(/\/+$/, "")}/v1`,
    ...(messagesKey !== undefined && { apiKey: messagesKey }),
    profile: messagesRules,
    price: priceOf(settings, messagesRules),
    windowTokens: windowTokens ?? listWindow,
    ...(deferTools !== "auto" && {
      searchesTools: (model: string) => deferTools === "on" && searchesTools({ model }),
    }),
  };
  // The rehearsal provider is nobody's upstream.
  return { ...(hasChatProvider(settings) && { chat, responses: chat }), messages };
}
