import { assertEquals } from "@std/assert";
import type { FinishReason, ModelEvent } from "@tare/messages";
import { assemble, delta } from "./assembler_fixture_test.ts";

Deno.test("ReplyAssembler shows reasoning once, and keeps each field that it came in", () => {
  const details = [{ type: "reasoning.text", text: "Hm.", index: 0 }];
  for (
    const [fields, shown] of [
      [{ reasoning_content: "Hm." }, "Hm."],
      [{ reasoning: "Hm." }, "Hm."],
      [{ reasoning_text: "Hm." }, "Hm."],
      [{ reasoning_details: details }, "Hm."],
      [{ reasoning_content: "Hm.", reasoning: "Hm.", reasoning_details: details }, "Hm."],
      [{ reasoning_details: [{ type: "reasoning.summary", summary: "In short." }] }, "In short."],
    ] as const
  ) {
    const asked = assemble([delta(fields), delta({ content: "Hi" }, "stop")]);
    assertEquals(asked.events, [
      { type: "reasoning_delta", text: shown },
      { type: "text_delta", text: "Hi" },
      { type: "completed", message: { role: "assistant", content: "Hi", ...fields }, finishReason: "stop" },
    ] as ModelEvent[]);
  }
});

Deno.test("ReplyAssembler shows a refusal as text and keeps it as what it is", () => {
  const asked = assemble([delta({ refusal: "I " }), delta({ refusal: "can't." }), delta({}, "stop")]);
  assertEquals(asked.events, [
    { type: "text_delta", text: "I " },
    { type: "text_delta", text: "can't." },
    {
      type: "completed",
      message: { role: "assistant", content: null, refusal: "I can't." },
      finishReason: "stop",
    },
  ]);
});

Deno.test("ReplyAssembler takes content in parts", () => {
  const parts = [{ type: "text", text: "Hel" }, { type: "text", text: "lo" }];
  assertEquals(assemble([delta({ content: parts }, "stop")]).completed?.message.content, "Hello");
});

Deno.test("ReplyAssembler takes a whole message in place of deltas, but not behind them", () => {
  const message = { role: "assistant", content: "Hello" };
  const last = (delta?: unknown) => ({ choices: [{ index: 0, delta, message, finish_reason: "stop" }] });
  for (const asked of [assemble([last()]), assemble([last({})])]) {
    assertEquals([asked.events.length, asked.completed?.message.content], [2, "Hello"]);
  }
  const streamed = assemble([delta({ content: "Hel" }), delta({ content: "lo" }), last({})]);
  assertEquals([streamed.events.length, streamed.completed?.message.content], [3, "Hello"]);
});

Deno.test("ReplyAssembler knows the words for the end of a reply", () => {
  const call = { tool_calls: [{ index: 0, id: "1", function: { name: "f", arguments: "{}" } }] };
  const text = { content: "Hi" };
  for (
    const [fields, word, expected] of [
      [text, "stop", "stop"],
      [text, "end_turn", "stop"],
      [text, "tool_calls", "stop"],
      [text, "length", "length"],
      [text, "max_tokens", "length"],
      [text, "content_filter", "content_filter"],
      [call, "tool_calls", "tool_calls"],
      [call, "stop", "tool_calls"],
      [call, "function_call", "tool_calls"],
      [call, "length", "length"],
    ] as const satisfies readonly (readonly [unknown, string, FinishReason])[]
  ) {
    const asked = assemble([delta(fields, ""), delta({}, word), delta({}, null)]);
    assertEquals([word, asked.completed?.finishReason], [word, expected]);
  }
});

Deno.test("ReplyAssembler takes a reply that the provider gave up for no reply", () => {
  for (const word of ["error", "insufficient_system_resource", ""]) {
    assertEquals(assemble([delta({ content: "Hal" }), delta({}, word)]).completed, undefined);
  }
});

Deno.test("ReplyAssembler passes over chunks that tell nothing", () => {
  const asked = assemble(
    [{}, { choices: [] }, { choices: null }, 7, { choices: [{}] }, delta({ content: "Hi" }, "stop")],
  );
  assertEquals(asked.events, [
    { type: "text_delta", text: "Hi" },
    { type: "completed", message: { role: "assistant", content: "Hi" }, finishReason: "stop" },
  ]);
});

Deno.test("ReplyAssembler keeps no null in a reply or its calls", () => {
  const call = { index: 0, id: "1", extra: null, function: { name: "f", arguments: "{}", strict: null } };
  const { completed } = assemble([delta({ refusal: null, tool_calls: [call] }, "stop")]);
  assertEquals(completed?.message as unknown, {
    role: "assistant",
    content: null,
    tool_calls: [{ id: "1", type: "function", function: { name: "f", arguments: "{}" } }],
  });
});
