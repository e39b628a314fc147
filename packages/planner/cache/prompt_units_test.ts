import { assertEquals, assertNotEquals } from "@std/assert";
import { estimateTokens, type Message, type ToolDefinition } from "@tare/messages";
import { promptUnits } from "@tare/planner";
import { sharedTokens, sumTokens } from "./prompt_units.ts";

const tool: ToolDefinition = { type: "function", function: { name: "f" } };
const messages: readonly Message[] = [
  { role: "user", content: "x".repeat(40) },
  { role: "assistant", content: "y".repeat(80) },
];
const units = promptUnits({ messages, tools: [tool] }, estimateTokens);

Deno.test("promptUnits() puts tools before messages, each with its tokens", () => {
  assertEquals(units.map(({ tokens }) => tokens), [estimateTokens(JSON.stringify(tool)), 14, 24]);
});

Deno.test("promptUnits() knows equal messages again, and others by every field", () => {
  const hashes = (...all: readonly Message[]) =>
    promptUnits({ messages: all, tools: [] }, estimateTokens).map(({ hash }) => hash);
  assertEquals(hashes({ ...messages[0] } as Message), hashes(messages[0] as Message));
  const other: Message & { signature: string } = {
    role: "assistant",
    content: "y".repeat(80),
    signature: "s",
  };
  assertNotEquals(hashes(other), hashes(messages[1] as Message));
});

Deno.test("sharedTokens() counts the units with which both prompts start", () => {
  assertEquals(sharedTokens(units, units), sumTokens(units));
  assertEquals(sharedTokens(units, units.slice(0, 2)), sumTokens(units.slice(0, 2)));
  assertEquals(sharedTokens(units.slice(1), units), 0);
  assertEquals(sharedTokens([], units), 0);
});
