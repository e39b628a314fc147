import { openaiModel } from "@tare/loop/openai";
import { profileNamed } from "@tare/planner";
import { DEFAULT_PROVIDER } from "@tare/planner/internal";
import { demoModel, simulator } from "@tare/simulator";
import type { Tokenizer } from "@tare/tiktoken";
import { type AgentModels, USUAL_WINDOW } from "./providers.ts";
import { lazily } from "./lazily.ts";
import type { Settings } from "./settings/settings.ts";

/** Notice at the server's start and in every turn without a provider. */
export const DEMO_NOTICE = "no language model is configured; an offline demo model with fixed rules answers";

/** Requests to it stay in this process. */
const BASE_URL = "http://127.0.0.1/v1";

/** Returns the offline demo model: a simulated provider in this process, with the real wire format. */
export function offlineDemo(
  settings: Pick<Settings, "profile" | "windowTokens">,
  tokenizer: () => Promise<Tokenizer>,
): AgentModels {
  const profile = settings.profile?.profile ?? profileNamed(DEFAULT_PROVIDER.profile);
  const provider = lazily(async () =>
    simulator({ model: { demo: demoModel() }, profile, tokenizer: await tokenizer() })
  );
  const send: typeof fetch = async (input, init) => await (await provider()).fetch(new Request(input, init));
  return {
    model: "demo",
    ask: (model) => openaiModel({ model, baseURL: BASE_URL, fetch: send }),
    efforts: () => [],
    supportsImages: () => false,
    address: () => BASE_URL,
    profile: () => profile,
    windowTokens: () => settings.windowTokens ?? USUAL_WINDOW,
    assumesWindow: () => settings.windowTokens === undefined,
    notice: DEMO_NOTICE,
  };
}
