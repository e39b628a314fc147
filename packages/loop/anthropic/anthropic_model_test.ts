import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { ModelError, run } from "@tare/loop";
import { anthropicModel } from "@tare/loop/anthropic";
import type { Message, Model, ModelSettings } from "@tare/messages";
import { collect, outline, tool } from "../fixture_test.ts";
import { completed, stream } from "../provider_fixture_test.ts";
import { refusedBy } from "../../../tests/refused.ts";
import { ask, block, call, end, reply, sse, START, text, thinking } from "./fixture_test.ts";

const MARK = { cache_control: { type: "ephemeral" } };

Deno.test("anthropicModel() streams text, thinking and calls, and completes with usage", async () => {
  const outcome = await ask(reply(
    "tool_use",
    ...thinking(0, "Let me see.", "sig"),
    { type: "ping" },
    ...text(1, "Hel", "lo."),
    ...call(2, "c1", "", '{"a"', ":1}"),
    ...call(3, "c2"),
  ));
  assertEquals(outcome.events, [
    { type: "reasoning_delta", text: "Let me see." },
    { type: "text_delta", text: "Hel" },
    { type: "text_delta", text: "lo." },
    { type: "tool_call_delta", index: 0, id: "c1", name: "f" },
    { type: "tool_call_delta", index: 0, arguments: "" },
    { type: "tool_call_delta", index: 0, arguments: '{"a"' },
    { type: "tool_call_delta", index: 0, arguments: ":1}" },
    { type: "tool_call_delta", index: 1, id: "c2", name: "f" },
    {
      type: "completed",
      message: {
        role: "assistant",
        content: "Hello.",
        reasoning_content: "Let me see.",
        tool_calls: [
          { id: "c1", type: "function", function: { name: "f", arguments: '{"a":1}' } },
          { id: "c2", type: "function", function: { name: "f", arguments: "{}" } },
        ],
        carried: {
          items: [
            { type: "thinking", thinking: "Let me see.", signature: "sig" },
            { type: "text", text: "Hello." },
            { type: "tool_use", id: "c1" },
            { type: "tool_use", id: "c2" },
          ],
          by: "messages 127.0.0.1 m",
        },
      },
      finishReason: "tool_calls",
      usage: { promptTokens: 8, cachedTokens: 5, cacheWriteTokens: 0, outputTokens: 7 },
    },
  ]);
});

Deno.test("anthropicModel() sends instructions, tools, parts and grouped results in the API's format", async () => {
  const messages = [
    { role: "system", content: "Be brief." },
    { role: "developer", content: "And kind." },
    {
      role: "user",
      content: [
        { type: "text", text: "Look" },
        { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } },
        { type: "image_url", image_url: { url: "https://host/b.png" } },
        { type: "file", file: { file_data: "data:application/pdf;base64,BBBB" } },
      ],
    },
    {
      role: "assistant",
      content: "I call.",
      reasoning_content: "unsigned",
      tool_calls: [
        { id: "1", type: "function", function: { name: "f", arguments: '{"x":1}' } },
        { id: "2", type: "function", function: { name: "f", arguments: '{"x' } },
      ],
    },
    { role: "tool", tool_call_id: "1", content: "one" },
    { role: "tool", tool_call_id: "2", content: [{ type: "text", text: "two" }] },
    { role: "user", content: "" },
    { role: "user", content: "Go on." },
  ] as Message[];
  const tools = [
    { type: "function", function: { name: "f", description: "Does.", parameters: { type: "object" } } },
    { type: "function", function: { name: "g" } },
  ] as const;
  const outcome = await ask(reply("end_turn", ...text(0, "ok")), {
    apiKey: "sk-1",
    headers: { "anthropic-beta": "b" },
    extraBody: { temperature: 0 },
    request: { messages, tools },
  });
  assertEquals(outcome.bodies, [{
    path: "/v1/messages",
    model: "m",
    max_tokens: 100,
    system: [{ type: "text", text: "Be brief." }, { type: "text", text: "And kind.", ...MARK }],
    tools: [
      { name: "f", description: "Does.", input_schema: { type: "object", properties: {} } },
      { name: "g", input_schema: { type: "object", properties: {} }, ...MARK },
    ],
    messages: [
      {
        role: "user",
        content: [
          { type: "text", text: "Look" },
          { type: "image", source: { type: "base64", media_type: "image/png", data: "AAAA" } },
          { type: "image", source: { type: "url", url: "https://host/b.png" } },
          { type: "document", source: { type: "base64", media_type: "application/pdf", data: "BBBB" } },
        ],
      },
      {
        role: "assistant",
        content: [
          { type: "text", text: "I call." },
          { type: "tool_use", id: "1", name: "f", input: { x: 1 } },
          { type: "tool_use", id: "2", name: "f", input: { invalid_arguments: '{"x' } },
        ],
      },
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: "1", content: "one" },
          { type: "tool_result", tool_use_id: "2", content: [{ type: "text", text: "two" }] },
          { type: "text", text: "Go on.", ...MARK },
        ],
      },
    ],
    stream: true,
    temperature: 0,
  }]);
  const { headers } = outcome;
  assertEquals([headers.get("x-api-key"), headers.get("authorization")], [null, "Bearer sk-1"]);
  assertEquals([headers.get("anthropic-beta"), headers.has("anthropic-version")], ["b", true]);
});

Deno.test("anthropicModel() sends no key without one, and no cache breakpoints or one-hour ones as configured", async () => {
  const hour = { cache_control: { type: "ephemeral", ttl: "1h" } };
  for (const [cacheTtlMs, mark] of [[0, {}], [300_000, MARK], [3_600_000, hour]] as const) {
    const { bodies, headers } = await ask(reply("end_turn", ...text(0, "ok")), { cacheTtlMs });
    assertEquals([headers.has("x-api-key"), headers.has("authorization")], [false, false]);
    assertEquals(bodies[0]?.messages, [{ role: "user", content: [{ type: "text", text: "Hi", ...mark }] }]);
  }
});

Deno.test("anthropicModel() reports parts that the API doesn't support", async () => {
  const named = async (part: object) => {
    const messages = [{ role: "user", content: [part] }] as Message[];
    const { bodies: [body] } = await ask(reply("end_turn", ...text(0, "ok")), {
      cacheTtlMs: 0,
      request: { messages },
    });
    const [{ content: [block] }] = body?.messages as [{ content: [{ type: string; text: string }] }];
    assertEquals(block.type, "text");
    return block.text;
  };
  const why = "omitted, unsupported by this provider's format]";
  const recording = { type: "input_audio", input_audio: { data: "AAAA", format: "wav" } };
  assertEquals(await named(recording), `[input_audio: ${why}`);
  assertEquals(await named({ type: "image_url", image_url: { url: "file:///a.png" } }), `[an image: ${why}`);
  assertEquals(
    await named({ type: "image_url", image_url: { url: "data:image/bmp;base64,AAAA" } }),
    `[an image, image/bmp, 3 bytes: ${why}`,
  );
  assertEquals(await named({ type: "file", file: { file_id: "f_1" } }), `[a file: ${why}`);
});

Deno.test({
  name: "anthropicModel() needs only network access and permission for one variable",
  permissions: { net: true, env: ["ANTHROPIC_CUSTOM_HEADERS"] },
  fn: async () => {
    assertEquals(completed(await ask(reply("end_turn", ...text(0, "ok")))).message.content, "ok");
  },
});

Deno.test("anthropicModel() runs a turn with thinking returned unchanged, redacted thinking too", async () => {
  const hidden = { type: "redacted_thinking", data: "c2VjcmV0" };
  const cited = { type: "text", text: "", citations: [{ cited_text: "x" }] };
  const bodies: { readonly messages: readonly { readonly content: unknown }[] }[] = [];
  const server = Deno.serve({ port: 0, onListen() {} }, async (request) => {
    const body = await request.json();
    bodies.push(body);
    const refused = refusedBy(new URL(request.url).pathname, body);
    if (refused) return refused;
    return bodies.length === 1
      ? reply(
        "tool_use",
        ...thinking(0, "I call f.", "a+b/="),
        ...block(1, hidden),
        ...text(2, "One"),
        ...block(3, cited, { type: "text_delta", text: " and two." }, {
          type: "citations_delta",
          citation: { cited_text: "y" },
        }),
        ...call(4, "c1", '{"b": 1, "a": 2}'),
        ...call(5, "c1"),
      )
      : reply("end_turn", ...text(0, "Done."));
  });
  const model = anthropicModel({ model: "m", baseURL: `http://127.0.0.1:${server.addr.port}/` });
  const { events, result } = await collect(
    run({ model, tools: [tool("f", () => "ok")], history: [], input: "Go" }),
  );
  await server.shutdown();
  assertEquals(outline(events).slice(5, 10), [
    "assistant_message",
    "tool_call c1",
    "tool_call call_2",
    "tool_result c1",
    "tool_result call_2",
  ]);
  assertEquals(result.messages[1]?.content, "One and two.");
  assertEquals(
    JSON.stringify(bodies[1]?.messages.map(({ content }) => content)),
    JSON.stringify([
      [{ type: "text", text: "Go" }],
      [
        { type: "thinking", thinking: "I call f.", signature: "a+b/=" },
        hidden,
        { type: "text", text: "One" },
        { type: "text", text: " and two.", citations: [{ cited_text: "x" }, { cited_text: "y" }] },
        { type: "tool_use", id: "c1", name: "f", input: { b: 1, a: 2 } },
        { type: "tool_use", id: "call_2", name: "f", input: {} },
      ],
      [
        { type: "tool_result", tool_use_id: "c1", content: "ok" },
        { type: "tool_result", tool_use_id: "call_2", content: "ok", ...MARK },
      ],
    ]),
  );
});

Deno.test("anthropicModel() reports the reason for a reply's end", async () => {
  const reasons = {
    end_turn: "stop",
    stop_sequence: "stop",
    tool_use: "stop",
    max_tokens: "length",
    model_context_window_exceeded: "length",
    refusal: "content_filter",
  };
  for (const [stop, finishReason] of Object.entries(reasons)) {
    assertEquals(completed(await ask(reply(stop, ...text(0, "ok")))).finishReason, finishReason, stop);
  }
  assertEquals(completed(await ask(reply("end_turn", ...call(0, "c1")))).finishReason, "tool_calls");
});

Deno.test("anthropicModel() continues a reply that pauses, and combines both parts", async () => {
  const search = { type: "server_tool_use", id: "s1", name: "web_search", input: {} };
  const outcome = await ask([
    reply(
      "pause_turn",
      ...text(0, "I search."),
      ...block(1, search, {
        type: "input_json_delta",
        partial_json: '{"q":"x"}',
      }),
    ),
    reply("end_turn", ...text(0, "Found.")),
  ]);
  const { message, finishReason, usage } = completed(outcome);
  assertEquals([message.content, finishReason], ["I search.Found.", "stop"]);
  // Both requests are billed.
  const firstRead = { promptTokens: 8, cachedTokens: 5, cacheWriteTokens: 0 };
  assertEquals(usage, {
    ...{ promptTokens: 16, cachedTokens: 10, cacheWriteTokens: 0, outputTokens: 14 },
    firstRead,
  });
  const paused = [{ type: "text", text: "I search." }, { ...search, input: { q: "x" } }];
  assertEquals((outcome.bodies[1]?.messages as unknown[])[1], {
    role: "assistant",
    content: [paused[0], { ...paused[1], ...MARK }],
  });
  const next: Message[] = [{ role: "user", content: "Hi" }, message, { role: "user", content: "More" }];
  const { bodies } = await ask(reply("end_turn", ...text(0, "ok")), { request: { messages: next } });
  assertEquals((bodies[0]?.messages as unknown[])[1], {
    role: "assistant",
    content: [...paused, { type: "text", text: "Found." }],
  });
});

Deno.test("anthropicModel() distinguishes cache writes for an hour from those for five minutes", async () => {
  const usage = {
    input_tokens: 10,
    cache_read_input_tokens: 100,
    cache_creation_input_tokens: 30,
    cache_creation: { ephemeral_5m_input_tokens: 20, ephemeral_1h_input_tokens: 10 },
    output_tokens: 1,
  };
  const start = { type: "message_start", message: { usage } };
  const outcome = await ask(stream(...[start, ...text(0, "ok"), ...end("end_turn")].map(sse)));
  assertEquals(completed(outcome).usage, {
    promptTokens: 140,
    cachedTokens: 100,
    cacheWriteTokens: 30,
    hourWriteTokens: 10,
    outputTokens: 7,
  });
});

Deno.test("anthropicModel() retries a stream that fails before its first event, never after", async () => {
  const cut = () => {
    throw new Error("cut");
  };
  const whole = () => reply("end_turn", ...text(0, "ok"));
  const early = await ask([stream(sse(START), cut), whole()], { maxRetries: 1 });
  assertEquals([completed(early).message.content, early.bodies.length], ["ok", 2]);
  const late = await ask([stream(...[START, ...text(0, "Hal")].map(sse), cut), whole()], { maxRetries: 1 });
  assertEquals([late.bodies.length, late.events], [1, [{ type: "text_delta", text: "Hal" }]]);
  assertEquals(late.error?.code, "bad_response");
  const quiet = await ask(stream(...[START, ...text(0, "Hal")].map(sse)));
  assertStringIncludes(quiet.error?.message ?? "", "the stream ended before the reply was complete");
  const page = await ask(new Response("<html>", { headers: { "content-type": "text/html" } }));
  assertStringIncludes(page.error?.message ?? "", "the response is not a message. Check the base URL");
});

Deno.test("anthropicModel() counts pings as progress, and stops when its signal is aborted", async () => {
  const controller = new AbortController();
  const aborted = new Promise<void>((resolve) =>
    controller.signal.addEventListener("abort", () => resolve())
  );
  let signs = 0;
  const progress = () => {
    // The first sign of progress is the response itself.
    if (++signs === 4) controller.abort();
  };
  const ping = { type: "ping" };
  const held = stream(...[START, ping, ping].map(sse), () => aborted);
  // A network might deliver several chunks at once.
  const fetch = () => Promise.resolve(held);
  const { error, events } = await ask([], { fetch, request: { signal: controller.signal, progress } });
  assertEquals([events, String(error)], [[], "AbortError: The signal has been aborted"]);
});

Deno.test("anthropicModel() validates base URL and key when it is called", () => {
  const make = (options: { baseURL?: string; apiKey?: string }): Model =>
    anthropicModel({ model: "m", ...options });
  assertThrows(() => make({ baseURL: "host" }), TypeError, "Use one like https://api.anthropic.com.");
  assertThrows(() => make({ apiKey: "a b" }), TypeError, "Cannot use the API key");
});

async function refusal(status: number, type: string, message: string, headers: Record<string, string> = {}) {
  const answer = Response.json({ type: "error", error: { type, message }, request_id: "r" }, {
    status,
    headers,
  });
  const { error } = await ask(answer, { apiKey: "sk-planted" });
  assert(error instanceof ModelError);
  assertEquals(error.message.includes("sk-planted"), false);
  const host = /127\.0\.0\.1:\d+/;
  return [error.code, error.retryAfterMs, error.message.replace(host, "host")];
}

Deno.test("anthropicModel() classifies errors", async () => {
  assertEquals(await refusal(401, "authentication_error", "invalid x-api-key sk-planted"), [
    "bad_key",
    undefined,
    "Cannot get a reply from host: the API key was refused (401).",
  ]);
  assertEquals(await refusal(403, "permission_error", "no access for sk-planted"), [
    "bad_key",
    undefined,
    "Cannot get a reply from host: the API key doesn't permit this (403: no access for ***).",
  ]);
  assertEquals(await refusal(404, "not_found_error", "model: m"), [
    "no_such_model",
    undefined,
    'Cannot get a reply from host: there is no model "m", or the base URL is wrong (404: model: m).',
  ]);
  assertEquals(await refusal(429, "rate_limit_error", "slow down", { "retry-after": "7" }), [
    "rate_limited",
    7_000,
    "Cannot get a reply from host: it reports an exceeded rate limit and requests a wait of 7 s (429: slow down).",
  ]);
  assertEquals(
    await refusal(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
    [
      "prompt_too_long",
      undefined,
      "Cannot get a reply from host: the prompt is too long for m (400: prompt is too long: 210000 tokens > 200000 maximum).",
    ],
  );
  const both = "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000";
  assertEquals((await refusal(400, "invalid_request_error", both))[0], "prompt_too_long");
  assertEquals(
    (await refusal(413, "request_too_large", "Request exceeds the maximum size"))[0],
    "prompt_too_long",
  );
  assertEquals((await refusal(400, "invalid_request_error", "max_tokens: 32000 > 8192"))[0], "bad_request");
  assertEquals(await refusal(529, "overloaded_error", "Overloaded"), [
    "provider_error",
    undefined,
    "Cannot get a reply from host: it failed (529: Overloaded).",
  ]);
});

Deno.test("anthropicModel() classifies errors in the middle of a stream", async () => {
  const failed = async (type: string) => {
    const error = { type: "error", error: { type, message: "No." } };
    const outcome = await ask(stream(...[START, ...text(0, "Hal"), error].map(sse)));
    return [
      outcome.events.length,
      outcome.error?.code,
      outcome.error?.message.replace(/127\.0\.0\.1:\d+/, "host"),
    ];
  };
  const expected = (state: string) => `Cannot get a reply from host: ${state}.`;
  assertEquals(await failed("overloaded_error"), [1, "provider_error", expected("it failed (529: No)")]);
  assertEquals(await failed("rate_limit_error"), [
    1,
    "rate_limited",
    expected("it reports an exceeded rate limit (429: No)"),
  ]);
  assertEquals(await failed("api_error"), [1, "provider_error", expected("it failed (No)")]);
});

Deno.test("anthropicModel() requests thinking as configured, and not where the API forbids it", async () => {
  const asking = async (
    options: Parameters<typeof ask>[1],
    settings: ModelSettings = {},
    messages?: readonly Message[],
  ) => {
    const request = { settings, ...(messages && { messages }) };
    const { bodies: [body], error } = await ask(reply("end_turn", ...text(0, "ok")), { ...options, request });
    return error ? error.message.replace(/^.*?: /, "") : [body?.thinking, body?.output_config];
  };
  const adaptive = { type: "adaptive", display: "summarized" };
  assertEquals(await asking({}, { reasoning_effort: "low" }), [undefined, { effort: "low" }]);
  assertEquals(await asking({ thinking: "adaptive" }), [adaptive, undefined]);
  assertEquals(await asking({ thinking: "adaptive" }, { reasoning_effort: "max" }), [adaptive, {
    effort: "max",
  }]);
  assertEquals(await asking({ thinking: "adaptive" }, { tool_choice: "required" }), [undefined, undefined]);
  assertEquals(await asking({ thinking: "adaptive" }, { temperature: 0.5 }), [undefined, undefined]);
  const within = (budget_tokens: number) => [{ type: "enabled", budget_tokens }, undefined];
  const budget = { thinking: "budget", maxTokens: 32_000 } as const;
  assertEquals(await asking(budget), [undefined, undefined]);
  assertEquals(await asking(budget, { reasoning_effort: "low" }), within(4_000));
  assertEquals(await asking(budget, { reasoning_effort: "high" }), within(16_000));
  assertEquals(await asking({ ...budget, maxTokens: 4_000 }, { reasoning_effort: "low" }), within(1_024));
  assertEquals(
    await asking(budget, { reasoning_effort: "max" }),
    'the Messages format allows a reasoning_effort of low, medium, high, not "max".',
  );
  // A tool loop that began without thinking ends without it.
  const loop = (items: readonly Record<string, unknown>[]): Message[] => [
    { role: "user", content: "Go" },
    {
      role: "assistant",
      tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: "{}" } }],
      carried: { by: "messages 127.0.0.1 m", items: [...items, { type: "tool_use", id: "c" }] },
    },
    { role: "tool", tool_call_id: "c", content: "r" },
  ];
  const thought = { type: "thinking", thinking: "t", signature: "s" };
  assertEquals(await asking(budget, { reasoning_effort: "low" }, loop([thought])), within(4_000));
  assertEquals(await asking(budget, { reasoning_effort: "low" }, loop([])), [undefined, undefined]);
});

Deno.test("anthropicModel() returns thinking only to the model that produced it", async () => {
  const of = (by: string): Message => ({
    role: "assistant",
    content: "Yes.",
    reasoning_content: "Hm.",
    carried: {
      ...{ by },
      items: [{ type: "thinking", thinking: "Hm.", signature: "s" }, { type: "text", text: "Yes." }],
    },
  });
  const messages = [of("messages 127.0.0.1 m"), of("messages 127.0.0.1 other")].flatMap((
    message,
  ): Message[] => [
    { role: "user", content: "So?" },
    message,
  ]);
  const { bodies } = await ask(reply("end_turn", ...text(0, "ok")), {
    request: { messages: [...messages, { role: "user", content: "And?" }] },
  });
  const replies = (bodies[0]?.messages as { role: string; content: { type: string }[] }[])
    .filter(({ role }) => role === "assistant").map(({ content }) => content.map(({ type }) => type));
  assertEquals(replies, [["thinking", "text"], ["text"]]);
});
