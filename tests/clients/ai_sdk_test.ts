import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, jsonSchema, type LanguageModel, stepCountIs, streamText, tool } from "ai";
import { type Client, compare } from "../gateway/compare.ts";
import { parametersOf, QUESTION, SYSTEM, TOOLS } from "../gateway/long_session.ts";

const MODEL = "gpt-5";

function settings(model: LanguageModel, run: Client["run"]) {
  return {
    model,
    system: SYSTEM,
    prompt: QUESTION,
    tools: Object.fromEntries(TOOLS.map((sessionTool) => [
      sessionTool.name,
      tool({
        description: sessionTool.description,
        inputSchema: jsonSchema<Record<string, string>>(parametersOf(sessionTool)),
        execute: (input: Record<string, string>) => run(sessionTool.name, input),
      }),
    ])),
    stopWhen: stepCountIs(100),
  };
}

Deno.test("AI SDK: generateText() with the OpenAI-compatible provider costs less and answers the same", async () => {
  await compare(async ({ run, ...options }) => {
    const provider = createOpenAICompatible({ name: "test", apiKey: "key", ...options });
    return (await generateText(settings(provider(MODEL), run))).text;
  });
});

Deno.test("AI SDK: streamText() with the OpenAI provider's chat model costs less and answers the same", async () => {
  await compare(async ({ run, ...options }) => {
    const provider = createOpenAI({ apiKey: "key", ...options });
    return await streamText(settings(provider.chat(MODEL), run)).text;
  });
});

Deno.test("AI SDK: generateText() with stored responses costs less and answers the same", async () => {
  await compare(async ({ run, ...options }) => {
    const provider = createOpenAI({ apiKey: "key", ...options });
    return (await generateText(settings(provider.responses(MODEL), run))).text;
  });
});

Deno.test("AI SDK: streamText() with responses that aren't stored costs less and answers the same", async () => {
  await compare(async ({ run, ...options }) => {
    const provider = createOpenAI({ apiKey: "key", ...options });
    return await streamText({
      ...settings(provider.responses(MODEL), run),
      providerOptions: { openai: { store: false } },
    }).text;
  });
});
