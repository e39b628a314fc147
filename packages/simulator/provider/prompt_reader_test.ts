import { assertEquals, assertStrictEquals } from "@std/assert";
import { countRequestTokens, type Message, type ToolDefinition } from "@tare/messages";
import { promptReader } from "./prompt_reader.ts";

const tool: ToolDefinition = { type: "function", function: { name: "f" } };
const messages: Message[] = [{ role: "system", content: "Be brief." }, { role: "user", content: "Hi" }];

function characterReader() {
  const encoded: string[] = [];
  const encode = (text: string) => {
    encoded.push(text);
    return Array.from(text, (character) => character.charCodeAt(0));
  };
  return { read: promptReader({ encode }), encoded };
}

Deno.test("promptReader() orders tools before messages and counts like countRequestTokens()", () => {
  const { read } = characterReader();
  const prompt = read({ messages, tools: [tool] });
  const toolText = JSON.stringify(tool);
  assertEquals(prompt.tokens, countRequestTokens({ messages, tools: [tool] }, (text) => text.length));
  assertEquals(prompt.units.map((unit) => unit.tokens), [
    ...[16, 16, toolText.length - 32],
    ...[4, 9],
    ...[4, 2],
  ]);
});

Deno.test("promptReader() tokenizes each message and tool once and returns the same objects", () => {
  const { read, encoded } = characterReader();
  const first = read({ messages, tools: [tool] });
  const copies = structuredClone({
    messages: [...messages, { role: "user", content: "Bye" }],
    tools: [tool],
  });
  const second = read(copies as { messages: Message[]; tools: ToolDefinition[] });
  assertEquals(encoded, [JSON.stringify(tool), "Be brief.", "Hi", "Bye"]);
  assertStrictEquals(second.messages[0], first.messages[0]);
  assertStrictEquals(second.tools[0], first.tools[0]);
  assertEquals(second.units.slice(0, first.units.length), first.units);
});

Deno.test("promptReader() returns a digest of each prompt", () => {
  const { read } = characterReader();
  const digests = [messages, messages.slice(1), [...messages].reverse(), messages].map((list) =>
    read({ messages: list, tools: [] }).digest
  );
  assertEquals(new Set(digests).size, 3);
  assertEquals(digests[0], digests[3]);
});

Deno.test("promptReader() evicts the least recently used texts", () => {
  const { read, encoded } = characterReader();
  const large = (letter: string) => ({
    messages: [{ role: "user", content: letter.repeat(3e6) } as const],
    tools: [],
  });
  for (const letter of ["a", "b", "a", "c", "a", "b"]) read(large(letter));
  assertEquals(encoded.map((text) => text.charAt(0)), ["a", "b", "c", "b"]);
});
