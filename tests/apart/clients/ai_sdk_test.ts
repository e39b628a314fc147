import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, streamText } from "ai";
import { compare } from "../../gateway/compare.ts";
import { settings } from "./ai_sdk_settings.ts";

const MODEL = "gpt-5";

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
