import { policyNamed } from "../../../scripts/savings/policies/policies.ts";
import type { MakePolicy } from "@tare/simulator/economy";
import { pruning } from "./ai_sdk.ts";
import { clearing, summarizing } from "./langchain.ts";

const FRACTIONS = { trigger: { fraction: 0.8 }, keep: { fraction: 0.3 } };
const FOUR_THOUSAND = { trigger: { tokens: 4_000 }, keep: { messages: 20 } };

/** Other libraries' policies by name, with the settings of their documentation where there is no default. */
export const PEERS: Readonly<Record<string, MakePolicy>> = {
  "ai-default": pruning({}),
  "ai-turn-last-2": pruning({
    eachTurn: true,
    reasoning: "before-last-message",
    toolCalls: "before-last-2-messages",
  }),
  "ai-step-last-2": pruning({ reasoning: "before-last-message", toolCalls: "before-last-2-messages" }),
  "ai-step-last-1": pruning({ reasoning: "all", toolCalls: "before-last-message" }),
  "ai-100k-last-3": pruning({ overTokens: 100_000, reasoning: "all", toolCalls: "before-last-3-messages" }),
  "langchain-clear": clearing(),
  "langchain-clear-fraction": clearing(FRACTIONS),
  "langchain-clear-50k": clearing({
    trigger: { tokens: 50_000, messages: 20 },
    keep: { messages: 5 },
    clearToolInputs: true,
  }),
  "langchain-summarize-4k": summarizing(FOUR_THOUSAND, "cached"),
  "langchain-summarize-4k-cold": summarizing(FOUR_THOUSAND, "cold"),
  "langchain-summarize": summarizing(FRACTIONS, "cached"),
  "langchain-summarize-cold": summarizing(FRACTIONS, "cold"),
};

export function peerNamed(name: string): ReturnType<typeof policyNamed> {
  const make = Object.hasOwn(PEERS, name) ? PEERS[name] : undefined;
  if (make) return { make, recall: false };
  try {
    return policyNamed(name);
  } catch (error) {
    throw new RangeError(`${(error as Error).message}, ${Object.keys(PEERS).join(", ")}`);
  }
}
