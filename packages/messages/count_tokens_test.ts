import { assertAlmostEquals, assertEquals, assertLess, assertStrictEquals } from "@std/assert";
import {
  countRequestTokens,
  estimateTokens,
  type Message,
  sampledCount,
  type ToolDefinition,
} from "@tare/messages";
import { countMessageTokens, countToolTokens } from "@tare/messages/internal";
import { loadTokenizer } from "@tare/tiktoken";
import { FILES, needs } from "../../tests/needs.ts";

const characters = (text: string) => text.length;

Deno.test("countMessageTokens() counts text, parts, names, reasoning and calls once each", () => {
  const cases: [Message, number][] = [
    [{ role: "user", content: "abc" }, 4 + 3],
    [{ role: "user", content: "abc", name: "me" }, 4 + 3 + 2],
    [{ role: "user", content: [{ type: "text", text: "ab" }, { type: "text", text: "c" }] }, 4 + 3],
    [{ role: "user", content: [{ type: "image_url", image_url: { url: "x", detail: "low" } }] }, 4 + 85],
    [{ role: "user", content: [{ type: "image_url", image_url: { url: "x" } }] }, 4 + 765],
    [
      {
        role: "user",
        content: [{ type: "input_audio", input_audio: { data: "x".repeat(256), format: "wav" } }],
      },
      4 + 2,
    ],
    [{ role: "user", content: [{ type: "file", file: { file_id: "f" } }] }, 4],
    [{ role: "assistant", content: null, refusal: "no" }, 4 + 2],
    [
      {
        role: "assistant",
        content: "a",
        reasoning_content: "why",
        tool_calls: [
          { id: "1", type: "function", function: { name: "f", arguments: "{}" } },
          { id: "2", type: "custom", custom: { name: "g", input: "xyz" } },
        ],
      },
      4 + 1 + 3 + 3 + 4,
    ],
    [{ role: "tool", tool_call_id: "1", content: "result" }, 4 + 6],
    [{ role: "function", name: "f", content: null }, 4 + 1],
  ];
  assertEquals(cases.map(([message]) => countMessageTokens(message, characters)), cases.map(([, n]) => n));
});

Deno.test("countMessageTokens() counts a message once per counter", () => {
  const message: Message = { role: "user", content: "abc" };
  const counted: string[] = [];
  const counter = (text: string) => (counted.push(text), text.length);
  assertEquals([1, 2, 3].map(() => countMessageTokens(message, counter)), [7, 7, 7]);
  assertEquals(counted, ["abc"]);
  assertEquals(countMessageTokens(message, () => 1), 5);
});

Deno.test("countMessageTokens() bounds a part of unknown type by its JSON text", () => {
  const part = { type: "hologram", data: "x" };
  const message = { role: "user", content: [part] } as unknown as Message;
  assertEquals(countMessageTokens(message, characters), 4 + JSON.stringify(part).length);
});

Deno.test("countRequestTokens() returns the total of messages and tools", () => {
  const tool: ToolDefinition = { type: "function", function: { name: "f" } };
  const messages: Message[] = [{ role: "user", content: "a" }, { role: "assistant", content: "b" }];
  assertEquals(countToolTokens(tool, characters), JSON.stringify(tool).length);
  assertEquals(countRequestTokens({ messages, tools: [tool] }, characters), JSON.stringify(tool).length + 10);
  assertEquals(countRequestTokens({ messages: [] }, characters), 0);
});

Deno.test("estimateTokens() counts four code units as a token, rounded up", () => {
  assertEquals(["", "a", "abcd", "abcde", "😀😀"].map(estimateTokens), [0, 1, 1, 2, 1]);
});

Deno.test("estimateTokens() is within a third of the exact count for English and code", async () => {
  const { count } = await loadTokenizer();
  const english =
    "Every call of an agent loop resends its whole prompt, and most of it has been read before. ";
  const code = String(countRequestTokens) + String(countMessageTokens);
  for (const text of [english.repeat(20), code]) {
    assertLess(Math.abs(estimateTokens(text) / count(text) - 1), 1 / 3);
  }
});

Deno.test("sampledCount() counts up to 1,024 code units exactly, and an eighth of longer texts", () => {
  const counted: string[] = [];
  const count = sampledCount((text) => (counted.push(text), text.length));
  const texts = ["", "a".repeat(1_024), "b".repeat(1_025), "c".repeat(40_960), "d".repeat(50_000_000)];
  assertEquals(texts.map(count), texts.map(({ length }) => length));
  const lengthOf = (letter: string) => counted.filter((text) => text[0] === letter).join("").length;
  assertEquals(["a", "b", "c", "d"].map(lengthOf), [1_024, 2 * 256, 20 * 256, 64 * 256]);
});

Deno.test("sampledCount() splits no word near white space", () => {
  const counted: string[] = [];
  const count = sampledCount((text) => (counted.push(text), text.length));
  count("some words of seven\nand one line ".repeat(300));
  assertEquals(counted.length, 5);
  for (const text of counted) {
    assertEquals(/^\s.*(some|words|of|seven|and|one|line)$/s.test(text), true, text);
  }
});

Deno.test("sampledCount() returns the same function for the same counter", () => {
  const count = (text: string) => text.length;
  assertStrictEquals(sampledCount(count), sampledCount(count));
});

Deno.test({
  ...needs(FILES, "sampledCount() is within 2 % of the exact count of a long conversation"),
  async fn() {
    const { count } = await loadTokenizer();
    const messages: Message[] = [];
    for (
      const folder of ["./", "../planner/", "../planner/edits/", "../tools/", "../session/", "../server/api/"]
    ) {
      const url = new URL(folder, import.meta.url);
      for await (const { name } of Deno.readDir(url)) {
        if (!/\.(ts|md)$/.test(name)) continue;
        messages.push({ role: "user", content: await Deno.readTextFile(new URL(name, url)) });
      }
    }
    const exact = countRequestTokens({ messages }, count);
    assertAlmostEquals(countRequestTokens({ messages }, sampledCount(count)) / exact, 1, 0.02);
  },
});

Deno.test("sampledCount() samples different parts of a text", async () => {
  const { count } = await loadTokenizer();
  const words = "The same few words, again and again, take a token each. ".repeat(400);
  const digits = Array.from({ length: 4_000 }, (_, at) => (at * 7919) % 104_729).join(";");
  for (const text of [words + digits, digits + words, "漢字仮名交じり文".repeat(2_000) + words]) {
    assertLess(Math.abs(sampledCount(count)(text) / count(text) - 1), 0.1);
  }
});
