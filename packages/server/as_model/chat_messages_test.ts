import { assertEquals, assertThrows } from "@std/assert";
import type { ChatMessage } from "./chat_completions_schema.ts";
import { readChatMessages } from "./chat_messages.ts";
import { ApiError } from "@tare/wire";

const read = (messages: readonly ChatMessage[]) => readChatMessages(messages, "messages");

Deno.test("readChatMessages() parts instructions from what was said, wherever they stand", () => {
  const image = [{ type: "image_url", image_url: { url: "x" } }] as const;
  assertEquals(
    read([
      { role: "system", content: "One." },
      { role: "user", content: "q" },
      { role: "assistant", content: [{ type: "text", text: "a" }] },
      { role: "developer", content: [{ type: "text", text: "Two." }] },
      { role: "user", content: image },
    ]),
    {
      instructions: "One.\n\nTwo.",
      dialogue: [
        { role: "user", content: "q" },
        { role: "assistant", content: "a" },
        { role: "user", content: image },
      ],
    },
  );
});

Deno.test("readChatMessages() joins an answer that comes in pieces, and leaves out empty ones", () => {
  assertEquals(
    read([
      { role: "user", content: "q" },
      { role: "assistant", content: "a" },
      { role: "assistant", content: null },
      { role: "assistant", refusal: "b" },
      { role: "user", content: "r" },
    ]).dialogue,
    [{ role: "user", content: "q" }, { role: "assistant", content: "ab" }, { role: "user", content: "r" }],
  );
});

Deno.test("readChatMessages() refuses calls, their results, and a conversation that the agent ended", () => {
  const refusal = (messages: readonly object[]) => {
    const error = assertThrows(() => read(messages as readonly ChatMessage[]), ApiError);
    return [error.status, error.details.param];
  };
  const call = { id: "c", type: "function", function: { name: "f", arguments: "" } };
  const user = { role: "user", content: "q" };
  assertEquals(refusal([user, { role: "assistant", tool_calls: [call] }, user]), [400, "messages[1]"]);
  assertEquals(refusal([user, { role: "assistant", function_call: call.function }]), [400, "messages[1]"]);
  assertEquals(refusal([{ role: "tool", tool_call_id: "c", content: "" }]), [400, "messages[0]"]);
  assertEquals(refusal([{ role: "function", name: "f", content: "" }]), [400, "messages[0]"]);
  assertEquals(refusal([user, { role: "assistant", content: "a" }]), [400, "messages"]);
  assertEquals(refusal([{ role: "system", content: "a" }]), [400, "messages"]);
  assertEquals(read([user as ChatMessage]).dialogue.length, 1);
});
