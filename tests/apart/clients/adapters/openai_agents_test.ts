import { assert } from "@std/assert";
import {
  Agent,
  type AgentInputItem,
  MaxTurnsExceededError,
  MemorySession,
  type Model,
  OpenAIChatCompletionsModel,
  OpenAIResponsesModel,
  Runner,
  tool,
} from "@openai/agents";
import OpenAI from "openai";
import { tare } from "@tare/adapters/openai-agents";
import type { Client } from "../../../gateway/compare.ts";
import { parametersOf, QUESTION, SYSTEM, TOOLS } from "../../../gateway/long_session.ts";
import {
  compareAdapted,
  jobsAdapted,
  type Options,
  type Player,
  recallAdapted,
  restartAdapted,
  threadsAdapted,
} from "./adapted_play.ts";

const KINDS = { "chat completions": OpenAIChatCompletionsModel, responses: OpenAIResponsesModel };

const runner = new Runner({ tracingDisabled: true });

type Adapter = ReturnType<typeof adapt>;

function modelOf({ run: _, ...options }: Client, kind: keyof typeof KINDS): Model {
  return new KINDS[kind](new OpenAI({ ...options, apiKey: "key" }), "gpt-5");
}

function adapt(client: Client, kind: keyof typeof KINDS, options: Options) {
  return tare({ model: modelOf(client, kind), ...options });
}

function agentOf(client: Client, kind: keyof typeof KINDS, adapter?: Adapter) {
  const model = adapter?.model ?? modelOf(client, kind);
  const { run } = client;
  const tools = TOOLS.map((sessionTool) =>
    tool({
      name: sessionTool.name,
      description: sessionTool.description,
      parameters: parametersOf(sessionTool),
      strict: true,
      execute: (input: unknown) => run(sessionTool.name, input),
    })
  );
  return new Agent({
    name: "Reviewer",
    instructions: SYSTEM,
    model,
    tools: [...tools, ...adapter?.tools ?? []],
  });
}

function plain(items: readonly AgentInputItem[]): AgentInputItem[] {
  return JSON.parse(JSON.stringify(items).replaceAll(/"(msg|fc|resp)_\d+"/g, '"$1"'));
}

function player(kind: keyof typeof KINDS, isStreamed: boolean): Player<Adapter> {
  return {
    adapt: (client, options) => adapt(client, kind, options),
    async play(client, { adapter, question }) {
      const agent = agentOf(client, kind, adapter);
      const session = new MemorySession();
      const settings = { maxTurns: 100, session };
      if (isStreamed) {
        const result = await runner.run(agent, question, { ...settings, stream: true });
        await result.completed;
        const history = [plain(result.history), plain(await session.getItems())];
        return { answer: result.finalOutput ?? "", history };
      }
      const result = await runner.run(agent, question, settings);
      const history = [plain(result.history), plain(await session.getItems())];
      return { answer: result.finalOutput ?? "", history };
    },
  };
}

for (const kind of Object.keys(KINDS) as (keyof typeof KINDS)[]) {
  for (const [how, isStreamed] of Object.entries({ run: false, "run streamed": true })) {
    Deno.test(`tare() for OpenAI's Agents: ${how} over ${kind} keeps the same history and costs less`, async () => {
      const saved = await compareAdapted(player(kind, isStreamed));
      assert(saved > 0.1, `the adapter saved ${(100 * saved).toFixed(1)} %`);
    });
  }
}

Deno.test("tare() for OpenAI's Agents: an agent recalls evicted results", async () => {
  await recallAdapted(player("responses", false));
});

Deno.test("tare() for OpenAI's Agents: each of twelve equal jobs costs what the first does", async () => {
  await jobsAdapted(player("responses", false));
});

Deno.test("tare() for OpenAI's Agents: 50 concurrent threads share one adapter", async () => {
  await threadsAdapted(player("chat completions", false));
});

Deno.test("tare() for OpenAI's Agents: a session continues after a restart as if uninterrupted", async () => {
  await restartAdapted(async (client, { options, history, steps }) => {
    const agent = agentOf(client, "chat completions", adapt(client, "chat completions", options));
    const input = (history ?? [{ role: "user", content: QUESTION }]) as AgentInputItem[];
    try {
      return plain((await runner.run(agent, input, { maxTurns: steps })).history);
    } catch (error) {
      if (error instanceof MaxTurnsExceededError && error.state) return plain(error.state.history);
      throw error;
    }
  });
});
