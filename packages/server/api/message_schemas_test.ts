import { assertEquals } from "@std/assert";
import type { Message } from "@tare/messages";
import { checker } from "../http/schema.ts";
import { MESSAGE } from "./message_schemas.ts";

const faults = checker(MESSAGE);

Deno.test("MESSAGE takes every kind of message, with what providers add, and refuses others", () => {
  const call = { id: "c", type: "function", function: { name: "f", arguments: "{" } } as const;
  const messages: (Message & { readonly signature?: string })[] = [
    { role: "system", content: "s" },
    { role: "developer", content: [{ type: "text", text: "d" }] },
    { role: "user", content: [{ type: "image_url", image_url: { url: "https://example.com" } }], name: "n" },
    { role: "assistant", content: null, tool_calls: [call], reasoning_content: "r", signature: "s" },
    { role: "assistant", tool_calls: [{ id: "c", type: "custom", custom: { name: "c", input: "i" } }] },
    { role: "assistant", content: "c", carried: { by: "m", tokens: 3, items: [{ type: "reasoning" }] } },
    { role: "tool", tool_call_id: "c", content: "t" },
    { role: "function", name: "f", content: null },
  ];
  for (const message of messages) assertEquals(faults(message), undefined, message.role);
  const carrying = (carried: object) => ({ role: "assistant", content: "c", carried });
  for (
    const wrong of [
      { role: "user" },
      { role: "tool", content: "t" },
      { role: "other", content: "o" },
      ...[{ items: "all" }, { items: [1] }, { tokens: -1 }, { by: 1 }].map(carrying),
    ]
  ) {
    assertEquals(typeof faults(wrong), "string", wrong.role);
  }
});
