import { assertEquals, assertThrows } from "@std/assert";
import { responsesFormat } from "./responses_format.ts";
import { UnknownShape } from "../wire_format.ts";

Deno.test("responsesFormat() makes a message of each item", () => {
  const { readItem } = responsesFormat();
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
  const read = items.map(readItem);
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

Deno.test("responsesFormat() knows items of replies by their ids", () => {
  const format = responsesFormat();
  const item = { type: "function_call", id: "fc", call_id: "c", name: "f", arguments: "{}" };
  format.writer({ hidesUsage: false })
    .read(new TextEncoder().encode(JSON.stringify({ output: [item] })));
  assertEquals(format.readItem({ type: "item_reference", id: "fc" }), format.readItem(item));
});

Deno.test("responsesFormat() writes tools and messages in its own way", () => {
  const { readTool, writeTool, writeMessage } = responsesFormat();
  const original = { type: "function", name: "f", description: "Long.", parameters: {}, extra: 1 };
  assertEquals(readTool({ type: "web_search" }), undefined);
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
  assertEquals(JSON.parse(writeMessage({ role: "tool", tool_call_id: "c", content: "a" })), {
    type: "function_call_output",
    call_id: "c",
    output: "a",
  });
});
