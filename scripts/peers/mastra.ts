import { TripWire } from "@mastra/core/agent";
import { TokenLimiterProcessor, ToolCallFilter } from "@mastra/core/processors";
import type { ModelMessage } from "ai";
import type { MakePolicy } from "@tare/simulator/economy";
import { fromModelPrompt, toModelPrompt } from "./model_prompt.ts";

/** As much of a processor as is used here. */
interface Processor {
  processLLMRequest(
    request: { readonly prompt: ModelMessage[]; readonly state: Record<string, unknown> },
  ): Promise<{ readonly prompt?: ModelMessage[] } | void>;
}

/** Mastra's `TokenLimiterProcessor`. Where it stops the agent, the call has nothing but the system prompt. */
export function limiting(...options: ConstructorParameters<typeof TokenLimiterProcessor>): MakePolicy {
  return processing(() => new TokenLimiterProcessor(...options) as unknown as Processor);
}

/** Mastra's `ToolCallFilter`. */
export function filtering(...options: ConstructorParameters<typeof ToolCallFilter>): MakePolicy {
  return processing(() => new ToolCallFilter(...options) as unknown as Processor);
}

/** Puts each prompt through a processor, which keeps a state for as long as a turn lasts. */
function processing(make: () => Processor): MakePolicy {
  return () => {
    const processor = make();
    const whole: ModelMessage[] = [];
    let taken = 0;
    let state: Record<string, unknown> = {};
    return {
      async view({ messages, tools }) {
        whole.push(...toModelPrompt(messages.slice(taken)));
        taken = messages.length;
        if (messages.at(-1)?.role !== "tool") state = {};
        return {
          messages: fromModelPrompt(await processed(processor, { prompt: [...whole], state })),
          tools,
        };
      },
    };
  };
}

async function processed(
  processor: Processor,
  request: { readonly prompt: ModelMessage[]; readonly state: Record<string, unknown> },
): Promise<ModelMessage[]> {
  try {
    return (await processor.processLLMRequest(request))?.prompt ?? request.prompt;
  } catch (error) {
    if (error instanceof TripWire) return request.prompt.filter(({ role }) => role === "system");
    throw error;
  }
}
