import { assertEquals, assertNotEquals, assertStrictEquals, assertThrows } from "@std/assert";
import type { Message } from "@tare/messages";
import type { JsonRecord } from "@tare/wire";
import {
  MESSAGES_PROTOCOL,
  MessageWriter,
  readWireBody,
  UnknownShape,
  writeRequest,
} from "@tare/wire/internal";
import { decode, encode, newReaders, requestOf, visible } from "../request_fixture_test.ts";

const MARK = { cache_control: { type: "ephemeral" } };
const USE = { type: "tool_use", id: "c1", name: "read", input: { cache_control: 1, path: "a" } };
const result = (id: string, content: unknown, more: object = {}) => ({
  type: "tool_result",
  tool_use_id: id,
  content,
  ...more,
});

Deno.test("MESSAGES_PROTOCOL.readItem() returns a message per reply and per block of the user", () => {
  const messages = [
    { role: "user", content: "Go." },
    {
      role: "assistant",
      content: [
        { type: "thinking", thinking: "Hm.", signature: "s" },
        { type: "redacted_thinking", data: "x".repeat(5_000) },
        { type: "text", text: "Look." },
        USE,
      ],
    },
    {
      role: "user",
      content: [
        result("c1", "A."),
        result("c2", [{ type: "text", text: "B." }], { is_error: true }),
        result("c3", [{ type: "text", text: "C." }, {
          type: "image",
          source: { type: "base64", data: "…" },
        }]),
        { type: "text", text: "And now?" },
        { type: "document", source: { type: "base64", data: "abcd" } },
      ],
    },
    { role: "system", content: "Be brief." },
    { role: "assistant", content: "Done." },
  ];
  const found = result("c4", [{ type: "tool_reference", tool_name: "mcp__github__search" }]);
  const [item] = MESSAGES_PROTOCOL.readItem({ role: "user", content: [found] });
  assertEquals(item?.message.role === "tool" && item.message.keep, true);
  const read = messages.flatMap(MESSAGES_PROTOCOL.readItem).map(({ message }) => message);
  const [, reply, ...more] = read;
  assertEquals(reply?.role === "assistant" && [reply.reasoning_content, reply.tool_calls], ["Hm.", [{
    id: "c1",
    type: "function",
    function: { name: "read", arguments: '{"cache_control":1,"path":"a"}' },
  }]]);
  assertEquals(JSON.stringify(reply?.content).length < 1_200, true);
  const image = { type: "image_url", image_url: { url: "" } } as const;
  const expected: Message[] = [
    { role: "tool", tool_call_id: "c1", content: "A." },
    { role: "tool", tool_call_id: "c2", content: "B.", failed: true },
    { role: "tool", tool_call_id: "c3", content: [{ type: "text", text: "C." }, image], keep: true },
    { role: "user", content: "And now?" },
    {
      role: "user",
      content: [{ type: "file", file: { file_data: "data:application/octet-stream;base64,abcd" } }],
    },
    { role: "system", content: "Be brief." },
    { role: "assistant", content: "Done." },
  ];
  assertEquals(more, expected);
  for (
    const odd of [1, { role: "tool", content: "" }, { role: "user", content: [{}] }, {
      role: "user",
      content: [{ type: "tool_result", tool_use_id: 1 }],
    }, { role: "assistant", content: [{ type: "text", text: 1 }] }]
  ) {
    assertThrows(() => MESSAGES_PROTOCOL.readItem(odd), UnknownShape);
  }
});

Deno.test("MESSAGES_PROTOCOL.readItem() treats all spellings and breakpoints of a message as equal", () => {
  const readers = newReaders();
  const items = (content: unknown, system: unknown = "S") =>
    requestOf({ model: "m", system, messages: [{ role: "user", content }] }, MESSAGES_PROTOCOL, readers)
      .items;
  const text = items("Go.");
  const block = items([{ type: "text", text: "Go.", ...MARK }], [{ type: "text", text: "S", ...MARK }]);
  assertEquals(text.map(({ key }) => key), block.map(({ key }) => key));
  assertStrictEquals(text[1]?.parts[0]?.message, block[1]?.parts[0]?.message);
  assertEquals([text[1]?.parts[0]?.text, block[1]?.parts[0]?.text], [["content"], ["content", 0, "text"]]);
  const results = [result("c", "A."), result("c", [{ type: "text", text: "A.", ...MARK }]), result("d", "A.")]
    .map((block) => items([block])[1]?.key);
  assertEquals(results[0], results[1]);
  assertNotEquals(results[0], results[2]);
  // A tool's input is no breakpoint.
  const uses = [USE, { ...USE, input: { path: "a" } }].map((use) =>
    requestOf({ model: "m", messages: [{ role: "assistant", content: [use] }] }, MESSAGES_PROTOCOL, readers)
      .items[1]?.key
  );
  assertNotEquals(uses[0], uses[1]);
});

Deno.test("MESSAGES_PROTOCOL edits single blocks and preserves all other bytes", () => {
  const body = '{ "model":"m","system":"S","max_tokens":1.0,"messages":[{"role":"user","content":"Go."},' +
    '{"content":[{"type":"thinking","thinking":"Hm.","signature":"\\u0073"},{"type":"tool_use","id":"c1","name":"read","input":{"n":1.0}},' +
    '{"type":"tool_use","id":"c2","name":"read","input":{}}],"role":"assistant"},' +
    '{"role":"user","content":[ {"type":"tool_result","tool_use_id":"c1","content":"long","x":1.0}, ' +
    '{"type":"tool_result","tool_use_id":"c2","content":[{"type":"text","text":"longer"}]},{"type":"text","text":"And?"}]}] }';
  const request = requestOf(body, MESSAGES_PROTOCOL);
  const written = (changed: Parameters<typeof visible>[1]) =>
    decode(writeRequest(request, visible(request, changed)));
  assertStrictEquals(writeRequest(request, visible(request)), request.bytes);
  assertEquals(written({ 3: { content: "[1]" } }), body.replace('"long"', '"[1]"'));
  assertEquals(
    written({ 4: { content: "[2]" } }),
    body.replace('[{"type":"text","text":"longer"}]', '"[2]"'),
  );
  const left = JSON.parse(written({ 2: null, 3: null, 4: null }));
  assertEquals(left.messages, [
    { role: "user", content: "Go." },
    { role: "user", content: [{ type: "text", text: "And?" }] },
  ]);
});

Deno.test("MESSAGES_PROTOCOL writes tools, placeholders and answers in its format", () => {
  const { readTool, writeTool, writeMessage, writeAnswers } = MESSAGES_PROTOCOL;
  const original = { name: "f", description: "Long.", input_schema: { type: "object" }, ...MARK };
  const read = readTool(original);
  assertEquals(read.definition.function, { name: "f", description: "Long.", parameters: { type: "object" } });
  const search = { type: "web_search_20250305", name: "web_search" };
  const whole = { type: "function", function: { name: `web_search ${JSON.stringify(search)}` } } as const;
  assertEquals(readTool({ ...search, ...MARK }), { definition: whole, inFront: true });
  assertEquals([read, readTool({ ...original, defer_loading: true })].map(({ inFront }) => inFront), [
    true,
    false,
  ]);
  for (const odd of [1, { name: "f" }, { input_schema: {} }]) assertThrows(() => readTool(odd), UnknownShape);
  const brief = { type: "function", function: { name: "f", parameters: { type: "object" } } } as const;
  assertEquals(JSON.parse(writeTool(brief, original)), {
    name: "f",
    input_schema: { type: "object" },
    ...MARK,
  });
  assertEquals(JSON.parse(writeTool({ type: "function", function: { name: "g" } })), {
    name: "g",
    input_schema: { type: "object" },
  });
  assertEquals(JSON.parse(writeMessage({ role: "user", content: "[elided]" })), {
    role: "user",
    content: "[elided]",
  });
  assertEquals(writeAnswers([]), []);
  assertEquals(
    writeAnswers([{ id: "1", text: "A" }, { id: "2", text: "B" }]).map((json) => JSON.parse(json)),
    [{
      role: "user",
      content: [result("1", "A"), result("2", "B")],
    }],
  );
});

Deno.test("MESSAGES_PROTOCOL.readHints() reads the session and detects unplannable requests", () => {
  const hints = (more: object, headers: Record<string, string> = {}) =>
    MESSAGES_PROTOCOL.readHints(
      readWireBody(encode({ model: "m", messages: [], ...more })),
      new Headers(headers),
    );
  assertEquals(hints({ metadata: { user_id: '{"device_id":"d","session_id":"s"}' } }).key, "s");
  assertEquals(hints({ metadata: { user_id: "u" } }).key, "u");
  assertEquals(hints({}, { "x-session-id": "x" }).key, "x");
  assertEquals(hints({}).key, undefined);
  const edits = (...edits: unknown[]) => hints({ context_management: { edits } }).isDetached;
  assertEquals(edits({ type: "clear_thinking_20251015", keep: "all" }), false);
  assertEquals(edits({ type: "clear_tool_uses_20250919" }), true);
  assertEquals(hints({ thread: { type: "create" } }).isDetached, true);
  const { speaks, auth } = MESSAGES_PROTOCOL;
  assertEquals(speaks?.(new Headers({ "anthropic-version": "2023-06-01" })), true);
  assertEquals(speaks?.(new Headers()), false);
  assertEquals([auth.name, auth.prefix], ["x-api-key", ""]);
});

Deno.test("MESSAGES_PROTOCOL.refuse() returns its provider's error format", async () => {
  const types = await Promise.all([400, 401, 403, 404, 413, 415, 429, 500, 529].map(async (status) => {
    const response = MESSAGES_PROTOCOL.refuse(status, "No.", "");
    const { type, error } = await response.json();
    return [response.status, type, error.type, error.message];
  }));
  assertEquals(types, [
    [400, "error", "invalid_request_error", "No."],
    [401, "error", "authentication_error", "No."],
    [403, "error", "permission_error", "No."],
    [404, "error", "not_found_error", "No."],
    [413, "error", "request_too_large", "No."],
    [415, "error", "invalid_request_error", "No."],
    [429, "error", "rate_limit_error", "No."],
    [500, "error", "api_error", "No."],
    [529, "error", "overloaded_error", "No."],
  ]);
});

const writer = (recall: string | undefined = "recall") =>
  MESSAGES_PROTOCOL.writer(requestOf({ model: "m", messages: [] }, MESSAGES_PROTOCOL), { recall });
const event = (data: JsonRecord) => encode(`event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`);
const call = (name: string, args: object, id: string) => ({
  id,
  type: "function" as const,
  function: { name, arguments: JSON.stringify(args) },
});

function replyOf(
  id: string,
  message: object,
  promptTokens: number,
): ConstructorParameters<typeof MessageWriter>[0] {
  const calls = "tool_calls" in message;
  return {
    id,
    model: "m",
    message: { role: "assistant", content: null, ...message },
    finishReason: calls ? "tool_calls" : "stop",
    usage: { promptTokens, cachedTokens: 10, cacheWriteTokens: 20, hourWriteTokens: 5, outputTokens: 7 },
  };
}

const RECALLS = replyOf("msg_1", {
  reasoning_content: "Which one was it?",
  signature: "sig",
  content: "I look it up.",
  tool_calls: [call("recall", { ref: "r" }, "r1")],
}, 100);
const MIXED = replyOf("msg_2", {
  reasoning_content: "Two at once.",
  tool_calls: [call("recall", { ref: "s" }, "r2"), call("read", { path: "a" }, "c1")],
}, 200);

const read = (text: string): JsonRecord[] =>
  text.trim().split("\n\n").map((event) => JSON.parse(/^data: (.*)$/m.exec(event)![1]!));

const outline = (events: readonly JsonRecord[]) =>
  events.map(({ type, index }) => `${type}${index === undefined ? "" : ` ${index}`}`)
    .filter((line, at, all) => line !== all[at - 1]).join(", ");

Deno.test("MESSAGES_PROTOCOL.writer() preserves the bytes of a stream without recalls in any chunks", () => {
  const reply = replyOf("msg_1", {
    reasoning_content: "Hé 🎈".repeat(20),
    content: "Text",
    tool_calls: [call("read", { path: "a" }, "c1")],
  }, 100);
  const text = `: hello\r\n\r\n${
    decode(...new MessageWriter(reply).events().map(event))
  }event: odd\ndata: {"x":1.0}\n\n`;
  for (const size of [1, 7, 10_000]) {
    const bytes = encode(text);
    const one = writer();
    let seen = "";
    for (let at = 0; at < bytes.length; at += size) seen += decode(...one.push(bytes.slice(at, at + size)));
    const { usage, recalls, callsClient } = one.end();
    assertEquals(seen + decode(one.finish()), text);
    assertEquals([usage, recalls, callsClient], [reply.usage, [], true]);
    assertEquals(one.hidden([]), []);
  }
});

const RECALL = { id: "r1", name: "recall", arguments: '{"ref":"r"}' };

Deno.test("MESSAGES_PROTOCOL.writer() joins streamed recalls and continuations: indexes continue, the last usage counts", () => {
  const one = writer();
  let seen = decode(...new MessageWriter(RECALLS).events().flatMap((data) => one.push(event(data))));
  const first = one.end();
  assertEquals([first.callsClient, first.recalls], [false, [RECALL]]);
  const blocks = [
    { type: "thinking", thinking: "Which one was it?", signature: "sig" },
    { type: "text", text: "I look it up." },
    { type: "tool_use", id: "r1", name: "recall", input: { ref: "r" } },
  ];
  assertEquals(first.items.map((json) => JSON.parse(json)), [{ role: "assistant", content: blocks }]);
  seen += decode(...new MessageWriter(MIXED).events().flatMap((data) => one.push(event(data))));
  const second = one.end();
  assertEquals([second.callsClient, second.recalls.length, second.usage], [true, 1, MIXED.usage]);
  const events = read(seen + decode(one.finish()));
  assertEquals(
    outline(events),
    "message_start, ping, content_block_start 0, content_block_delta 0, content_block_stop 0, " +
      "content_block_start 1, content_block_delta 1, content_block_stop 1, ping, " +
      "content_block_start 2, content_block_delta 2, content_block_stop 2, " +
      "content_block_start 3, content_block_delta 3, content_block_stop 3, message_delta, message_stop",
  );
  const last = events.at(-2) as { delta: JsonRecord; usage: JsonRecord };
  assertEquals([last.delta.stop_reason, last.usage.input_tokens, last.usage.output_tokens], [
    "tool_use",
    170,
    7,
  ]);
  assertEquals(JSON.stringify(events).includes("recall"), false);
  const answers = [["answer 1"], ["answer 2"]];
  const [hidden] = one.hidden(answers);
  assertEquals([hidden?.replaces.length, hidden?.items], [1, [
    ...first.items,
    "answer 1",
    ...second.items,
    "answer 2",
  ]]);
});

Deno.test("MESSAGES_PROTOCOL.writer() removes recalls from unstreamed replies, and ends a turn without other calls", () => {
  const one = writer();
  const body = { id: "msg_1", type: "message", role: "assistant", stop_reason: "tool_use", x: 1 };
  const recall = { type: "tool_use", id: "r1", name: "recall", input: {} };
  const text = { type: "text", text: "Hm." };
  const usage = { input_tokens: 5, output_tokens: 1 };
  one.read(encode({ ...body, content: [text, recall], usage }));
  const [hidden] = one.hidden([]);
  assertEquals(hidden?.items.map((json) => JSON.parse(json).content), [[text, recall]]);
  assertEquals(JSON.parse(decode(one.finish())), {
    ...body,
    stop_reason: "end_turn",
    content: [text],
    usage,
  });
  const two = writer();
  const bytes = encode(`{ "content":[],"usage":{"input_tokens":1.0} }`);
  assertEquals(two.read(bytes).usage?.promptTokens, 1);
  assertEquals(two.finish(), bytes);
});

Deno.test("MESSAGES_PROTOCOL.writer() reports an upstream failure after a recall, and reads a truncated stream", () => {
  const one = writer();
  one.push(event(new MessageWriter(RECALLS).events()[0]!));
  one.push(encode("event: message_delta\ndata: {broken"));
  assertEquals(one.end().usage?.promptTokens, 100);
  assertEquals(decode(one.finish()), "event: message_delta\ndata: {broken");
  assertEquals(read(decode(one.fail("Gone."))), [{
    type: "error",
    error: { type: "api_error", message: "Gone." },
  }]);
});

Deno.test("MESSAGES_PROTOCOL.writer() restores citations and unusual inputs exactly", () => {
  const one = writer();
  const start = (index: number, content_block: object) => ({
    type: "content_block_start",
    index,
    content_block,
  });
  const delta = (index: number, delta: object) => ({ type: "content_block_delta", index, delta });
  const events = [
    start(0, { type: "text", text: "" }),
    delta(0, { type: "text_delta", text: "A" }),
    delta(0, { type: "citations_delta", citation: { n: 1 } }),
    delta(0, { type: "citations_delta", citation: { n: 2 } }),
    start(1, { type: "tool_use", id: "r", name: "recall", input: {} }),
    delta(1, { type: "input_json_delta", partial_json: "" }),
    start(2, { type: "tool_use", id: "c", name: "read", input: {} }),
    delta(2, { type: "input_json_delta", partial_json: '{"a"' }),
    delta(9, { type: "text_delta", text: "of no block" }),
  ];
  for (const data of events) one.push(event(data));
  assertEquals(one.end().items.map((json) => JSON.parse(json).content), [[
    { type: "text", text: "A", citations: [{ n: 1 }, { n: 2 }] },
    { type: "tool_use", id: "r", name: "recall", input: {} },
    { type: "tool_use", id: "c", name: "read", input: {} },
  ]]);
});
