import { gateway } from "@tare/gateway";
import { estimateTokens, type Message } from "@tare/messages";
import { hashText } from "@tare/messages/internal";
import { profileNamed } from "@tare/planner";
import { DEFAULT_PROVIDER } from "@tare/planner/internal";
import { simulator } from "@tare/simulator";
import { seeded } from "./seeded.ts";
import { word } from "./words.ts";

/** Parameters of the simulation: conversations of one agent with the same instructions and tools. */
export interface RoutingScene {
  /** Machines of the provider, each with a cache of its own. */
  readonly shards: number;
  readonly conversations: number;
  readonly calls: number;
  readonly betweenMs: number;
  readonly throughTare: boolean;
}

export const ROUTING_SCENE: Omit<RoutingScene, "throughTare"> = {
  shards: 8,
  conversations: 12,
  calls: 40,
  betweenMs: 15_000,
};

const MODEL = "gpt-5.4";

/**
 * Returns the share of cached prompt tokens of a client without cache keys, directly or through Tare, which
 * adds them.
 */
export async function measureRouting(scene: RoutingScene): Promise<number> {
  let nowMs = 0;
  const provider = simulator({
    model: () => ({ content: "It is done." }),
    // A word is a token: the routing is measured, not the counting.
    tokenizer: { encode: (text) => text.split(" ").map(hashText) },
    shards: scene.shards,
    now: () => nowMs,
  });
  const fetchFrom = (...args: Parameters<typeof fetch>) => provider.fetch(new Request(...args));
  const { fetch: passed } = gateway({
    upstreams: {
      chat: { baseURL: DEFAULT_PROVIDER.baseURL, profile: profileNamed(DEFAULT_PROVIDER.profile) },
    },
    fetch: fetchFrom,
    planning: { evict: "lossless" },
    countTokens: () => Promise.resolve(estimateTokens),
    now: () => nowMs,
  });
  const random = seeded(1);
  const words = (length: number) => Array.from({ length }, () => word(random)).join(" ");
  const front: Message = { role: "system", content: words(4_000) };
  const histories = Array.from(
    { length: scene.conversations },
    (): Message[] => [front, { role: "user", content: words(100) }],
  );
  for (let call = 0; call < scene.calls; call++) {
    for (const history of histories) {
      nowMs += scene.betweenMs / scene.conversations;
      const request = new Request(`${DEFAULT_PROVIDER.baseURL}/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json", authorization: "Bearer key" },
        body: JSON.stringify({ model: MODEL, messages: history }),
      });
      const response = await (scene.throughTare ? passed(request) : fetchFrom(request));
      const { choices: [{ message }] } = await response?.json();
      history.push(message, { role: "user", content: words(400) });
    }
  }
  const sum = (figure: (call: typeof provider.requests[number]) => number) =>
    provider.requests.reduce((total, call) => total + figure(call), 0);
  return sum(({ cachedTokens }) => cachedTokens) / sum(({ promptTokens }) => promptTokens);
}
