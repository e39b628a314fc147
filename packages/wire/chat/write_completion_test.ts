import { assert, assertEquals } from "@std/assert";
import fc from "../../../tests/cases.ts";
import type { FunctionToolCall } from "@tare/messages";
import { CompletionWriter } from "@tare/wire/internal";
import { splitText } from "./write_completion.ts";
import { assemble } from "./assembler_fixture_test.ts";

const HEAD = { id: "c1", created: 5, model: "m" };
const CALL: FunctionToolCall = { id: "a", type: "function", function: { name: "f", arguments: "{}" } };
const REPLY: Parameters<CompletionWriter["body"]>[0] = {
  message: {
    role: "assistant",
    reasoning_content: "Why not.",
    content: "A text of more than 24 characters.",
    tool_calls: [CALL],
  },
  finishReason: "tool_calls",
  usage: { promptTokens: 1, cachedTokens: 0, outputTokens: 2 },
};
const USAGE = {
  prompt_tokens: 1,
  completion_tokens: 2,
  total_tokens: 3,
  prompt_tokens_details: { cached_tokens: 0 },
};

Deno.test("CompletionWriter.body() returns a chat completion", () => {
  assertEquals(new CompletionWriter(HEAD).body(REPLY), {
    ...HEAD,
    object: "chat.completion",
    choices: [{ index: 0, message: REPLY.message, finish_reason: "tool_calls", logprobs: null }],
    usage: USAGE,
  });
});

Deno.test("CompletionWriter.chunks() streams reasoning, text and calls, then the finish reason, then usage", () => {
  const chunk = (delta: object, finish_reason: string | null = null) => ({
    ...HEAD,
    object: "chat.completion.chunk",
    choices: [{ index: 0, delta, finish_reason, logprobs: null }],
    usage: null,
  });
  assertEquals(new CompletionWriter(HEAD).chunks(REPLY), [
    chunk({ role: "assistant", content: "" }),
    chunk({ reasoning_content: "Why not." }),
    chunk({ content: "A text of more than 24 c" }),
    chunk({ content: "haracters." }),
    chunk({
      tool_calls: [{ index: 0, id: "a", type: "function", function: { name: "f", arguments: "" } }],
    }),
    chunk({ tool_calls: [{ index: 0, function: { arguments: "{}" } }] }),
    chunk({}, "tool_calls"),
    { ...HEAD, object: "chat.completion.chunk", choices: [], usage: USAGE },
  ]);
});

Deno.test("CompletionWriter omits usage where it isn't reported", () => {
  const writer = new CompletionWriter(HEAD, { reportsUsage: false });
  assertEquals("usage" in writer.delta({}, "stop"), false);
  assertEquals("usage" in writer.body(REPLY), false);
  assertEquals(writer.usage(REPLY.usage), []);
});

Deno.test("CompletionWriter.chunks() are reassembled to the same message", () => {
  const text = fc.string({ unit: "grapheme", minLength: 1, maxLength: 100 });
  const reply = fc.record({
    content: fc.option(text),
    reasoning_content: text,
    signature: fc.string({ minLength: 1 }),
    calls: fc.array(fc.record({ name: fc.stringMatching(/^[a-z]+$/), path: text }), { minLength: 1 }),
  });
  fc.assert(fc.property(reply, ({ calls, ...fields }) => {
    const message = {
      role: "assistant" as const,
      ...fields,
      tool_calls: calls.map(({ name, path }, index): FunctionToolCall => ({
        id: `id${index}`,
        type: "function",
        function: { name, arguments: JSON.stringify({ path }) },
      })),
    };
    const chunks = new CompletionWriter(HEAD).chunks({ ...REPLY, message });
    assertEquals(assemble(chunks).completed?.message, message);
  }));
});

Deno.test("CompletionWriter.callDeltas() sends each call's id and name, then its arguments in pieces", () => {
  const long = `{"text":"${"x".repeat(20)}"}`;
  const piece = (index: number, text: string) => [{ index, function: { arguments: text } }];
  const open = (index: number, id: string) => [
    { index, id, type: "function" as const, function: { name: "f", arguments: "" } },
  ];
  const calls = [{ ...CALL, function: { name: "f", arguments: long } }, { ...CALL, id: "b" }];
  assertEquals(CompletionWriter.callDeltas(calls), [
    open(0, "a"),
    piece(0, long.slice(0, 24)),
    piece(0, long.slice(24)),
    open(1, "b"),
    piece(1, "{}"),
  ]);
  assertEquals(CompletionWriter.callDeltas([CALL], { split: (text) => text.split("") }).length, 3);
  assertEquals(CompletionWriter.callDeltas([]), []);
});

Deno.test("splitText() limits the number of pieces", () => {
  assertEquals(splitText(""), []);
  assertEquals(splitText("short"), ["short"]);
  assertEquals(splitText("a".repeat(50)).map((piece) => piece.length), [24, 24, 2]);
  assertEquals(splitText("a".repeat(100_000)).length, 64);
});

Deno.test("splitText() preserves the text and its surrogate pairs", () => {
  assertEquals(splitText("a".repeat(23) + "😀b"), ["a".repeat(23) + "😀", "b"]);
  fc.assert(fc.property(fc.string({ unit: "grapheme", maxLength: 500 }), (text) => {
    const pieces = splitText(text);
    assertEquals(pieces.join(""), text);
    assert(pieces.every((piece) => piece.isWellFormed()));
  }));
});
