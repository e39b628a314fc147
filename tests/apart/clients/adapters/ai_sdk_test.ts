import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, type ModelMessage, stepCountIs, streamText } from "ai";
import { fromAiSdk, tare, toAiSdk } from "@tare/adapters/ai-sdk";
import { type LedgerEntry, plannerSession, profileNamed } from "@tare/planner";
import { memoryArchive } from "@tare/prune";
import { scripted } from "@tare/simulator";
import { type Client, play } from "../../../gateway/compare.ts";
import { ANSWER, QUESTION, runTool, SCRIPT } from "../../../gateway/long_session.ts";
import { costOf, startUpstream, type Upstream } from "../../../gateway/upstream.ts";
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

  Deno.test(`tare() for the AI SDK: ${name} recalls evicted results`, async () => {
    await recallAdapted(player);
  });
}

Deno.test("tare() for the AI SDK: each of twelve equal jobs costs what the first does", async () => {
  await jobsAdapted(generate);
});

Deno.test("tare() for the AI SDK: 50 concurrent threads share one adapter", async () => {
  await threadsAdapted(generate);
});

Deno.test("tare() for the AI SDK: a session continues after a restart as if uninterrupted", async () => {
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

Deno.test("tare() for the AI SDK: Claude's prompt is cached although its client sets no breakpoints", async () => {
  const profile = profileNamed("anthropic-5m");
  const costs: number[] = [];
  for (const isAdapted of [false, true]) {
    await using upstream = await startUpstream(scripted(SCRIPT), { profile });
    const { bodies } = await play(upstream.baseURL, async ({ run, ...client }) => {
      const model = createAnthropic({ apiKey: "key", ...client })("claude-sonnet-5");
      const adapter = tare({ model, countTokens: upstream.tokenizer.count, now: upstream.now });
      const whole = settings(isAdapted ? adapter.model : model, run);
      const { text, warnings } = await generateText({
        ...whole,
        ...(isAdapted && { tools: { ...whole.tools, ...adapter.tools } }),
      });
      assertEquals([text, warnings], [ANSWER, []]);
      assertAlmostEquals(adapter.total.costUnits, isAdapted ? costOf(upstream) : 0, 0.01 * costOf(upstream));
      return text;
    });
    const breakpoints = bodies.map((body) => body.split('"cache_control"').length - 1);
    assert(
      breakpoints.every((count) => isAdapted ? count >= 2 && count <= 4 : count === 0),
      breakpoints.join(),
    );
    const served = upstream.requests.filter(({ cachedTokens }) => cachedTokens > 0).length;
    // The first two, whose beginning is too short to be cached, and two rewrites of all.
    assert(isAdapted ? served >= bodies.length - 4 : served === 0, `${served} of ${bodies.length}`);
    costs.push(costOf(upstream));
  }
  assert(costs[1]! < 0.12 * costs[0]!, costs.join());
});

Deno.test("fromAiSdk() and toAiSdk() let prepareStep send the view of a custom session with a correct ledger", async () => {
  const run = (name: string, args: unknown) => runTool(name, JSON.stringify(args));
  await using direct = await startUpstream(scripted(SCRIPT));
  const modelOf = ({ baseURL }: Upstream) => createOpenAICompatible({ name: "test", baseURL })(MODEL);
  await generateText(settings(modelOf(direct), run));

  await using upstream = await startUpstream(scripted(SCRIPT));
  const archive = memoryArchive();
  const { profile, tokenizer: { count: countTokens } } = upstream;
  const session = plannerSession({ profile, archive, countTokens });
  const ledger: (LedgerEntry | undefined)[] = [];
  const whole = settings(modelOf(upstream), run);
  const { text } = await generateText({
    ...whole,
    async prepareStep({ initialMessages, responseMessages }) {
      const history = [...initialMessages, ...responseMessages];
      const messages = fromAiSdk(history);
      const view = await session.view({ messages, tools: [] }, { nowMs: upstream.now(), recall: true });
      return { messages: toAiSdk(history, view) };
    },
    onStepEnd({ usage: { inputTokens: promptTokens = 0, outputTokens = 0, inputTokenDetails } }) {
      const cachedTokens = inputTokenDetails.cacheReadTokens ?? 0;
      ledger.push(session.sent({ promptTokens, cachedTokens, outputTokens }));
    },
  });
  assertEquals(text, ANSWER);
  const savedUnits = ledger.reduce((sum, entry) => sum + entry!.baselineCostUnits - entry!.costUnits, 0);
  const saved = costOf(direct) - costOf(upstream);
  assert(saved > 0.1 * costOf(direct), `saved ${saved}`);
  assertAlmostEquals(savedUnits / saved, 1, 0.1);
});
