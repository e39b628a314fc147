import { assert, assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { ModelError, run } from "@tare/loop";
import { openaiModel } from "@tare/loop/openai";
import type { Message, ModelEvent } from "@tare/messages";
import { collect, outline, tool } from "../fixture_test.ts";
import { ask, completed, delta, endless, reply, REQUEST, sse, stream } from "../provider_fixture_test.ts";
import { refusedBy } from "../../../tests/refused.ts";

const END = delta({}, "stop");

Deno.test("openaiModel() streams text and reasoning and completes with usage", async () => {
  const outcome = await ask(reply(
    delta({ role: "assistant", content: "" }),
    delta({ reasoning_content: "Let me " }),
    delta({ reasoning_content: "see." }),
    delta({ content: "Hel" }),
    delta({ content: "lo." }),
    END,
    {
      choices: [],
      usage: { prompt_tokens: 9, completion_tokens: 4, prompt_tokens_details: { cached_tokens: 5 } },
    },
  ));
  assertEquals(outcome.events, [
    { type: "reasoning_delta", text: "Let me " },
    { type: "reasoning_delta", text: "see." },
    { type: "text_delta", text: "Hel" },
    { type: "text_delta", text: "lo." },
    {
      type: "completed",
      message: {
        role: "assistant",
        content: "Hello.",
        reasoning_content: "Let me see.",
        carried: { by: "chat 127.0.0.1 m" },
      },
      finishReason: "stop",
      usage: { promptTokens: 9, cachedTokens: 5, outputTokens: 4 },
    },
  ]);
});

Deno.test("openaiModel() sends messages and tools unchanged", async () => {
  const messages = [
    { role: "system", content: "Be brief." },
    { role: "user", content: [{ type: "text", text: "Hi" }], provider_field: { x: 1 } },
    { role: "assistant", content: "Hello", reasoning_content: "Hm", signature: "s" },
    { role: "user", content: "Go" },
  ] as Message[];
  const tools = [{ type: "function", function: { name: "f", strict: true } }] as const;
  const outcome = await ask(reply(delta({ content: "ok" }, "stop")), {
    apiKey: "sk-1",
    request: { messages, tools },
  });
  assertEquals(outcome.bodies, [{
    path: "/v1/chat/completions",
    model: "m",
    messages,
    tools,
    stream: true,
    stream_options: { include_usage: true },
  }]);
  assertEquals(outcome.headers.get("authorization"), "Bearer sk-1");
});

Deno.test("openaiModel() sends the conversation's cache key, unless it is replaced", async () => {
  const route = (key: string) => ({
    fields: { prompt_cache_key: key, more: "ours" },
    headers: { session_id: key },
  });
  const asking = async (request: { readonly cacheKey?: string }, options: object = {}) => {
    const { bodies: [body], headers } = await ask(reply(delta({ content: "ok" }, "stop")), {
      ...{ route, request },
      ...options,
    });
    return [body?.prompt_cache_key, body?.more, headers.get("session_id")];
  };
  assertEquals(await asking({ cacheKey: "c" }), ["c", "ours", "c"]);
  assertEquals(await asking({}), [undefined, undefined, null]);
  const own = { extraBody: { prompt_cache_key: "mine", more: undefined }, headers: { session_id: "mine" } };
  assertEquals(await asking({ cacheKey: "c" }, own), ["mine", undefined, "mine"]);
});

Deno.test("openaiModel() sends no key without one, no empty tools, and the configured fields", async () => {
  const { bodies, headers } = await ask(reply(delta({ content: "ok" }, "stop")), {
    headers: { "x-title": "Tare" },
    extraBody: { temperature: 0, stream_options: undefined },
  });
  assertEquals(headers.has("authorization"), false);
  assertEquals(headers.get("x-title"), "Tare");
  assertEquals(Object.keys(bodies[0] ?? {}), ["path", "model", "messages", "stream", "temperature"]);
});

Deno.test({
  name: "openaiModel() needs only network access",
  permissions: { net: true },
  fn: async () => {
    assertEquals(completed(await ask(reply(delta({ content: "ok" }, "stop")))).message.content, "ok");
  },
});

Deno.test("openaiModel() runs a turn with reasoning returned", async () => {
  const thinking = { reasoning_content: "I call f.", reasoning: "I call f." };
  const call = { index: 0, id: "c1", function: { name: "f", arguments: "{}" } };
  const bodies: { messages: unknown[] }[] = [];
  const server = Deno.serve({ port: 0, onListen() {} }, async (request) => {
    const body = await request.json();
    bodies.push(body);
    const refused = refusedBy(new URL(request.url).pathname, body);
    if (refused) return refused;
    return bodies.length === 1
      ? reply(delta({ ...thinking, tool_calls: [call] }), delta({}, "tool_calls"))
      : reply(delta({ content: "Done." }, "stop"));
  });
  const model = openaiModel({ model: "m", baseURL: `http://127.0.0.1:${server.addr.port}/v1` });
  const { events } = await collect(run({ model, tools: [tool("f", () => "ok")], history: [], input: "Go" }));
  await server.shutdown();
  assertEquals(outline(events), [
    "turn_start",
    "step_start",
    "reasoning_delta I call f.",
    "assistant_message",
    "tool_call c1",
    "tool_result c1",
    "step_end",
    "step_start",
    "text_delta Done.",
    "assistant_message",
    "step_end",
    "turn_end completed",
  ]);
  assertEquals(bodies[1]?.messages.slice(1), [
    {
      role: "assistant",
      content: null,
      ...thinking,
      tool_calls: [{ id: "c1", type: "function", function: { name: "f", arguments: "{}" } }],
    },
    { role: "tool", tool_call_id: "c1", content: "ok" },
  ]);
});

Deno.test("openaiModel() accepts a missing end mark, but not an incomplete reply", async () => {
  const whole = await ask(stream(sse(delta({ content: "Hi" }, "stop"))));
  assertEquals(completed(whole).message.content, "Hi");

  const half = await ask(stream(sse(delta({ content: "Hi" })), sse("[DONE]")));
  assertEquals(half.events, [{ type: "text_delta", text: "Hi" }]);
  assert(half.error instanceof ModelError);
  assertEquals(half.error.code, "bad_response");
  assertStringIncludes(half.error.message, "the stream ended before the reply was complete.");
});

Deno.test("openaiModel() drains a body after its reply, and reuses the connection", async () => {
  const ports = new Set<number>();
  let spoken = Promise.withResolvers<void>();
  const server = Deno.serve({ port: 0, onListen() {} }, async (request, { remoteAddr }) => {
    ports.add(remoteAddr.port);
    await request.text();
    const { promise } = spoken;
    return stream(sse(END), sse("[DONE]"), () => promise);
  });
  let ended = Promise.withResolvers<void>();
  const model = openaiModel({
    model: "m",
    baseURL: `http://127.0.0.1:${server.addr.port}`,
    fetch: async (...request) => {
      const { resolve } = ended = Promise.withResolvers<void>();
      const { headers, body } = await fetch(...request);
      const seen = new TransformStream({ flush: () => resolve(), cancel: () => resolve() });
      return new Response(body!.pipeThrough(seen), { headers });
    },
  });
  // The system may still be closing the connection.
  let requestCount = 0;
  for (; requestCount === ports.size && requestCount < 50; requestCount++) {
    spoken = Promise.withResolvers();
    await Array.fromAsync(model(REQUEST));
    spoken.resolve();
    await ended.promise;
  }
  assert(ports.size < requestCount, `${requestCount} requests took as many connections`);
  await server.shutdown();
});

Deno.test("openaiModel() cancels a body that doesn't end after its reply", async () => {
  const { model, gone } = endless(sse(END) + sse("[DONE]"));
  const events = await Array.fromAsync(model(REQUEST));
  assertEquals(events.map(({ type }) => type), ["completed"]);
  await gone;
});

Deno.test("openaiModel() retries a stream that fails before its first delta, and after it if deltas can be discarded", async () => {
  const cut = () => {
    throw new Error("cut");
  };
  const empty = () => stream(sse(delta({ role: "assistant", content: "" })), cut);
  const again = await ask([empty(), empty(), reply(delta({ content: "Hi" }, "stop"))], { maxRetries: 2 });
  assertEquals([completed(again).message.content, again.bodies.length], ["Hi", 3]);

  const call = (text: string) =>
    ({ id: "1", type: "function", function: { name: "f", arguments: text } }) as const;
  const calls = (text: string) => delta({ tool_calls: [{ index: 0, ...call(text) }] }, "tool_calls");
  const inCall = await ask([stream(sse(calls('{"a": ')), cut), reply(calls('{"b": 1}'))], { maxRetries: 2 });
  assertEquals(completed(inCall).message.tool_calls, [call('{"b": 1}')]);
  assertEquals(inCall.bodies.length, 2);

  const begun = await ask([stream(sse(delta({ content: "Hal" })), cut), reply(END)], { maxRetries: 2 });
  assertEquals([begun.error?.code, begun.bodies.length], ["bad_response", 1]);
  const brokeOff = "the connection failed before the reply was complete.";
  assertStringIncludes(`${begun.error?.message}`, brokeOff);

  const reported: string[] = [];
  const request = { restarted: (why: string) => reported.push(why) };
  const half = () => stream(sse(delta({ content: "Hal" })), cut);
  const once = await ask([half(), reply(delta({ content: "Hi" }, "stop"))], { maxRetries: 2, request });
  assertEquals([texts(once.events), completed(once).message.content], [["Hal", "Hi"], "Hi"]);
  assertEquals([reported.length, reported[0]?.endsWith(brokeOff)], [1, true]);
  const never = await ask([half(), half(), half(), reply(END)], { maxRetries: 2, request });
  assertEquals([texts(never.events), never.error?.code], [["Hal", "Hal", "Hal"], "bad_response"]);
  assertEquals([reported.length, never.bodies.length], [3, 3]);
});

function texts(events: readonly ModelEvent[]): string[] {
  return events.flatMap((event) => event.type === "text_delta" ? event.text : []);
}

Deno.test("openaiModel() reports the usage of the successful attempt, not summed over retries", async () => {
  const usage = (prompt_tokens: number) => ({ choices: [], usage: { prompt_tokens, completion_tokens: 1 } });
  const cut = () => {
    throw new Error("cut");
  };
  const broken = stream(sse(delta({ role: "assistant", content: "" })), sse(usage(700)), cut);
  const outcome = await ask([broken, reply(delta({ content: "Hi" }, "stop"), usage(701))], { maxRetries: 1 });
  assertEquals([outcome.bodies.length, completed(outcome).usage?.promptTokens], [2, 701]);
});

Deno.test("openaiModel() retries temporary errors", async () => {
  const busy = () =>
    Response.json({ error: { message: "busy" } }, { status: 503, headers: { "retry-after-ms": "1" } });
  const limited = new Response(null, { status: 429, headers: { "retry-after-ms": "2" } });
  const reported: (string | undefined)[] = [];
  const outcome = await ask([busy(), limited, reply(delta({ content: "Hi" }, "stop"))], {
    maxRetries: 2,
    request: { refused: (why) => reported.push(why?.replace(/^127\.0\.0\.1:\d+/, "host")) },
  });
  assertEquals([completed(outcome).message.content, outcome.bodies.length], ["Hi", 3]);
  assertEquals(reported, [
    "host failed (503)",
    "host reports an exceeded rate limit and requests a wait of 0.002 s (429)",
    undefined,
  ]);
});

Deno.test("openaiModel() retries an overloaded provider as often as configured", async () => {
  const busy = (status = 529) => new Response(null, { status });
  const done = () => reply(delta({ content: "Hi" }, "stop"));
  const outcomeOf = (...answers: Response[]) => ask(answers, { maxRetries: 0, busyWaitsMs: [1, 1] });
  assertEquals((await outcomeOf(busy(), busy(429), done())).error, undefined);
  assertEquals((await outcomeOf(busy(), busy(), busy(), done())).error?.code, "provider_error");
  const later = (status: number) => new Response(null, { status, headers: { "retry-after": "61" } });
  const unpaid = Response.json({ error: { code: "insufficient_quota", message: "Pay" } }, { status: 429 });
  for (const answer of [busy(402), busy(400), later(429), later(503), unpaid]) {
    assertEquals((await outcomeOf(answer, done())).bodies.length, 1);
  }
  for (const status of [429, 503]) {
    const limited = new Response(null, { status, headers: { "retry-after-ms": "1" } });
    const { bodies } = await ask([limited, done()], { maxRetries: 0, busyWaitsMs: [100_000] });
    assertEquals(bodies.length, 2);
  }
  const controller = new AbortController();
  const request = { signal: controller.signal, refused: () => controller.abort(new Error("enough")) };
  const { error } = await ask([busy(), done()], { maxRetries: 0, busyWaitsMs: [100_000], request });
  assertEquals(error?.message, "enough");
});

Deno.test("openaiModel() retries as the server's header requests, whatever the status", async () => {
  const answer = (status: number, retry: string) => {
    const headers = { "x-should-retry": retry, "retry-after": "0" };
    return Response.json({ error: { message: "busy" } }, { status, headers });
  };
  const done = () => reply(delta({ content: "Hi" }, "stop"));
  assertEquals((await ask([answer(400, "true"), done()], { maxRetries: 1 })).bodies.length, 2);
  assertEquals((await ask([answer(503, "false"), done()], { maxRetries: 1 })).bodies.length, 1);
});

Deno.test("openaiModel() stops waiting for a retry when its signal is aborted", async () => {
  const controller = new AbortController();
  const busy = new Response(null, { status: 429, headers: { "retry-after": "30" } });
  const request = { signal: controller.signal, progress: () => controller.abort(new Error("enough")) };
  const { error, bodies } = await ask([busy], { maxRetries: 1, request });
  assertEquals([error?.message, bodies.length], ["enough", 1]);
});

Deno.test("openaiModel() stops in the middle of a stream when its signal is aborted", async () => {
  const controller = new AbortController();
  const { model, gone } = endless();
  await assertRejects(
    async () => {
      for await (const _ of model({ ...REQUEST, signal: controller.signal })) {
        controller.abort(new Error("enough"));
      }
    },
    Error,
    "enough",
  );
  await gone;
});

Deno.test("openaiModel() stops in the middle of a stream when the turn's consumer returns", async () => {
  const { model, gone } = endless();
  for await (const event of run({ model, history: [], input: "Go" })) {
    if (event.type === "text_delta") break;
  }
  await gone;
});

Deno.test("openaiModel() stops waiting for a response when its signal is aborted", async () => {
  const controller = new AbortController();
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const model = openaiModel({ model: "m", baseURL: `http://127.0.0.1:${listener.addr.port}` });
  const asking = assertRejects(
    () => Array.fromAsync(model({ ...REQUEST, signal: controller.signal })),
    Error,
    "enough",
  );
  const connection = await listener.accept();
  const bytes = new Uint8Array(65_536);
  await connection.read(bytes);
  controller.abort(new Error("enough"));
  while (await connection.read(bytes) !== null);
  await asking;
  connection.close();
  listener.close();
});

Deno.test("openaiModel() rejects an invalid address or key, without quoting the key", () => {
  for (const baseURL of ["", "localhost:8080", "ftp://example.org"]) {
    assertThrows(() => openaiModel({ model: "m", baseURL }), TypeError, `Cannot use base URL "${baseURL}"`);
  }
  const error = assertThrows(
    () => openaiModel({ model: "m", apiKey: "sk-secret\n" }),
    TypeError,
    "Cannot use the API key",
  );
  assert(!error.message.includes("secret"));
});

Deno.test("openaiModel() counts all received bytes as progress, SSE comments too", async () => {
  let signs = 0;
  let seen = -1;
  const look = async () => {
    // The next packet is sent after the previous one arrived.
    while (signs === seen) await new Promise((resolve) => setTimeout(resolve));
    seen = signs;
  };
  const outcome = await ask(
    stream(": keep-alive\n\n", look, ": keep-alive\n\n", look, sse(delta({ content: "Hi" }, "stop"))),
    { request: { progress: () => signs++ } },
  );
  assertEquals(completed(outcome).message.content, "Hi");
});

Deno.test("openaiModel() accepts a reply that isn't streamed", async () => {
  const message = {
    role: "assistant",
    content: null,
    tool_calls: [{ id: "1", type: "function", function: { name: "f", arguments: '{"a":"b\\nc"}' } }],
  };
  const body = {
    choices: [{ message, finish_reason: "tool_calls" }],
    usage: { prompt_tokens: 3, completion_tokens: 1 },
  };
  for (const indent of [0, 2]) {
    const outcome = await ask(
      new Response(JSON.stringify(body, null, indent), {
        headers: { "content-type": "application/json; charset=utf-8" },
      }),
    );
    assertEquals(completed(outcome), {
      type: "completed",
      message,
      finishReason: "tool_calls",
      usage: { promptTokens: 3, cachedTokens: 0, outputTokens: 1 },
    } as never);
  }
});

Deno.test("openaiModel() reports a response that is neither JSON nor a stream", async () => {
  for (const type of ["text/html", "application/json"]) {
    const { error } = await ask(new Response("<html>Welcome</html>", { headers: { "content-type": type } }));
    assertEquals(error?.code, "bad_response");
  }
  assertEquals((await ask(reply({ hello: "world" }))).error?.code, "bad_response");
});

Deno.test("openaiModel() sends images of results after the results of their step", async () => {
  const image = (name: string) =>
    ({ type: "image_url", image_url: { url: `data:image/png;base64,${name}` } }) as const;
  const called = (id: string) =>
    ({ id, type: "function", function: { name: "f", arguments: "{}" } }) as const;
  const result = (id: string, ...images: string[]): Message => ({
    role: "tool",
    tool_call_id: id,
    content: images.length === 0 ? id : [{ type: "text", text: id }, ...images.map(image)],
  });
  const messages: Message[] = [
    { role: "user", content: [{ type: "text", text: "Go" }, image("u")] },
    { role: "assistant", content: "one", tool_calls: ["1", "2", "3"].map(called) },
    result("1", "a"),
    result("2"),
    result("3", "b", "c"),
    { role: "assistant", content: "two", tool_calls: [called("4")] },
    result("4", "d"),
  ];
  const { bodies } = await ask(reply(delta({ content: "ok" }, "stop")), { request: { messages } });
  const text = (id: string) => ({ role: "tool", tool_call_id: id, content: id });
  const visible = (...names: string[]) => ({
    role: "user",
    content: [{ type: "text", text: "Images from the calls above:" }, ...names.map(image)],
  });
  assertEquals(bodies.map(({ messages }) => messages), [[
    ...messages.slice(0, 2),
    ...[text("1"), text("2"), text("3")],
    visible("a", "b", "c"),
    messages[5],
    ...[text("4"), visible("d")],
  ]]);
});
