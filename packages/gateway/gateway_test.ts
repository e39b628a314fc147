import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { memoryStore } from "@tare/session/sqlite";
import { call, chunk, completion, gatewayed, post, READ, sse, UPSTREAM } from "./fixture_test.ts";

const HELLO = { model: "m", messages: [{ role: "user", content: "Hello." }] };

Deno.test("gateway() forwards unedited bytes in both directions", async () => {
  const answer =
    '{ "id":"x","choices":[{"message":{"role":"assistant","content":"Hi"}}],"big":12345678901234567890}';
  const { fetch, seen } = gatewayed(() =>
    new Response(answer, {
      headers: {
        "content-type": "application/json",
        "x-request-id": "r1",
        "x-ratelimit-remaining-tokens": "7",
      },
    })
  );
  const body =
    '{"model":"m", "seed":12345678901234567890,"messages":[{"role":"user","content":"h\\u0069"}],"x":1.0}';
  const response = await fetch(post(body, {
    authorization: "Bearer key",
    cookie: "a=b",
    "openai-project": "p",
    "x-tare-session": "s",
  }));
  assertEquals(await response.text(), answer);
  assertEquals(seen[0]?.text, body);
  assertEquals(seen[0]?.url, "http://upstream.example/v1/chat/completions");
  const sent = (name: string) => seen[0]?.headers.get(name) ?? null;
  assertEquals(["authorization", "openai-project", "cookie", "x-tare-session"].map(sent), [
    "Bearer key",
    "p",
    null,
    null,
  ]);
  const headerOf = (name: string) => response.headers.get(name);
  assertEquals(
    [headerOf("x-request-id"), headerOf("x-ratelimit-remaining-tokens"), headerOf("x-tare-epoch")],
    [
      "r1",
      "7",
      "0",
    ],
  );
  assertMatch(headerOf("x-tare-session") ?? "", /^[0-9a-f-]{36}$/);
  assert(Number(headerOf("x-tare-tokens-sent")) > 0);
});

Deno.test("gateway() sends the server's key instead of the client's", async () => {
  const configured = gatewayed(() => completion({ content: "Hi" }), {
    upstreams: { chat: { ...UPSTREAM, apiKey: "configured" } },
  });
  await (await configured.fetch(post(HELLO, { authorization: "Bearer client" }))).text();
  assertEquals(configured.seen[0]?.headers.get("authorization"), "Bearer configured");
});

Deno.test("gateway() forwards errors and reports an unreachable upstream", async () => {
  const limited = { error: { message: "Slow down.", type: "requests", code: "rate_limit" } };
  const { fetch } = gatewayed((_, index) => {
    if (index === 0) return Response.json(limited, { status: 429, headers: { "retry-after": "3" } });
    throw new TypeError("no route to host");
  });
  const refused = await fetch(post(HELLO));
  assertEquals([refused.status, refused.headers.get("retry-after"), await refused.json()], [
    429,
    "3",
    limited,
  ]);
  const failed = await fetch(post(HELLO));
  assertEquals([failed.status, (await failed.json()).error.code], [502, "upstream_unreachable"]);
});

Deno.test("gateway() requests usage of streams and hides it from clients that didn't", async () => {
  const usage = { prompt_tokens: 9, completion_tokens: 1, total_tokens: 10 };
  const { fetch, seen, ledger } = gatewayed(() =>
    sse(
      chunk({ role: "assistant", content: "" }, null, { usage: null }),
      chunk({ content: "Hi" }, null, { usage: null }),
      chunk({}, "stop", { usage: null }),
      { id: "c", object: "chat.completion.chunk", choices: [], usage },
      "[DONE]",
    )
  );
  const quiet = await (await fetch(post({ ...HELLO, stream: true }))).text();
  assertEquals(seen[0]?.body.stream_options, { include_usage: true });
  assertEquals(quiet.includes("usage"), false);
  assertEquals(quiet.trim().split("\n\n").length, 4);
  const reply = await (await fetch(post({
    ...HELLO,
    stream: true,
    stream_options: { include_usage: true },
  }))).text();
  assertStringIncludes(reply, '"usage":{"prompt_tokens":9');
  const { planned } = await ledger();
  assertEquals([planned.sessions, planned.calls, planned.promptTokens], [1, 2, 18]);
});

Deno.test("gateway() forwards an unknown shape unchanged, with a warning", async () => {
  const errors: unknown[] = [];
  const { fetch, seen } = gatewayed(() => completion({ content: "Hi" }), {
    onError: (error) => errors.push(error),
  });
  const odd = { model: "m", tools: [READ], messages: [{ role: "tool", tool_call_id: 5, content: { a: 1 } }] };
  const response = await fetch(post(odd));
  assertEquals((await response.json()).choices[0].message.content, "Hi");
  assertEquals(seen[0]?.body, odd);
  assertStringIncludes(
    response.headers.get("x-tare-warning") ?? "",
    "is invalid in the chat-completions format",
  );
  assertStringIncludes(String(errors[0]), "the request was forwarded unchanged");
});

Deno.test("gateway() stops editing a session after two successive rejections", async () => {
  const { fetch, seen } = gatewayed(({ body }) =>
    body.tools?.length > 1 ? Response.json({ error: {} }, { status: 400 }) : completion({ content: "Hi" })
  );
  const request = { ...HELLO, tools: [READ] };
  const first = await fetch(post(request));
  assertEquals([first.status, seen.length], [200, 2]);
  const expected = "the request was forwarded unchanged: the upstream answered 400";
  assertStringIncludes(first.headers.get("x-tare-warning") ?? "", expected);
  await first.text();
  const second = await fetch(post(request));
  assertStringIncludes(second.headers.get("x-tare-warning") ?? "", "this session is forwarded unchanged");
  await second.text();
  await (await fetch(post(request))).text();
  assertEquals(seen.map(({ body }) => body.tools.length), [2, 1, 2, 1, 1]);
  assertEquals(seen.map(({ body }) => body.messages), Array(5).fill(request.messages));
});

Deno.test("gateway() continues a session after one request that was too long with Tare's additions", async () => {
  const { fetch, seen } = gatewayed(({ body }, index) =>
    body.tools.length > 1 && index === 2
      ? Response.json({ error: { message: "prompt is too long" } }, { status: 400 })
      : completion({ content: "Hi" })
  );
  const request = { ...HELLO, tools: [READ] };
  for (let call = 0; call < 5; call++) await (await fetch(post(request))).text();
  assertEquals(seen.map(({ body }) => body.tools.length), [2, 2, 2, 1, 2, 2]);
});

Deno.test("gateway() answers recalls and includes them in the next prompt", async () => {
  const { fetch, seen } = gatewayed((_, index) =>
    index === 0
      ? completion({ content: "Wait. ", tool_calls: [call("recall", { ref: "0123456789abcdef" }, "r1")] })
      : completion({ content: `Done ${index}.` })
  );
  const request = { ...HELLO, tools: [READ] };
  const answer = await (await fetch(post(request))).json();
  assertEquals(answer.choices[0].message, { role: "assistant", content: "Wait. Done 1." });
  assertEquals([answer.choices[0].finish_reason, answer.usage.prompt_tokens], ["stop", 1000]);
  assertEquals(seen[0]?.body.tools.map((tool: typeof READ) => tool.function.name), ["read", "recall"]);
  const messages = [...HELLO.messages, answer.choices[0].message, { role: "user", content: "More." }];
  await (await fetch(post({ ...request, messages }))).text();
  const roles = (at: number) => seen[at]?.body.messages.map((message: { role: string }) => message.role);
  assertEquals(roles(1), ["user", "assistant", "tool"]);
  assertEquals(roles(2), ["user", "assistant", "tool", "assistant", "user"]);
  assertEquals(seen[2]?.body.messages[3].content, "Done 1.");
});

Deno.test("gateway() hides a streamed recall next to the client's own calls", async () => {
  const { fetch, seen } = gatewayed((_, index) =>
    index > 0 ? completion({ content: "Done." }) : sse(
      chunk({ role: "assistant", content: null }),
      chunk({ tool_calls: [{ index: 0, ...call("recall", { ref: "none" }, "r1") }] }),
      chunk({ tool_calls: [{ index: 1, ...call("read", { path: "a" }, "c1") }] }),
      chunk({}, "tool_calls"),
      "[DONE]",
    )
  );
  const request = { ...HELLO, tools: [READ] };
  const text = await (await fetch(post({ ...request, stream: true }))).text();
  assertEquals(text.includes("recall"), false);
  assertStringIncludes(text, '"tool_calls":[{"index":0,"id":"c1"');
  const messages = [
    ...HELLO.messages,
    { role: "assistant", content: null, tool_calls: [call("read", { path: "a" }, "c1")] },
    { role: "tool", tool_call_id: "c1", content: "A." },
  ];
  await (await fetch(post({ ...request, messages }))).text();
  const [, assistant, recalled, read] = seen[1]?.body.messages ?? [];
  assertEquals(assistant.tool_calls.map(({ id }: { id: string }) => id), ["r1", "c1"]);
  assertEquals([recalled.tool_call_id, read.tool_call_id, read.content], ["r1", "c1", "A."]);
});

Deno.test("gateway() forwards holdout sessions, bypassed requests and foreign recall tools unchanged", async () => {
  const request = { ...HELLO, tools: [READ] };
  const holdout = gatewayed(() => completion({ content: "Hi" }), { holdout: 1 });
  await (await holdout.fetch(post(request))).text();
  assertEquals(holdout.seen[0]?.body, request);
  const report = await holdout.ledger();
  assertEquals([report.planned.sessions, report.holdout.sessions, report.holdout.calls], [0, 1, 1]);
  const off = gatewayed(() => completion({ content: "Hi" }));
  await (await off.fetch(post(request, { "x-tare": "off" }))).text();
  assertEquals(off.seen[0]?.body, request);
  const without = gatewayed(() => completion({ content: "Hi" }), { recall: false });
  await (await without.fetch(post(request))).text();
  assertEquals(without.seen[0]?.body, request);
  const own = { ...HELLO, tools: [{ ...READ, function: { ...READ.function, name: "recall" } }] };
  const { fetch, seen } = gatewayed(() => completion({ tool_calls: [call("recall", {}, "c")] }));
  const answer = await (await fetch(post(own))).json();
  assertEquals([seen[0]?.body, answer.choices[0].message.tool_calls[0].id], [own, "c"]);
});

Deno.test("gateway() evicts old results from long prompts, and evictions remain", async () => {
  const { fetch, seen } = gatewayed(() => completion({ content: "Hi" }, 0));
  const result = (at: number) => Array.from({ length: 4_000 }, (_, i) => `${at}-${i % 97}`).join(" ");
  const messages: object[] = [{ role: "user", content: "Go." }];
  for (let at = 0; at < 8; at++) {
    messages.push({
      role: "assistant",
      content: null,
      tool_calls: [call("read", { path: String(at) }, `c${at}`)],
    });
    messages.push({ role: "tool", tool_call_id: `c${at}`, content: result(at), extra: at });
    await (await fetch(post({ model: "m", messages, tools: [READ] }))).text();
  }
  const last = seen.at(-1)?.body.messages;
  assertMatch(last[2].content, /^\[elided: read result, \d+ bytes; recall with ref [0-9a-f]{16}\]/);
  assertEquals([last[2].extra, last.at(-1).content, last.length], [0, result(7), messages.length]);
  const before = seen.at(-2)?.body.messages;
  assertEquals(last[2], before[2]);
});

Deno.test("gateway() cancels the upstream when the client disconnects", async () => {
  const { promise: cancelled, resolve } = Promise.withResolvers<void>();
  const { fetch } = gatewayed(() =>
    new Response(
      new ReadableStream({
        start: (controller) => controller.enqueue(new TextEncoder().encode("data: {}\n\n")),
        cancel: () => resolve(),
      }),
      { headers: { "content-type": "text/event-stream" } },
    )
  );
  const response = await fetch(post({ ...HELLO, stream: true }));
  const reader = response.body!.getReader();
  await reader.read();
  await reader.cancel();
  await cancelled;
});

Deno.test("gateway() forwards unreadable requests for the upstream to reject", async () => {
  const errors: unknown[] = [];
  const { fetch, seen } = gatewayed(() => Response.json({ error: {} }, { status: 400 }), {
    onError: (error) => errors.push(error),
  });
  const response = await fetch(post("[1]"));
  assertEquals([response.status, seen[0]?.text, errors.length], [400, "[1]", 1]);
});

Deno.test("gateway() rejects bodies over its limit and those without a CORS preflight", async () => {
  const { fetch, seen } = gatewayed(() => completion({ content: "Hi" }), { limits: { bodyBytes: 100 } });
  const replyTo = async (request: Request) => {
    const response = await fetch(request);
    return [response.status, (await response.json()).error.code];
  };
  assertEquals(await replyTo(post({ ...HELLO, pad: "x".repeat(100) })), [413, "body_too_large"]);
  const stream = new Blob(["x".repeat(101)]).stream();
  const chunked = new Request("http://localhost/v1/responses", { method: "POST", body: stream });
  assertEquals(await replyTo(chunked), [413, "body_too_large"]);
  assertEquals(await replyTo(post(HELLO, { "content-type": "text/plain" })), [415, "unsupported_media_type"]);
  assertEquals(seen, []);
});

Deno.test("gateway() counts no fork as a session, with or without a store or key", async () => {
  const ann = { caller: { name: "ann", routes: ["gateway"] } } as const;
  for (const options of [{}, { store: memoryStore() }]) {
    const { fetch, ledger, close } = gatewayed(() => completion({ content: "Hi" }), options);
    const messages = [...HELLO.messages, { role: "assistant", content: "Hi" }];
    const requests = [
      messages.slice(0, -1),
      ...["And?", "Or?"].map((content) => [...messages, { role: "user", content }]),
    ];
    for (const messages of requests) {
      const answer = await fetch(post({ ...HELLO, messages }), ann);
      await answer.text();
    }
    const [all, hers, others] = [await ledger(), await ledger("ann"), await ledger("bob")];
    assertEquals([all, hers, others].map(({ planned: { sessions, calls } }) => [sessions, calls]), [
      [1, 3],
      [1, 3],
      [0, 0],
    ]);
    await close();
  }
});

const RECALLING = { tool_calls: [call("recall", { ref: "none" }, "r1")] };

Deno.test("gateway() reports an upstream's failure after a recall, whole or streamed", async () => {
  const failing = (first: () => Response) =>
    gatewayed((_, index) => index === 0 ? first() : new Response("broken", { status: 503 }));
  const whole = failing(() => completion(RECALLING));
  const failed = await whole.fetch(post({ ...HELLO, tools: [READ] }));
  assertEquals([failed.status, await failed.text()], [503, "broken"]);
  const report = await whole.ledger();
  assertEquals([report.planned.calls, report.planned.errors, report.planned.recalls], [1, 1, 1]);
  const streamed = failing(() =>
    sse(
      chunk({ role: "assistant", content: "Wait." }),
      chunk({ tool_calls: [{ index: 0, ...call("recall", { ref: "none" }, "r1") }] }),
      chunk({}, "tool_calls"),
      "[DONE]",
    )
  );
  const text = await (await streamed.fetch(post({ ...HELLO, tools: [READ], stream: true }))).text();
  assertStringIncludes(text, "Wait.");
  assertEquals(JSON.parse(text.trim().split("data: ").at(-1) ?? "").error, {
    message: "The upstream answered 503: broken",
    type: "server_error",
    param: null,
    code: "upstream_failed",
  });
});

Deno.test("gateway() forwards unreadable and final answers", async () => {
  const errors: unknown[] = [];
  const onError = (error: unknown) => errors.push(error);
  const headers = { "content-type": "application/json" };
  const odd = gatewayed(() => new Response('{"choices":', { headers }), { onError });
  assertEquals(await (await odd.fetch(post(HELLO))).text(), '{"choices":');
  assertStringIncludes(String(errors[0]), "the answer was forwarded unchanged");
  const page = gatewayed(() => new Response("<p>", { headers: { "content-type": "text/html" } }));
  assertEquals(await (await page.fetch(post(HELLO))).text(), "<p>");
  const several = gatewayed(() => completion({ content: "Hi" }));
  const request = { ...HELLO, n: 2, tools: [READ] };
  const response = await several.fetch(post(request));
  assertEquals([response.headers.get("x-tare-session"), several.seen[0]?.body], [null, request]);
  await response.text();
});

Deno.test("gateway() sends no call for a disconnected client", async () => {
  const { fetch } = gatewayed(() => {
    throw new DOMException("left", "AbortError");
  });
  const response = await fetch(post(HELLO), { signal: AbortSignal.abort() });
  assertEquals(response.status, 502);
  await response.text();
});
