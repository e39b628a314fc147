import { assertAlmostEquals, assertEquals, assertLess, assertStrictEquals } from "@std/assert";
import { countRequestTokens, type Message, sampledCount } from "@tare/messages";
import { loadTokenizer } from "@tare/messages/tiktoken";

Deno.test("sampledCount() counts up to 1,024 code units whole, and of longer texts an eighth", () => {
  const counted: string[] = [];
  const count = sampledCount((text) => (counted.push(text), text.length));
  const texts = ["", "a".repeat(1_024), "b".repeat(1_025), "c".repeat(40_960), "d".repeat(50_000_000)];
  assertEquals(texts.map(count), texts.map(({ length }) => length));
  const lengthOf = (letter: string) => counted.filter((text) => text[0] === letter).join("").length;
  assertEquals(["a", "b", "c", "d"].map(lengthOf), [1_024, 2 * 256, 20 * 256, 64 * 256]);
});

Deno.test("sampledCount() cuts no word that white space lets it keep whole", () => {
  const counted: string[] = [];
  const count = sampledCount((text) => (counted.push(text), text.length));
  count("some words of seven\nand one line ".repeat(300));
  assertEquals(counted.length, 5);
  for (const text of counted) {
    assertEquals(/^\s.*(some|words|of|seven|and|one|line)$/s.test(text), true, text);
  }
});

Deno.test("sampledCount() is the same function for the same counter", () => {
  const count = (text: string) => text.length;
  assertStrictEquals(sampledCount(count), sampledCount(count));
});

// The sources of this package serve as a conversation where there are files.
const missing = await Deno.stat(new URL(".", import.meta.url)).then(() => false, () => true);

Deno.test({
  name: "sampledCount() is within a fiftieth of the exact count of a long conversation",
  ignore: missing,
  async fn() {
    const { count } = await loadTokenizer();
    const messages: Message[] = [];
    for await (const { name } of Deno.readDir(new URL(".", import.meta.url))) {
      if (!/\.(ts|md)$/.test(name)) continue;
      messages.push({ role: "user", content: await Deno.readTextFile(new URL(name, import.meta.url)) });
    }
    const exact = countRequestTokens({ messages }, count);
    assertAlmostEquals(countRequestTokens({ messages }, sampledCount(count)) / exact, 1, 0.02);
  },
});

Deno.test("sampledCount() meets the parts of a text that differ", async () => {
  const { count } = await loadTokenizer();
  const words = "The same few words, again and again, take a token each. ".repeat(400);
  const digits = Array.from({ length: 4_000 }, (_, at) => (at * 7919) % 104_729).join(";");
  for (const text of [words + digits, digits + words, "漢字仮名交じり文".repeat(2_000) + words]) {
    assertLess(Math.abs(sampledCount(count)(text) / count(text) - 1), 0.1);
  }
});
