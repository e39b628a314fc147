import { type ModelMessage, pruneMessages } from "ai";
import type { MakePolicy } from "@tare/simulator/economy";
import { fromModelPrompt, toModelPrompt } from "./model_prompt.ts";

export interface Pruning extends Omit<Parameters<typeof pruneMessages>[0], "messages"> {
  /** Prune only before the first call of a turn. Default: before each call, as `prepareStep` does. */
  readonly eachTurn?: boolean;
  /**
   * Prune only while the messages take more tokens than this, estimated as in the SDK's guide. Default: 0.
   */
  readonly overTokens?: number;
}

/** Returns the AI SDK's `pruneMessages` as a policy, whose result is the next step's input. */
export function pruning({ eachTurn = false, overTokens = 0, ...settings }: Pruning): MakePolicy {
  return () => {
    let prompt: ModelMessage[] = [];
    let taken = 0;
    return {
      view({ messages, tools }) {
        prompt = [...prompt, ...toModelPrompt(messages.slice(taken))];
        taken = messages.length;
        const due = !eachTurn || messages.at(-1)?.role !== "tool";
        if (due && estimateTokens(prompt) > overTokens) {
          prompt = pruneMessages({ messages: prompt, ...settings });
        }
        return { messages: fromModelPrompt(prompt), tools };
      },
    };
  };
}

const characters = new WeakMap<ModelMessage, number>();

/** Returns `JSON.stringify(messages).length / 4`, caching the length of each message. */
function estimateTokens(prompt: readonly ModelMessage[]): number {
  let sum = 1;
  for (const message of prompt) {
    let length = characters.get(message);
    if (length === undefined) characters.set(message, length = JSON.stringify(message).length);
    sum += length + 1;
  }
  return sum / 4;
}
