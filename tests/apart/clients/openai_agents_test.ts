import {
  Agent,
  type Model,
  OpenAIChatCompletionsModel,
  OpenAIResponsesModel,
  Runner,
  tool,
} from "@openai/agents";
import OpenAI from "openai";
import { type Client, compare } from "../../gateway/compare.ts";
import { parametersOf, QUESTION, SYSTEM, TOOLS } from "../../gateway/long_session.ts";

const MODEL = "gpt-5";

function agent(model: Model, run: Client["run"]) {
  return new Agent({
    name: "Reviewer",
    instructions: SYSTEM,
    model,
    tools: TOOLS.map((sessionTool) =>
      tool({
        name: sessionTool.name,
        description: sessionTool.description,
        parameters: parametersOf(sessionTool),
        strict: true,
        execute: (input: unknown) => run(sessionTool.name, input),
      })
    ),
  });
}

const runner = new Runner({ tracingDisabled: true });

async function runAgent(model: Model, run: Client["run"]): Promise<string> {
  const result = await runner.run(agent(model, run), QUESTION, { maxTurns: 100 });
  return result.finalOutput ?? "";
}

async function streamAgent(model: Model, run: Client["run"]): Promise<string> {
  const result = await runner.run(agent(model, run), QUESTION, { maxTurns: 100, stream: true });
  await result.completed;
  return result.finalOutput ?? "";
}

const modelKinds = { "chat completions": OpenAIChatCompletionsModel, responses: OpenAIResponsesModel };

for (const [kind, ModelClass] of Object.entries(modelKinds)) {
  for (const [how, play] of Object.entries({ run: runAgent, "run streamed": streamAgent })) {
    Deno.test(`openai agents: ${how} over ${kind} costs less through the gateway and answers the same`, async () => {
      await compare(async ({ run, ...options }) => {
        const client = new OpenAI({ ...options, apiKey: "key" });
        return await play(new ModelClass(client, MODEL), run);
      });
    });
  }
}
