import { assertEquals, assertRejects } from "@std/assert";
import { ModelError } from "@tare/loop";
import { anthropicModel, type AnthropicModelOptions } from "@tare/loop/anthropic";
import { openaiModel } from "@tare/loop/openai";
import type { KeepablePrompt, Model } from "@tare/messages";
import { delta, reply as chatReply, REQUEST } from "../provider_fixture_test.ts";
import { call, reply, text, thinking } from "./fixture_test.ts";

const MARK = { cache_control: { type: "ephemeral" } };
const HOUR = { cache_control: { type: "ephemeral", ttl: "1h" } };

const USAGE = {
  usage: {
    input_tokens: 1,
    cache_read_input_tokens: 90,
    cache_creation_input_tokens: 9,
    cache_creation: { ephemeral_5m_input_tokens: 2, ephemeral_1h_input_tokens: 7 },
    output_tokens: 0,
  },
};

async function keepableOf(
  answers: readonly Response[],
  options: Partial<AnthropicModelOptions> = {},
  make: (options: AnthropicModelOptions) => Model = (options) =>
    anthropicModel({ maxTokens: 100, ...options }),
) {
  const bodies: Record<string, unknown>[] = [];
  const waiting = [...answers];
  const fetch: typeof globalThis.fetch = async (input, init) => {
    bodies.push(await new Request(input, init).json());
    return waiting.shift() ?? Response.json({ error: { message: "Nothing is left." } }, { status: 500 });
  };
  const retained: KeepablePrompt[] = [];
  const model = make({ model: "m", baseURL: "http://provider", fetch, ...options });
  for await (const _ of model({ ...REQUEST, keepable: (prompt) => retained.push(prompt) }));
  return { retained, bodies };
}

const { signal } = new AbortController();

Deno.test("cache keep-alive: a prompt is sent again without a reply, and the usage is returned", async () => {
  const { retained: [prompt], bodies } = await keepableOf([
    reply("end_turn", ...text(0, "ok")),
    Response.json(USAGE),
  ]);
  assertEquals(prompt?.answerBlocks, 1);
  assertEquals(await prompt?.keepAliveBytes("exact", signal), {
    promptTokens: 100,
    cachedTokens: 90,
    cacheWriteTokens: 9,
    hourWriteTokens: 7,
    outputTokens: 0,
  });
  assertEquals(bodies[1], { ...bodies[0], max_tokens: 0, stream: false });
});

Deno.test("extended keep-alive: the request contains the reply with a one-hour breakpoint, and answers its calls with a dot", async () => {
  const blocks = [...thinking(0, "Hm.", "sig"), ...text(1, "I look."), ...call(2, "c1", '{"a":1}')];
  const { retained: [prompt], bodies } = await keepableOf([
    reply("tool_use", ...blocks),
    Response.json(USAGE),
  ]);
  assertEquals(prompt?.answerBlocks, 3);
  await prompt?.keepAliveBytes("upgrade", signal);
  assertEquals(bodies[0]?.messages, [{ role: "user", content: [{ type: "text", text: "Hi", ...MARK }] }]);
  assertEquals([bodies[1]?.max_tokens, bodies[1]?.messages], [0, [
    { role: "user", content: [{ type: "text", text: "Hi" }] },
    {
      role: "assistant",
      content: [
        { type: "thinking", thinking: "Hm.", signature: "sig" },
        { type: "text", text: "I look." },
        { type: "tool_use", id: "c1", name: "f", input: { a: 1 }, ...HOUR },
      ],
    },
    { role: "user", content: [{ type: "tool_result", tool_use_id: "c1", content: "." }] },
  ]]);
});

Deno.test("cache keep-alive: paused and cut-off replies are never extended, and a fixed thinking budget never kept alive", async () => {
  const cut = await keepableOf([reply("max_tokens", ...text(0, "ok"))]);
  assertEquals(cut.retained.map(({ answerBlocks }) => answerBlocks), [Infinity]);
  const paused = await keepableOf([
    reply("pause_turn", ...text(0, "I")),
    reply("end_turn", ...text(0, "see.")),
    Response.json(USAGE),
  ]);
  assertEquals(paused.retained.map(({ answerBlocks }) => answerBlocks), [Infinity]);
  await paused.retained[0]?.keepAliveBytes("exact", signal);
  assertEquals(paused.bodies[2], { ...paused.bodies[1], max_tokens: 0, stream: false });
  const thinks = { thinking: { type: "enabled", budget_tokens: 50 } };
  assertEquals((await keepableOf([reply("end_turn", ...text(0, "ok"))], { extraBody: thinks })).retained, []);
  const chat = chatReply(delta({ content: "ok" }), delta({}, "stop"));
  assertEquals((await keepableOf([chat], {}, openaiModel)).retained, []);
});

Deno.test("cache keep-alive: a failed request isn't retried, and its error contains no key", async () => {
  for (const [status, code] of [[400, "bad_request"], [529, "provider_error"]] as const) {
    const failed = Response.json({ error: { message: "sk-1 says no" } }, { status });
    const outcome = await keepableOf([reply("end_turn", ...text(0, "ok")), failed], {
      apiKey: "sk-1",
      maxRetries: 2,
    });
    const error = await assertRejects(
      () => outcome.retained[0]!.keepAliveBytes("exact", signal),
      ModelError,
      "*** says no",
    );
    assertEquals([error.code, outcome.bodies.length], [code, 2]);
  }
});
