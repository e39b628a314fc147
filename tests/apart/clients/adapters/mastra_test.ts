import { assert } from "@std/assert";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { Agent } from "@mastra/core/agent";
import type { MastraModelConfig } from "@mastra/core/llm";
import { createTool } from "@mastra/core/tools";
import { jsonSchema } from "ai";
import { tare } from "@tare/adapters/mastra";
import type { Client } from "../../../gateway/compare.ts";
import { parametersOf, SYSTEM, TOOLS } from "../../../gateway/long_session.ts";
import {
  compareAdapted,
  jobsAdapted,
  type Options,
  type Player,
  recallAdapted,
  threadsAdapted,
} from "./adapted_play.ts";

type Adapter = ReturnType<typeof tare>;

function agentOf({ run, ...options }: Client, adapter?: Adapter) {
  const provider = createOpenAICompatible({ name: "test", apiKey: "key", includeUsage: true, ...options });
  const tools = Object.fromEntries(TOOLS.map((sessionTool) => [
    sessionTool.name,
    createTool({
      id: sessionTool.name,
      description: sessionTool.description,
      inputSchema: jsonSchema<Record<string, string>>(parametersOf(sessionTool)),
      execute: (input) => Promise.resolve(run(sessionTool.name, input)),
    }),
  ]));
  return new Agent({
    id: "reviewer",
    name: "Reviewer",
    instructions: SYSTEM,
    // Mastra has types of an earlier version of the provider.
    model: provider("gpt-5") as unknown as MastraModelConfig,
    tools: { ...tools, ...adapter?.tools },
    ...(adapter && { inputProcessors: [adapter.processor], errorProcessors: [adapter.processor] }),
  });
}

/** Returns a history as JSON data, without times and the model's name. */
function plain(history: unknown): unknown {
  return JSON.parse(
    JSON.stringify(history, (key, value) => key === "createdAt" || key === "model" ? undefined : value),
  );
}

const player: Player<Adapter> = {
  adapt: (_: Client, options: Options) => tare({ model: "gpt-5", ...options }),
  async play(client, { adapter, question }) {
    const agent = agentOf(client, adapter);
    const { steps, messages } = await agent.generate(question, { maxSteps: 100 });
    const history = messages.map(({ role, content }) => ({ role, content }));
    return { answer: steps.at(-1)?.text ?? "", history: plain(history) };
  },
};

Deno.test("tare() for Mastra: an agent keeps the same history and costs less", async () => {
  const saved = await compareAdapted(player);
  assert(saved > 0.1, `the adapter saved ${(100 * saved).toFixed(1)} %`);
});

Deno.test("tare() for Mastra: an agent recalls evicted results", async () => {
  await recallAdapted(player);
});

Deno.test("tare() for Mastra: each of twelve equal jobs costs what the first does", async () => {
  await jobsAdapted(player);
});

Deno.test("tare() for Mastra: 50 concurrent threads share one adapter", async () => {
  await threadsAdapted(player);
});
