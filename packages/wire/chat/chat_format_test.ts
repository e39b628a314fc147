import { assertEquals, assertThrows } from "@std/assert";
import { CHAT_FORMAT } from "./chat_format.ts";
import { UnknownShape } from "../wire_format.ts";

Deno.test("CHAT_FORMAT takes messages as they are, unknown fields and parts included", () => {
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
  for (const message of messages) assertEquals<unknown>(CHAT_FORMAT.readItem(message), message);
  assertEquals(CHAT_FORMAT.readTool({ type: "custom", custom: { name: "c" } }), undefined);
});

Deno.test("CHAT_FORMAT refuses what it doesn't know", () => {
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
  for (const message of odd) assertThrows(() => CHAT_FORMAT.readItem(message), UnknownShape);
  for (const tool of [null, {}, { type: "function", function: {} }]) {
    assertThrows(() => CHAT_FORMAT.readTool(tool), UnknownShape);
  }
});
