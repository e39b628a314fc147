import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { estimateTokens } from "@tare/messages";
import { countMessageTokens } from "@tare/messages/internal";
import { CHAT_PROTOCOL, readWireBody, type ToolPairCalls, UnknownShape } from "@tare/wire/internal";
import { decode, encode, requestOf } from "../request_fixture_test.ts";

Deno.test("CHAT_PROTOCOL.readItem() accepts messages with unknown fields and parts", () => {
  const messages = [
    { role: "user", content: [{ type: "later", x: 1 }, { type: "text", text: "a" }], extra: 1 },
    {
      role: "assistant",
      content: null,
      tool_calls: [{ id: "", type: "function", function: { name: "f", arguments: "" } }],
    },
    { role: "tool", tool_call_id: "", content: "" },
    { role: "function", name: "f", content: null },
  ];
  for (const message of messages) {
    const [{ meaning, ...part } = {}] = CHAT_PROTOCOL.readItem(message);
    assertEquals<unknown>(part, { message, text: ["content"] });
    assert(meaning !== undefined);
  }
  const custom = { type: "custom", custom: { name: "c" } };
  assertEquals(CHAT_PROTOCOL.readTool(custom), {
    definition: { type: "function", function: { name: `custom ${JSON.stringify(custom)}` } },
    inFront: true,
  });
});

Deno.test("CHAT_PROTOCOL.readItem() throws for unknown shapes", () => {
  const odd = [
    null,
    { role: "robot", content: "" },
    { role: "user" },
    { role: "user", content: 5 },
    { role: "user", content: [{ type: "text" }] },
    { role: "tool", content: "" },
    { role: "assistant", tool_calls: [{ id: 1 }] },
    { role: "assistant", tool_calls: {} },
  ];
  for (const message of odd) assertThrows(() => CHAT_PROTOCOL.readItem(message), UnknownShape);
  for (const tool of [null, {}, { type: "function", function: {} }]) {
    assertThrows(() => CHAT_PROTOCOL.readTool(tool), UnknownShape);
  }
});

Deno.test("CHAT_PROTOCOL.readHints() reads the client's session", () => {
  const hints = (body: object, headers = {}) =>
    CHAT_PROTOCOL.readHints(readWireBody(encode(body)), new Headers(headers));
  assertEquals(hints({ n: 2 }), { isStateful: false, isDetached: true });
  assertEquals(hints({ n: 1 }, { "x-session-id": "s" }), { key: "s", isStateful: false, isDetached: false });
  assertEquals(hints({ prompt_cache_key: "k" }, { "x-session-id": "s" }).key, "k");
});

Deno.test("CHAT_PROTOCOL answers recalls and refuses requests in its format", async () => {
  const [answer] = CHAT_PROTOCOL.writeAnswers([{ id: "c", text: "a" }]);
  assertEquals(JSON.parse(answer ?? ""), { role: "tool", tool_call_id: "c", content: "a" });
  const refused = CHAT_PROTOCOL.refuse(413, "Too large.", "body_too_large");
  assertEquals([refused.status, (await refused.json()).error.code], [413, "body_too_large"]);
  assertEquals([CHAT_PROTOCOL.auth.name, CHAT_PROTOCOL.auth.prefix], ["authorization", "Bearer "]);
});

const chunk = (delta: object, finish_reason: string | null = null, more: object = {}): object => (
  { id: "c", object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason }], ...more }
);
const call = (name: string, args: object, id: string): object => (
  { id, type: "function", function: { name, arguments: JSON.stringify(args) } }
);
const event = (data: object | string) =>
  encode(`data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`);
const streamed = (more: object = {}) =>
  CHAT_PROTOCOL.writer(requestOf({ model: "m", messages: [], stream: true, ...more }, CHAT_PROTOCOL), {
    recall: "recall",
  });
const REQUESTED = { stream_options: { include_usage: true } };

Deno.test("CHAT_PROTOCOL.writer() preserves the bytes of a stream without recalls, and reads its calls and usage", () => {
  const writer = streamed(REQUESTED);
  const events = [
    chunk({ role: "assistant", content: "Hi" }),
    chunk({ content: " there" }),
    chunk({ tool_calls: [{ index: 0, ...call("read", { path: "a" }, "c1") }] }),
    chunk({}, "tool_calls", { usage: { prompt_tokens: 5, completion_tokens: 2 } }),
    "[DONE]",
  ].map(event);
  const seen = decode(...events.flatMap((bytes) => writer.push(bytes)));
  const reply = writer.end();
  assertEquals(seen + decode(writer.finish()), decode(...events));
  assertEquals([reply.callsClient, reply.recalls, reply.usage?.promptTokens], [true, [], 5]);
  assertEquals(writer.hidden([]), []);
});

Deno.test("CHAT_PROTOCOL.writer() joins a streamed recall and its continuation", () => {
  const writer = streamed();
  const first = [
    chunk({ role: "assistant", content: "O" }),
    chunk({ content: "ne " }),
    chunk({ tool_calls: [{ index: 0, ...call("recall", { ref: "r" }, "r1") }] }),
    chunk({}, "tool_calls"),
    "[DONE]",
  ].flatMap((data) => writer.push(event(data)));
  const { recalls, items } = writer.end();
  assertEquals(JSON.parse(items[0] ?? ""), {
    role: "assistant",
    content: "One ",
    tool_calls: [call("recall", { ref: "r" }, "r1")],
  });
  assertEquals(recalls, [{ id: "r1", name: "recall", arguments: '{"ref":"r"}' }]);
  const second = [
    { ...chunk({ role: "assistant", content: "" }), id: "other" },
    { ...chunk({ content: "two." }), id: "other" },
    { ...chunk({}, "stop"), id: "other" },
    "[DONE]",
  ].flatMap((data) => writer.push(event(data)));
  writer.end();
  const text = decode(...first, ...second, writer.finish());
  const chunks = [...text.matchAll(/^data: (\{.*)$/gm)].map(([, data]) => JSON.parse(data ?? ""));
  assertEquals(chunks.map(({ id }) => id), ["c", "c", "c", "c"]);
  assertEquals(chunks.map(({ choices: [{ delta, finish_reason }] }) => delta.content ?? finish_reason), [
    "O",
    "ne ",
    "two.",
    "stop",
  ]);
});

Deno.test("CHAT_PROTOCOL.writer() hides a recall among the client's calls and keeps their order", () => {
  const writer = streamed();
  const custom = { id: "x1", type: "custom", custom: { name: "patch", input: "*" } };
  const seen = [
    chunk({ role: "assistant", content: null, tool_calls: [{ index: 0, ...call("recall", {}, "r1") }] }),
    chunk({ tool_calls: [{ index: 1, ...call("read", {}, "c1") }] }),
    chunk({ tool_calls: [{ index: 2, ...custom }] }),
    chunk({}, "tool_calls"),
  ].flatMap((data) => writer.push(event(data)));
  const reply = writer.end();
  const chunks = [...decode(...seen, writer.finish()).matchAll(/^data: (\{.*)$/gm)].map(([, data]) =>
    JSON.parse(data ?? "").choices[0]
  );
  assertEquals(chunks.map(({ delta, finish_reason }) => delta.tool_calls?.[0].index ?? finish_reason), [
    null,
    0,
    1,
    "tool_calls",
  ]);
  assertEquals([reply.recalls, reply.callsClient], [[{ id: "r1", name: "recall", arguments: "{}" }], true]);
  const calls = [call("recall", {}, "r1"), call("read", {}, "c1"), custom];
  const whole = { role: "assistant", content: null, tool_calls: calls };
  assertEquals(JSON.parse(reply.items[0] ?? ""), whole);
  const [hidden] = writer.hidden([["answer"]]);
  assertEquals([hidden?.replaces.length, hidden?.items], [1, [reply.items[0] ?? "", "answer"]]);
});

Deno.test("CHAT_PROTOCOL.writer() reports a failure in the stream", () => {
  assertEquals(JSON.parse(decode(streamed().fail("It broke.")).slice(6)).error.message, "It broke.");
});

Deno.test("CHAT_PROTOCOL.readItem() reads any server's media parts as media", () => {
  const data = "QUJD1GVm".repeat(50_000);
  const parts = [
    { type: "text", text: "Look." },
    { type: "image_url", image_url: `data:image/png;base64,${data}` },
    { type: "video_url", video_url: { url: `data:video/mp4;base64,${data}` } },
    { type: "audio_url", audio_url: { url: `data:audio/mp3;base64,${data}` } },
    { type: "document_url", document_url: `data:application/pdf;base64,${data}` },
    { type: "hologram", data },
  ];
  const [read] = CHAT_PROTOCOL.readItem({ role: "user", content: parts });
  const { content } = read!.message;
  assertEquals(
    Array.isArray(content) && content.map(({ type }) => type),
    ["text", "image_url", "video_url", "input_audio", "file", "text", "file"],
  );
  const tokens = countMessageTokens(read!.message, estimateTokens);
  assertEquals(tokens < 33_000, true, `${tokens} tokens`);
});

const PAIR: ToolPairCalls = {
  find: "find_tools",
  call: "call_tool",
  meant(text) {
    const { name, arguments: args = {} } = JSON.parse(text);
    return name === "lost" ? undefined : { name, arguments: JSON.stringify(args) };
  },
};
const paired = () =>
  CHAT_PROTOCOL.writer(requestOf({ model: "m", messages: [], stream: true, ...REQUESTED }, CHAT_PROTOCOL), {
    pair: PAIR,
  });
const piece = (index: number, text: string, head: object = {}) => ({
  index,
  ...head,
  function: { ...("id" in head && { name: "call_tool" }), arguments: text },
});

Deno.test("CHAT_PROTOCOL.writer() holds calls of the pair until they are complete, in order, and hides invalid ones", () => {
  const writer = paired();
  const [a, b, c] = ["a", "b", "c"].map((id) => ({ id, type: "function" }));
  const seen = [
    chunk({ role: "assistant", content: "O" }),
    chunk({ tool_calls: [piece(0, '{"name":"get",', a)] }),
    chunk({ tool_calls: [piece(0, '"arguments":{"x":1}}')] }),
    chunk({ tool_calls: [piece(1, '{"name":"lost"}', b)] }),
    chunk({ tool_calls: [{ index: 2, ...call("read", {}, "r") }] }),
    chunk({ tool_calls: [piece(3, '{"name":"list"}', c)] }),
    chunk({}, "tool_calls", { usage: { prompt_tokens: 5, completion_tokens: 2 } }),
    "[DONE]",
  ].flatMap((data) => writer.push(event(data)));
  const { recalls, callsClient, usage } = writer.end();
  const chunks = [...decode(...seen, writer.finish()).matchAll(/^data: (\{.*)$/gm)]
    .map(([, data]) => JSON.parse(data!));
  assertEquals(
    chunks.map(({ choices: [{ delta, finish_reason }] }) =>
      delta.tool_calls?.map((made: Record<string, object>) => [made.index, made.id, made.function]) ??
        delta.content ?? finish_reason
    ),
    [
      "O",
      [[0, "a", { name: "get", arguments: '{"x":1}' }]],
      [[1, "r", { name: "read", arguments: "{}" }]],
      [[2, "c", { name: "list", arguments: "{}" }]],
      "tool_calls",
    ],
  );
  assertEquals(chunks.filter(({ usage }) => usage).length, 1);
  assertEquals([recalls, callsClient, usage?.promptTokens], [
    [{ id: "b", name: "call_tool", arguments: '{"name":"lost"}' }],
    true,
    5,
  ]);
});

Deno.test("CHAT_PROTOCOL.writer() reports a stop where all calls of the pair are invalid", () => {
  const writer = paired();
  const seen = [
    chunk({ role: "assistant", content: null }),
    chunk({ tool_calls: [piece(0, '{"name":"lost"}', { id: "a", type: "function" })] }, "tool_calls"),
    "[DONE]",
  ].flatMap((data) => writer.push(event(data)));
  const { recalls, callsClient } = writer.end();
  assertEquals([recalls.length, callsClient, decode(...seen).includes("call_tool")], [1, false, false]);
  assertMatch(decode(...seen, writer.finish()), /"finish_reason":"stop"/);
});
