import { assertEquals, assertNotEquals } from "@std/assert";
import { estimateTokens, type Message, type ToolDefinition } from "@tare/messages";
import { PrefixCache } from "@tare/planner/internal/parts";

const tool: ToolDefinition = { type: "function", function: { name: "f" } };
const messages: readonly Message[] = [
  { role: "user", content: "x".repeat(40) },
  { role: "assistant", content: "y".repeat(80) },
];
const units = PrefixCache.unitsOf({ messages, tools: [tool] }, estimateTokens);

Deno.test("PrefixCache.unitsOf() puts tools before messages, each with its tokens", () => {
  assertEquals(units.map(({ tokens }) => tokens), [estimateTokens(JSON.stringify(tool)), 14, 24]);
});

Deno.test("PrefixCache.unitsOf() recognizes equal messages, and distinguishes others by every field", () => {
  const hashes = (...all: readonly Message[]) =>
    PrefixCache.unitsOf({ messages: all, tools: [] }, estimateTokens).map(({ hash }) => hash);
  assertEquals(hashes({ ...messages[0] } as Message), hashes(messages[0] as Message));
  const other: Message & { signature: string } = {
    role: "assistant",
    content: "y".repeat(80),
    signature: "s",
  };
  assertNotEquals(hashes(other), hashes(messages[1] as Message));
});
