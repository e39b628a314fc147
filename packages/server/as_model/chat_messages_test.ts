import { assertEquals, assertThrows } from "@std/assert";
import { ApiError } from "@tare/wire/internal";
import { type ChatMessage, readChatMessages } from "./chat_completions.ts";

const read = (messages: readonly ChatMessage[]) => readChatMessages(messages, { parameter: "messages" });

Deno.test("readChatMessages() separates instructions from the dialogue at any position", () => {
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

Deno.test("readChatMessages() merges a split answer and omits empty ones", () => {
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

const call = (id: string) => ({ id, type: "function", function: { name: "f", arguments: "{}" } }) as const;
const result = (id: string) => ({ role: "tool", tool_call_id: id, content: "r" }) as const;

Deno.test("readChatMessages() accepts calls of the client's tools with all their results", () => {
  const user = { role: "user", content: "q" } as const;
  assertEquals(
    read([
      user,
      { role: "assistant", content: "Look.", tool_calls: [call("1")] },
      { role: "assistant", tool_calls: [call("2")] },
      result("2"),
      { role: "developer", content: "Be kind." },
      result("1"),
      user,
    ]),
    {
      instructions: "Be kind.",
      dialogue: [
        user,
        { role: "assistant", content: "Look.", tool_calls: [call("1"), call("2")] },
        result("2"),
        result("1"),
        user,
      ],
    },
  );
  assertEquals(readChatMessages([result("1")], { parameter: "input", open: ["1"] }).dialogue, [result("1")]);
});

Deno.test("readChatMessages() refuses a call without its result and a result without its call", () => {
  const refusal = (messages: readonly object[]) => {
    const error = assertThrows(() => read(messages as readonly ChatMessage[]), ApiError);
    return [error.status, error.details.param, error.message];
  };
  const user = { role: "user", content: "q" };
  const calling = { role: "assistant", tool_calls: [call("1"), call("2")] };
  const missing = (ids: string) => [
    400,
    "messages",
    `Cannot answer: the result of ${ids} is missing; results must directly follow their calls.`,
  ];
  assertEquals(refusal([user, calling, result("1")]), missing('"2"'));
  assertEquals(refusal([user, calling, user]), missing('"1", "2"'));
  assertEquals(refusal([user, calling, result("1"), calling]), missing('"2"'));
  const stray = [
    400,
    "messages[1]",
    'Cannot use messages[1]: it is the result of call "1", which is not open there.',
  ];
  assertEquals(refusal([user, result("1")]), stray);
  assertEquals(refusal([user, calling, result("1"), result("1")])[1], "messages[3]");
});

Deno.test("readChatMessages() refuses other kinds of calls and a conversation that ends with an answer", () => {
  const refusal = (messages: readonly object[]) => {
    const error = assertThrows(() => read(messages as readonly ChatMessage[]), ApiError);
    return [error.status, error.details.param];
  };
  const custom = { id: "c", type: "custom", custom: { name: "f", input: "" } };
  const user = { role: "user", content: "q" };
  assertEquals(refusal([user, { role: "assistant", tool_calls: [custom] }, user]), [
    400,
    "messages[1].tool_calls[0]",
  ]);
  assertEquals(refusal([user, { role: "assistant", function_call: { name: "f", arguments: "" } }]), [
    400,
    "messages[1]",
  ]);
  assertEquals(refusal([{ role: "tool", tool_call_id: "c", content: "" }]), [400, "messages[0]"]);
  assertEquals(refusal([{ role: "function", name: "f", content: "" }]), [400, "messages[0]"]);
  assertEquals(refusal([user, { role: "assistant", content: "a" }]), [400, "messages"]);
  assertEquals(refusal([{ role: "system", content: "a" }]), [400, "messages"]);
  assertEquals(read([user as ChatMessage]).dialogue.length, 1);
});
