import { assertEquals, assertThrows } from "@std/assert";
import { type ItemPart, readWireBody, RESPONSES_PROTOCOL, UnknownShape } from "@tare/wire/internal";
import { decode, encode, requestOf } from "../request_fixture_test.ts";

Deno.test("RESPONSES_PROTOCOL.readItem() returns a message per item", () => {
  const { readItem } = RESPONSES_PROTOCOL;
  const items = [
    "Go.",
    {
      role: "user",
      content: [{ type: "input_text", text: "a" }, { type: "input_image", image_url: "x", detail: "low" }],
    },
    { type: "reasoning", id: "rs", summary: [{ type: "summary_text", text: "Hm." }], encrypted_content: "…" },
    { type: "function_call", call_id: "c", name: "f", arguments: "{}" },
    { type: "function_call_output", call_id: "c", output: "done" },
    { type: "web_search_call", id: "ws", data: "x".repeat(5000) },
  ];
  const read = items.flatMap(readItem).map(({ message }) => message);
  assertEquals(read.map(({ role }) => role), ["user", "user", "assistant", "assistant", "tool", "assistant"]);
  assertEquals(read[4], { role: "tool", tool_call_id: "c", content: "done" });
  assertEquals(String(read[5]?.content).length < 1_100, true);
  for (
    const odd of [1, { role: "robot", content: "" }, { type: "function_call" }, {
      role: "user",
      content: [{}],
    }]
  ) {
    assertThrows(() => readItem(odd), UnknownShape);
  }
});

Deno.test("RESPONSES_PROTOCOL.writer() reports items that later requests may reference", () => {
  const items = [
    { type: "function_call", id: "fc", call_id: "c", name: "f", arguments: "{}" },
    { type: "function_call", id: "odd" },
    { type: "reasoning", summary: [] },
  ];
  const seen = new Map<string, readonly ItemPart[]>();
  const request = requestOf({ model: "m", input: [] }, RESPONSES_PROTOCOL);
  RESPONSES_PROTOCOL.writer(request, { seen: (id, parts) => seen.set(id, parts) })
    .read(encode({ output: items }));
  assertEquals([...seen], [["fc", RESPONSES_PROTOCOL.readItem(items[0])]]);
  assertEquals(RESPONSES_PROTOCOL.readItem({ type: "item_reference", id: "fc" })[0]?.refersTo, "fc");
});

Deno.test("RESPONSES_PROTOCOL writes tools and messages in its format", () => {
  const { readTool, writeTool, writeMessage, writeAnswers } = RESPONSES_PROTOCOL;
  const original = { type: "function", name: "f", description: "Long.", parameters: {}, extra: 1 };
  const nameOf = (tool: object) => readTool(tool).definition.function.name;
  assertEquals(nameOf({ type: "web_search" }), 'web_search {"type":"web_search"}');
  // Neither credentials nor deferred tools are visible.
  assertEquals(nameOf({ type: "mcp", authorization: "secret", headers: {} }), 'mcp {"type":"mcp"}');
  const tools = [{ ...original, defer_loading: true }, original];
  assertEquals(
    nameOf({ type: "namespace", name: "n", tools }),
    `n ${JSON.stringify({ type: "namespace", name: "n", tools: [original] })}`,
  );
  assertEquals(tools.map((tool) => readTool(tool).inFront), [false, true]);
  assertEquals(
    JSON.parse(writeTool({ type: "function", function: { name: "f", parameters: {} } }, original)),
    {
      type: "function",
      name: "f",
      parameters: {},
      extra: 1,
    },
  );
  assertEquals(JSON.parse(writeTool({ type: "function", function: { name: "f" } })).strict, false);
  const answers = writeAnswers([{ id: "c", text: "a" }]);
  assertEquals(answers.map((answer) => JSON.parse(answer)), [{
    type: "function_call_output",
    call_id: "c",
    output: "a",
  }]);
  assertEquals(JSON.parse(writeMessage({ role: "user", content: "a" })), { role: "user", content: "a" });
});

Deno.test("RESPONSES_PROTOCOL.readHints() reads the client's session", () => {
  const hints = (body: object) => RESPONSES_PROTOCOL.readHints(readWireBody(encode(body)), new Headers());
  assertEquals(hints({ previous_response_id: "r", prompt_cache_key: "k" }), {
    key: "k",
    follows: "r",
    isStateful: true,
    isDetached: false,
  });
  assertEquals(hints({ conversation: { id: "c" } }), {
    name: '{"id":"c"}',
    isAppended: true,
    isStateful: true,
    isDetached: false,
  });
  assertEquals(hints({ background: true, conversation: null }), { isStateful: false, isDetached: true });
});

Deno.test("RESPONSES_PROTOCOL.readItem() reads all types of calls and content", () => {
  const read = (item: object) => RESPONSES_PROTOCOL.readItem(item)[0]?.message;
  assertEquals(read({ type: "custom_tool_call", call_id: "c", name: "patch", input: "*" }), {
    role: "assistant",
    tool_calls: [{ id: "c", type: "custom", custom: { name: "patch", input: "*" } }],
  });
  const content = [
    { type: "output_text", text: "a" },
    { type: "refusal", refusal: "No." },
    { type: "input_file", file_data: "x" },
    { type: "input_image" },
  ];
  assertEquals(read({ role: "assistant", content })?.content, [
    { type: "text", text: "a" },
    { type: "refusal", refusal: "No." },
    { type: "file", file: { file_data: "data:application/octet-stream;base64,x" } },
    { type: "image_url", image_url: { url: "" } },
  ]);
  const { readTool, head } = RESPONSES_PROTOCOL;
  for (const odd of [null, { type: "function" }]) assertThrows(() => readTool(odd), UnknownShape);
  assertThrows(() => read({ role: "user", content: 1 }), UnknownShape);
  assertThrows(() => read({ role: "user", content: [1] }), UnknownShape);
  assertEquals(head?.read([{ a: 1 }])[0]?.message.content, '{"a":1}');
});

Deno.test("RESPONSES_PROTOCOL.writer() reports a failure in the stream with a sequence number", () => {
  const writer = RESPONSES_PROTOCOL.writer(requestOf({ model: "m", input: [] }, RESPONSES_PROTOCOL), {});
  const created = { type: "response.created", response: { id: "r" }, sequence_number: 0 };
  const odd = "event: x\ndata: no JSON response.created\n\n";
  const seen = writer.push(encode(`data: ${JSON.stringify(created)}\n\n${odd}`));
  assertEquals(decode(...seen).endsWith(odd), true);
  assertEquals(JSON.parse(decode(writer.fail("It broke.")).split("data: ")[1] ?? ""), {
    type: "error",
    code: "upstream_failed",
    message: "It broke.",
    param: null,
    sequence_number: 1,
  });
});
