import { assert, assertEquals } from "@std/assert";
import fc, { cases } from "../../../tests/cases.ts";
import type { Message, ToolDefinition } from "@tare/messages";
import { countMessageTokens, countToolTokens } from "@tare/messages/internal";
import { messageUnits, RunningHash, type RunUnit, toolUnits } from "./prompt_units.ts";
import { conversations } from "../../../tests/conversations.ts";

const characters = { encode: (text: string) => Array.from(text, (character) => character.charCodeAt(0)) };
const countTokens = (text: string) => characters.encode(text).length;

function tokens(units: readonly RunUnit[]): number[] {
  return units.map((unit) => unit.tokens);
}

function hashes(message: Message): number[] {
  return messageUnits(message, characters).map((unit) => unit.hash);
}

Deno.test("messageUnits() splits a message into its overhead and runs of 16 tokens", () => {
  assertEquals(tokens(messageUnits({ role: "user", content: "x".repeat(40) }, characters)), [4, 16, 16, 8]);
  assertEquals(tokens(messageUnits({ role: "assistant", content: null }, characters)), [4]);
});

Deno.test("messageUnits() counts non-text content by its fixed size in the first unit", () => {
  const image = { type: "image_url", image_url: { url: "x", detail: "low" } } as const;
  const message: Message = { role: "user", content: [{ type: "text", text: "abc" }, image] };
  assertEquals(tokens(messageUnits(message, characters)), [4 + 85, 3]);
});

Deno.test("messageUnits() returns equal units only for the common part of messages", () => {
  const start = "x".repeat(32);
  const a = hashes({ role: "tool", tool_call_id: "1", content: `${start}one` });
  const b = hashes({ role: "tool", tool_call_id: "2", content: `${start}two` });
  assertEquals(a.map((hash, at) => hash === b[at]), [true, true, true, false]);
  assert(hashes({ role: "user", content: "x" })[0] !== hashes({ role: "system", content: "x" })[0]);
  const url = (url: string) => hashes({ role: "user", content: [{ type: "image_url", image_url: { url } }] });
  assert(url("a")[0] !== url("b")[0]);
});

Deno.test("messageUnits() distinguishes texts at different positions", () => {
  const one = hashes({ role: "assistant", content: "ab", reasoning_content: "c" });
  const other = hashes({ role: "assistant", content: "a", reasoning_content: "bc" });
  assert(one[1] !== other[1]);
});

Deno.test("messageUnits() and toolUnits() total countMessageTokens() and countToolTokens()", () => {
  const sum = (units: readonly RunUnit[]) => units.reduce((total, unit) => total + unit.tokens, 0);
  fc.assert(
    fc.property(conversations(), (messages) => {
      for (const message of messages) {
        assertEquals(sum(messageUnits(message, characters)), countMessageTokens(message, countTokens));
      }
    }),
    { numRuns: cases(50) },
  );
  const tool: ToolDefinition = { type: "function", function: { name: "f", description: "Does f." } };
  assertEquals(sum(toolUnits(tool, characters)), countToolTokens(tool, countTokens));
});

function hash(numbers: readonly number[]): number {
  const running = new RunningHash();
  for (const number of numbers) running.add(number);
  return running.value();
}

Deno.test("RunningHash distinguishes sequences by members, order and length", () => {
  const seen = new Set<number>([hash([]), hash([0]), hash([0, 0])]);
  for (let a = 0; a < 200; a++) {
    for (let b = 0; b < 200; b++) seen.add(hash([a, b, 1000 * a + b]));
  }
  assertEquals(seen.size, 3 + 200 * 200);
  assert([...seen].every((value) => Number.isSafeInteger(value) && value >= 0));
});

Deno.test("RunningHash.addText() adds code units", () => {
  const running = new RunningHash();
  running.addText("ab");
  assertEquals(running.value(), hash([97, 98]));
});
