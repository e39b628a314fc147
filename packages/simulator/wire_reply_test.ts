import { assertEquals } from "@std/assert";
import { completionBody, completionChunks, replyMessage, type WireReply } from "./wire_reply.ts";

const call = { type: "function", function: { name: "f", arguments: "{}" } } as const;

Deno.test("replyMessage() gives calls without an id one, keeps empty ids and unknown fields", () => {
  const reply = {
    content: "Looking.",
    tool_calls: [call, { ...call, id: "" }, { ...call, id: "mine" }],
    signature: "s",
    finish_reason: "stop",
    fault: { type: "no_usage" },
  } as const;
  assertEquals(replyMessage(reply, "7"), {
    role: "assistant",
    content: "Looking.",
    tool_calls: [{ ...call, id: "call_7_0" }, { ...call, id: "" }, { ...call, id: "mine" }],
    signature: "s",
  } as ReturnType<typeof replyMessage>);
  assertEquals(replyMessage({ tool_calls: [] }, "7"), { role: "assistant", content: null });
});

const frame = { id: "c1", created: 5, model: "m" };
const reply: WireReply = {
  ...frame,
  message: replyMessage({
    reasoning_content: "Why not.",
    content: "A text of more than 24 characters.",
    tool_calls: [{ ...call, id: "a" }],
  }, ""),
  finishReason: "tool_calls",
  usage: { prompt_tokens: 1 },
};

Deno.test("completionBody() is a chat completion", () => {
  assertEquals(completionBody(reply), {
    ...frame,
    object: "chat.completion",
    choices: [{ index: 0, message: reply.message, finish_reason: "tool_calls", logprobs: null }],
    usage: { prompt_tokens: 1 },
  });
});

Deno.test("completionChunks() streams reasoning, text and calls, then the reason to stop, then usage", () => {
  const chunk = (delta: object, finish_reason: string | null = null) => ({
    ...frame,
    object: "chat.completion.chunk",
    choices: [{ index: 0, delta, finish_reason }],
    usage: null,
  });
  assertEquals(completionChunks(reply), [
    chunk({ role: "assistant", content: "" }),
    chunk({ reasoning_content: "Why not." }),
    chunk({ content: "A text of more than 24 c" }),
    chunk({ content: "haracters." }),
    chunk({
      tool_calls: [{ index: 0, id: "a", type: "function", function: { name: "f", arguments: "" } }],
    }),
    chunk({ tool_calls: [{ index: 0, function: { arguments: "{}" } }] }),
    chunk({}, "tool_calls"),
    { ...frame, object: "chat.completion.chunk", choices: [], usage: { prompt_tokens: 1 } },
  ]);
});

Deno.test("completionChunks() says nothing of usage that isn't to be sent", () => {
  const { usage: _, ...silent } = reply;
  assertEquals(completionChunks(silent).some((chunk) => "usage" in chunk), false);
});
