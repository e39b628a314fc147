import { assert } from "@std/assert";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, type ModelMessage, stepCountIs, streamText, wrapLanguageModel } from "ai";
import { aiSdkAdapter } from "@tare/adapters/ai-sdk";
import { QUESTION } from "../../gateway/long_session.ts";
import { settings } from "../ai_sdk_settings.ts";
import { compareAdapted, type Player, recallAdapted, restartAdapted } from "./adapted_play.ts";

const MODEL = "gpt-5";

/** A history as JSON data, without the SDK's own. */
function plain(messages: readonly ModelMessage[]): unknown {
  return JSON.parse(JSON.stringify(messages));
}

const generate: Player = async ({ run, ...options }, adapting) => {
  const provider = createOpenAICompatible({ name: "test", apiKey: "key", ...options });
  const whole = settings(provider(MODEL), run);
  if (!adapting) {
    const { text, responseMessages } = await generateText(whole);
    return { answer: text, history: plain(responseMessages) };
  }
  const adapter = aiSdkAdapter(adapting.options);
  adapting.made(adapter);
  const model = wrapLanguageModel({ model: provider(MODEL), middleware: adapter.middleware });
  const tools = { ...whole.tools, recall: adapter.recall };
  const { text, responseMessages } = await generateText({ ...whole, model, tools });
  return { answer: text, history: plain(responseMessages) };
};

const stream: Player = async ({ run, ...options }, adapting) => {
  const provider = createOpenAI({ apiKey: "key", ...options });
  const whole = settings(provider.chat(MODEL), run);
  if (!adapting) {
    const result = streamText(whole);
    return { answer: await result.text, history: plain(await result.responseMessages) };
  }
  const adapter = aiSdkAdapter(adapting.options);
  adapting.made(adapter);
  const model = wrapLanguageModel({ model: provider.chat(MODEL), middleware: adapter.middleware });
  const tools = { ...whole.tools, recall: adapter.recall };
  const result = streamText({ ...whole, model, tools });
  return { answer: await result.text, history: plain(await result.responseMessages) };
};

for (const [name, player] of Object.entries({ "generateText()": generate, "streamText()": stream })) {
  Deno.test(`aiSdkAdapter(): ${name} keeps the same history and costs less`, async () => {
    const saved = await compareAdapted(player);
    assert(saved > 0.1, `the adapter saved ${(100 * saved).toFixed(1)} %`);
  });

  Deno.test(`aiSdkAdapter(): ${name} recalls what has left`, async () => {
    await recallAdapted(player);
  });
}

Deno.test("aiSdkAdapter() goes on after a restart as if nothing had happened", async () => {
  await restartAdapted(async ({ run, ...client }, { options, history, steps }) => {
    const provider = createOpenAICompatible({ name: "test", apiKey: "key", ...client });
    const { prompt: _, ...whole } = settings(provider(MODEL), run);
    const adapter = aiSdkAdapter(options);
    const model = wrapLanguageModel({ model: provider(MODEL), middleware: adapter.middleware });
    const messages = (history ?? [{ role: "user", content: QUESTION }]) as ModelMessage[];
    const tools = { ...whole.tools, recall: adapter.recall };
    const { responseMessages } = await generateText({
      ...whole,
      model,
      tools,
      messages,
      stopWhen: stepCountIs(steps),
    });
    return plain([...messages, ...responseMessages]);
  });
});
