import { openaiModel } from "@tare/loop/openai";
import { profileNamed } from "@tare/planner";
import { DEFAULT_PROVIDER } from "@tare/planner/internal";
import { rehearsal, simulator } from "@tare/simulator";
import type { Tokenizer } from "@tare/tiktoken";
import { type AgentModels, USUAL_WINDOW } from "./agent_models.ts";
import { lazily } from "./lazily.ts";
import { ANSWER_GRACE_MS, listenAt, type Listening, serverUrl } from "./listen.ts";
import type { Settings } from "./settings/settings.ts";

/** Notice of the server at its start, and of every turn, while no provider is configured. */
export const REHEARSAL_NOTICE =
  "no language model is configured; a rehearsal model that only follows fixed rules answers";

/** The provider of the agent's models. */
export interface AgentProvider extends AgentModels {
  /** First line of every turn. Default: none. */
  readonly notice?: string;
  readonly close: () => Promise<void>;
}

/** The rehearsal provider: a real HTTP server on loopback, so that the wire format is the real one. */
export function startRehearsal(
  tokenizer: () => Promise<Tokenizer>,
  { settings, limits, onError }: Listening & { readonly settings: Settings },
): AgentProvider {
  const profile = settings.profile?.profile ?? profileNamed(DEFAULT_PROVIDER.profile);
  const provider = lazily(async () =>
    simulator({ model: { rehearsal: rehearsal() }, profile, tokenizer: await tokenizer() })
  );
  const fetch = async (request: Request) => await (await provider()).fetch(request);
  const server = listenAt({ hostname: "127.0.0.1", port: 0 }, { fetch, limits, onError });
  const baseURL = `${serverUrl(server.addr)}/v1`;
  return {
    model: "rehearsal",
    ask: (model) => openaiModel({ model, baseURL }),
    efforts: () => [],
    seesPictures: () => false,
    address: () => baseURL,
    profile: () => profile,
    windowTokens: () => settings.windowTokens ?? USUAL_WINDOW,
    assumesWindow: () => settings.windowTokens === undefined,
    notice: REHEARSAL_NOTICE,
    close: () => server.close({ graceMs: ANSWER_GRACE_MS }),
  };
}
