import { assertEquals } from "@std/assert";
import type { FunctionToolCall } from "@tare/messages";
import { toolCallDeltas } from "./tool_call_deltas.ts";

const long = `{"text":"${"x".repeat(20)}"}`;
const a: FunctionToolCall = { id: "a", type: "function", function: { name: "f", arguments: long } };
const b: FunctionToolCall = { id: "b", type: "function", function: { name: "g", arguments: "{}" } };

const openA = { index: 0, id: "a", type: "function", function: { name: "f", arguments: "" } } as const;
const openB = { index: 1, id: "b", type: "function", function: { name: "g", arguments: "" } } as const;
const piece = (index: number, text: string) => ({ index, function: { arguments: text } });

Deno.test("toolCallDeltas() opens each call with id and name, then sends its arguments in pieces", () => {
  assertEquals(toolCallDeltas([a, b]), [
    [openA],
    [piece(0, long.slice(0, 24))],
    [piece(0, long.slice(24))],
    [openB],
    [piece(1, "{}")],
  ]);
  assertEquals(toolCallDeltas([]), []);
});

Deno.test("toolCallDeltas() cuts calls in each of the odd ways", () => {
  const emoji: FunctionToolCall = { id: "e", type: "function", function: { name: "f", arguments: "😀" } };
  assertEquals(toolCallDeltas([a, b], "whole"), [[{ index: 0, ...a }, { index: 1, ...b }]]);
  assertEquals(toolCallDeltas([a, b], "no_index"), [[a], [b]]);
  assertEquals(toolCallDeltas([b], "no_id"), [[{ ...openB, index: 0, id: "" }], [piece(0, "{}")]]);
  assertEquals(toolCallDeltas([emoji], "characters"), [
    [{ ...openA, id: "e" }],
    [piece(0, "\ud83d")],
    [piece(0, "\ude00")],
  ]);
  assertEquals(toolCallDeltas([b], "repeated"), [
    [{ ...openB, index: 0 }],
    [{ index: 0, id: "b", function: { name: "g", arguments: "{}" } }],
  ]);
  assertEquals(toolCallDeltas([a, b], "interleaved"), [
    [openA],
    [openB],
    [piece(0, long.slice(0, 24))],
    [piece(1, "{}")],
    [piece(0, long.slice(24))],
  ]);
});
