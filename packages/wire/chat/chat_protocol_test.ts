import { assertEquals, assertThrows } from "@std/assert";
import { CHAT_PROTOCOL, readBody, UnknownShape } from "@tare/wire";
import { encode } from "../request_fixture_test.ts";

Deno.test("CHAT_PROTOCOL takes messages as they are, unknown fields and parts included", () => {
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
    assertEquals<unknown>(CHAT_PROTOCOL.readItem(message), [{ message, text: ["content"] }]);
  }
  assertEquals(CHAT_PROTOCOL.readTool({ type: "custom", custom: { name: "c" } }), undefined);
});

Deno.test("CHAT_PROTOCOL refuses what it doesn't know", () => {
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

Deno.test("CHAT_PROTOCOL knows what clients say of their sessions", () => {
  const hints = (body: object, headers = {}) =>
    CHAT_PROTOCOL.readHints(readBody(encode(body)), new Headers(headers));
  assertEquals(hints({ n: 2 }), { isStateful: false, isDetached: true });
  assertEquals(hints({ n: 1 }, { "x-session-id": "s" }), { key: "s", isStateful: false, isDetached: false });
  assertEquals(hints({ prompt_cache_key: "k" }, { "x-session-id": "s" }).key, "k");
});

Deno.test("CHAT_PROTOCOL answers recalls and refuses requests in its own way", async () => {
  const [answer] = CHAT_PROTOCOL.writeAnswers([{ id: "c", text: "a" }]);
  assertEquals(JSON.parse(answer ?? ""), { role: "tool", tool_call_id: "c", content: "a" });
  const refused = CHAT_PROTOCOL.refuse(413, "Too large.", "body_too_large");
  assertEquals([refused.status, (await refused.json()).error.code], [413, "body_too_large"]);
  assertEquals(CHAT_PROTOCOL.auth.header("k"), ["authorization", "Bearer k"]);
});
