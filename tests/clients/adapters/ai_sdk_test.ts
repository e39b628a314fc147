import { assert, assertEquals } from "@std/assert";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, type ModelMessage, stepCountIs, streamText } from "ai";
import { fromAiSdk, tare, toAiSdk } from "@tare/adapters/ai-sdk";
import { plannerSession } from "@tare/planner";
import { memoryArchive } from "@tare/prune";
import { scripted } from "@tare/simulator";
import type { Client } from "../../gateway/compare.ts";
import { ANSWER, QUESTION, runTool, SCRIPT } from "../../gateway/long_session.ts";
import { startUpstream } from "../../gateway/upstream.ts";
import { settings } from "../ai_sdk_settings.ts";
import {
  compareAdapted,
  jobsAdapted,
  type Options,
  type Player,
  recallAdapted,
  restartAdapted,
  threadsAdapted,
} from "./adapted_play.ts";

const MODEL = "gpt-5";

/** A history as JSON data, without the SDK's own. */
function plain(messages: readonly ModelMessage[]): unknown {
  return JSON.parse(JSON.stringify(messages));
}

type Adapter = ReturnType<typeof adaptCompatible>;

function adaptCompatible({ baseURL, fetch }: Client, options: Options) {
  const provider = createOpenAICompatible({ name: "test", apiKey: "key", baseURL, fetch });
  return tare({ model: provider(MODEL), ...options });
}

const generate: Player<Adapter> = {
  adapt: adaptCompatible,
  async play(client, { adapter, question: prompt }) {
    const { run, ...options } = client;
    const provider = createOpenAICompatible({ name: "test", apiKey: "key", ...options });
    const whole = { ...settings(provider(MODEL), run), prompt };
    const adapted = adapter && { model: adapter.model, tools: { ...whole.tools, ...adapter.tools } };
    const { text, responseMessages } = await generateText({ ...whole, ...adapted });
    return { answer: text, history: plain(responseMessages) };
  },
};

const stream: Player<Adapter> = {
  adapt({ baseURL, fetch }, options) {
    return tare({ model: createOpenAI({ apiKey: "key", baseURL, fetch }).chat(MODEL), ...options });
  },
  async play(client, { adapter, question: prompt }) {
    const { run, ...options } = client;
    const whole = { ...settings(createOpenAI({ apiKey: "key", ...options }).chat(MODEL), run), prompt };
    const adapted = adapter && { model: adapter.model, tools: { ...whole.tools, ...adapter.tools } };
    const result = streamText({ ...whole, ...adapted });
    return { answer: await result.text, history: plain(await result.responseMessages) };
  },
};

for (const [name, player] of Object.entries({ "generateText()": generate, "streamText()": stream })) {
  Deno.test(`tare() for the AI SDK: ${name} keeps the same history and costs less`, async () => {
    const saved = await compareAdapted(player);
    assert(saved > 0.1, `the adapter saved ${(100 * saved).toFixed(1)} %`);
  });

  Deno.test(`tare() for the AI SDK: ${name} recalls what has left`, async () => {
    await recallAdapted(player);
  });
}

Deno.test("tare() for the AI SDK: each of twelve equal jobs costs what the first does", async () => {
  await jobsAdapted(generate);
});

Deno.test("tare() for the AI SDK leads 100 threads at once", async () => {
  await threadsAdapted(generate);
});

Deno.test("tare() for the AI SDK goes on after a restart as if nothing had happened", async () => {
  await restartAdapted(async (client, { options, history, steps }) => {
    const adapter = adaptCompatible(client, options);
    const { prompt: _, tools, ...whole } = settings(adapter.model, client.run);
    const messages = (history ?? [{ role: "user", content: QUESTION }]) as ModelMessage[];
    const { responseMessages } = await generateText({
      ...whole,
      tools: { ...tools, ...adapter.tools },
      messages,
      stopWhen: stepCountIs(steps),
    });
    return plain([...messages, ...responseMessages]);
  });
});

Deno.test("fromAiSdk() and toAiSdk() let prepareStep send what a session of one's own shows", async () => {
  await using upstream = await startUpstream(scripted(SCRIPT));
  const archive = memoryArchive();
  const { profile, tokenizer: { count: countTokens } } = upstream;
  const session = plannerSession({ profile, archive, countTokens });
  const { text } = await generateText({
    ...settings(
      createOpenAICompatible({ name: "test", baseURL: upstream.baseURL })(MODEL),
      (name, args) => runTool(name, JSON.stringify(args)),
    ),
    async prepareStep({ messages: given, steps }) {
      const { inputTokens: promptTokens, outputTokens = 0, inputTokenDetails } = steps.at(-1)?.usage ?? {};
      if (promptTokens !== undefined) {
        session.sent({ promptTokens, cachedTokens: inputTokenDetails?.cacheReadTokens ?? 0, outputTokens });
      }
      const messages = fromAiSdk(given);
      const view = await session.view({ messages, tools: [] }, { nowMs: upstream.now() });
      return { messages: toAiSdk(given, view) };
    },
  });
  assertEquals(text, ANSWER);
  const tokens = upstream.requests.map(({ promptTokens }) => promptTokens);
  // Its results alone have 130,000.
  assert(tokens.at(-1)! < 100_000, tokens.join());
});
