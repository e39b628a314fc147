import { type ModelMessage, pruneMessages } from "ai";
import type { MakePolicy } from "@tare/simulator/economy";
import { fromModelPrompt, toModelPrompt } from "./model_prompt.ts";

/** How messages are pruned, and at which calls. */
export interface Pruning extends Omit<Parameters<typeof pruneMessages>[0], "messages"> {
  /** Only before the first call of a turn, as a route handler does. Default: before each call, as `prepareStep` does. */
  readonly eachTurn?: boolean;
  /** Only while the messages take more tokens than this, estimated as the SDK's guide does. Default: 0. */
  readonly overTokens?: number;
}

/** The AI SDK's `pruneMessages`. What was pruned stays so: its result is what the next step starts from. */
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

/** `JSON.stringify(messages).length / 4`, remembering the length of each message. */
function estimateTokens(prompt: readonly ModelMessage[]): number {
  let sum = 1;
  for (const message of prompt) {
    let length = characters.get(message);
    if (length === undefined) characters.set(message, length = JSON.stringify(message).length);
    sum += length + 1;
  }
  return sum / 4;
}
