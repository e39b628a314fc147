import { assertEquals } from "@std/assert";
import { Telemetry } from "@tare/session/telemetry";
import { recordTelemetry } from "../../tests/telemetry/recorder.ts";

Deno.test("Telemetry: records nothing and keeps request headers without an exporter", () => {
  const telemetry = new Telemetry("t");
  const request = new Request("http://a", { headers: { traceparent: "theirs" } });
  const chat = telemetry.chat({ provider: "p" });
  assertEquals([telemetry.isOn, chat.isRecording, Telemetry.inTraceOf(request, () => 1)], [false, false, 1]);
  const headers = new Headers(request.headers);
  Telemetry.withoutTrace(headers);
  assertEquals([...headers], [["traceparent", "theirs"]]);
  chat.end();
});

Deno.test("Telemetry records nested spans of a turn, its calls and tools, with usage", async () => {
  const { spans, count } = recordTelemetry();
  const telemetry = new Telemetry("t");
  const about = { provider: "p", model: "m", conversation: "c" };
  const turn = telemetry.agent({ ...about, agent: "a" });
  const settings = { temperature: 0, top_p: 1, frequency_penalty: 2, presence_penalty: 3, seed: 4 };
  const address = new URL("https://p.example/v1");
  const chat = telemetry.chat({ ...about, address, stream: true, settings, parent: turn });
  chat.begun();
  chat.begun();
  const usage = { promptTokens: 50, cachedTokens: 40, cacheWriteTokens: 5, outputTokens: 2 };
  chat.replied({ messages: () => [], finishReason: "stop", id: "r" });
  chat.took(usage);
  chat.took({ ...usage, estimated: true });
  const rewrite = (mechanism: string) => ({ mechanism, tokensBefore: 9, tokensAfter: 8 });
  const entry = { usage, predictedCachedTokens: 30, costUnits: 10, baselineCostUnits: 15 };
  const rewrites = ["planner", "truncate", "pins", "context"].map(rewrite);
  chat.planned({ rewrites, saved: { prune: 7, deferred: -3 }, entry });
  chat.planned({
    rewrites: [rewrite("planner")],
    saved: {},
    entry: { ...entry, decision: { cause: "price" } },
  });
  chat.planned({ rewrites: [], saved: {} });
  chat.end();
  chat.end("late");
  const tool = telemetry.tool({ name: "look", callId: "1", agent: "a", args: { at: "x" }, parent: turn });
  await tool.within(async () => {
    const go = Telemetry.inThisTrace();
    await Promise.resolve();
    go(() => telemetry.chat({ provider: "p" }).end("429"));
  });
  tool.end("timeout");
  turn.end();
  telemetry.recalled(2);
  telemetry.failedOpen("reply");
  assertEquals(spans.map(({ name, parent, ended, failed }) => [name, parent, ended, failed]), [
    ["invoke_agent a", undefined, true, false],
    ["chat m", "invoke_agent a", true, false],
    ["execute_tool look", "invoke_agent a", true, true],
    ["chat", "execute_tool look", true, true],
  ]);
  const { "gen_ai.response.time_to_first_chunk": seconds, ...rest } = spans[1]!.attributes;
  assertEquals([typeof seconds, rest], ["number", {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "p",
    "gen_ai.request.model": "m",
    "server.address": "p.example",
    "server.port": 443,
    "gen_ai.conversation.id": "c",
    "gen_ai.request.stream": true,
    "gen_ai.request.temperature": 0,
    "gen_ai.request.top_p": 1,
    "gen_ai.request.frequency_penalty": 2,
    "gen_ai.request.presence_penalty": 3,
    "gen_ai.request.seed": 4,
    "gen_ai.response.finish_reasons": ["stop"],
    "gen_ai.response.id": "r",
    "gen_ai.usage.input_tokens": 50,
    "gen_ai.usage.output_tokens": 2,
    "gen_ai.usage.cache_read.input_tokens": 40,
    "gen_ai.usage.cache_creation.input_tokens": 5,
    "tare.saved.tokens": 0,
    "tare.saved.cost_units": 5,
    "tare.cache.predicted_tokens": 30,
  }]);
  assertEquals(spans[1]!.events, Array(5).fill("tare.rewrite"));
  assertEquals(
    [
      count("gen_ai.client.token.usage", "gen_ai.token.type"),
      count("gen_ai.client.operation.duration", "error.type"),
      count("gen_ai.execute_tool.duration", "error.type"),
      count("gen_ai.invoke_agent.duration", "error.type"),
      count("tare.rewrites", "tare.rewrite.cause"),
      count("tare.saved.tokens", "tare.mechanism"),
      count("tare.saved.cost_units"),
      count("tare.cache.predicted_tokens"),
      count("tare.cache.reported_tokens"),
      count("tare.recalls"),
      count("tare.fail_opens", "tare.fail_open.cause"),
    ],
    [
      { input: 1, output: 1 },
      { "": 1, "429": 1 },
      { timeout: 1 },
      { "": 1 },
      { window: 1, ingestion: 1, requested: 1, trigger: 1, price: 1 },
      { prune: 7 },
      { "": 10 },
      { "": 60 },
      { "": 80 },
      { "": 2 },
      { reply: 1 },
    ],
  );
});

Deno.test("Telemetry records content only if enabled, in the conventions' form", () => {
  const { spans } = recordTelemetry();
  const call = { id: "1", type: "function", function: { name: "look", arguments: "{" } } as const;
  const prompt = {
    messages: [
      { role: "system", content: "" },
      {
        role: "user",
        content: [{ type: "text", text: "See:" }, { type: "image_url", image_url: { url: "data:secret" } }],
      },
      { role: "assistant", content: null, tool_calls: [call] },
      { role: "tool", tool_call_id: "1", content: "Seen." },
    ],
    tools: [{ type: "function", function: { name: "look", description: "Looks." } }],
  } as const;
  for (const captureContent of [false, true]) {
    const telemetry = new Telemetry("t", { captureContent });
    const chat = telemetry.chat({ provider: "p", prompt });
    chat.replied({ messages: () => [{ role: "assistant", content: "So." }] });
    chat.end();
    telemetry.chat({ provider: "p", prompt: { messages: [], tools: [] } }).end();
    telemetry.tool({ name: "look", agent: "a", args: { at: "x" } }).end();
  }
  const attributesAt = (at: number) =>
    Object.fromEntries(
      Object.entries(spans[at]!.attributes).filter(([name]) => /messages|definitions|arguments/.test(name))
        .map(([name, value]) => [name, JSON.parse(String(value))]),
    );
  assertEquals([0, 1, 2].map(attributesAt), [{}, {}, {}]);
  assertEquals([3, 4, 5].map(attributesAt), [
    {
      "gen_ai.input.messages": [
        { role: "system", parts: [] },
        { role: "user", parts: [{ type: "text", content: "See:" }, { type: "image_url" }] },
        { role: "assistant", parts: [{ type: "tool_call", id: "1", name: "look", arguments: "{" }] },
        { role: "tool", parts: [{ type: "tool_call_response", id: "1", response: "Seen." }] },
      ],
      "gen_ai.tool.definitions": [{ type: "function", name: "look" }],
      "gen_ai.output.messages": [{
        role: "assistant",
        parts: [{ type: "text", content: "So." }],
        finish_reason: "",
      }],
    },
    { "gen_ai.input.messages": [] },
    { "gen_ai.tool.call.arguments": { at: "x" } },
  ]);
});

Deno.test("Telemetry.inTraceOf() joins a request's trace; forwarded requests get their own headers", () => {
  const { spans } = recordTelemetry();
  const request = new Request("http://a", { headers: { traceparent: "theirs", accept: "*/*" } });
  Telemetry.inTraceOf(request, () => new Telemetry("t").chat({ provider: "p" }).end());
  assertEquals(spans.map(({ name, parent }) => [name, parent]), [["theirs", undefined], ["chat", "theirs"]]);
  const headers = new Headers(request.headers);
  Telemetry.withoutTrace(headers);
  assertEquals([...headers], [["accept", "*/*"]]);
});

Deno.test("Telemetry.errorTypeOf() returns an error's class and not its message", () => {
  assertEquals(
    [
      Telemetry.errorTypeOf(new DOMException("secret", "AbortError")),
      Telemetry.errorTypeOf(new DOMException("secret", "TimeoutError")),
      Telemetry.errorTypeOf(Object.assign(new Error("secret"), { code: "bad_key" })),
      Telemetry.errorTypeOf(new TypeError("secret")),
      Telemetry.errorTypeOf("secret"),
    ],
    ["cancelled", "timeout", "bad_key", "TypeError", "_OTHER"],
  );
});
