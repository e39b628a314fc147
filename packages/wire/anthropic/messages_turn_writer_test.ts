import { assertEquals } from "@std/assert";
import { type JsonRecord, messageEvents, MESSAGES_PROTOCOL, type MessagesReply } from "@tare/wire";
import { decode, encode, requestOf } from "../request_fixture_test.ts";

const writer = (recall: string | undefined = "recall") =>
  MESSAGES_PROTOCOL.writer(requestOf({ model: "m", messages: [] }, MESSAGES_PROTOCOL), { recall });
const event = (data: JsonRecord) => encode(`event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`);
const call = (name: string, args: object, id: string) => ({
  id,
  type: "function" as const,
  function: { name, arguments: JSON.stringify(args) },
});

/** A reply that took so many tokens. */
function replyOf(id: string, message: object, promptTokens: number): MessagesReply {
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

Deno.test("MESSAGES_PROTOCOL.writer() keeps the bytes of a stream without recalls, however it is cut", () => {
  const reply = replyOf("msg_1", {
    reasoning_content: "Hé 🎈".repeat(20),
    content: "Text",
    tool_calls: [call("read", { path: "a" }, "c1")],
  }, 100);
  const text = `: hello\r\n\r\n${decode(...messageEvents(reply).map(event))}event: odd\ndata: {"x":1.0}\n\n`;
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

Deno.test("MESSAGES_PROTOCOL.writer() joins streamed recalls and what follows: indexes go on, the last call's usage counts", () => {
  const one = writer();
  let seen = decode(...messageEvents(RECALLS).flatMap((data) => one.push(event(data))));
  const first = one.end();
  assertEquals([first.callsClient, first.recalls], [false, [{ id: "r1", arguments: '{"ref":"r"}' }]]);
  const blocks = [
    { type: "thinking", thinking: "Which one was it?", signature: "sig" },
    { type: "text", text: "I look it up." },
    { type: "tool_use", id: "r1", name: "recall", input: { ref: "r" } },
  ];
  assertEquals(first.items.map((json) => JSON.parse(json)), [{ role: "assistant", content: blocks }]);
  seen += decode(...messageEvents(MIXED).flatMap((data) => one.push(event(data))));
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
  assertEquals([hidden?.replaces, hidden?.items], [true, [
    ...first.items,
    "answer 1",
    ...second.items,
    "answer 2",
  ]]);
});

Deno.test("MESSAGES_PROTOCOL.writer() strips recalls from whole replies, and ends a turn that does nothing else", () => {
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

Deno.test("MESSAGES_PROTOCOL.writer() tells of an upstream that fails behind a recall, and reads a stream that breaks off", () => {
  const one = writer();
  one.push(event(messageEvents(RECALLS)[0]!));
  one.push(encode("event: message_delta\ndata: {broken"));
  assertEquals(one.end().usage?.promptTokens, 100);
  assertEquals(decode(one.finish()), "event: message_delta\ndata: {broken");
  assertEquals(read(decode(one.fail("Gone."))), [{
    type: "error",
    error: { type: "api_error", message: "Gone." },
  }]);
});

Deno.test("MESSAGES_PROTOCOL.writer() puts citations and odd inputs together as they came", () => {
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
