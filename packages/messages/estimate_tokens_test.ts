import { assertEquals, assertLess } from "@std/assert";
import { estimateTokens } from "@tare/messages";
import { loadTokenizer } from "@tare/messages/tiktoken";

Deno.test("estimateTokens() takes four code units for a token, rounding up", () => {
  assertEquals(["", "a", "abcd", "abcde", "😀😀"].map(estimateTokens), [0, 1, 1, 2, 1]);
});

Deno.test("estimateTokens() is within a third of the exact count for English and code", async () => {
  const { count } = await loadTokenizer();
  const english =
    "Every call of an agent loop resends its whole prompt, and most of it has been read before. ";
  const code = await Deno.readTextFile(new URL("./count_tokens.ts", import.meta.url));
  for (const text of [english.repeat(20), code]) {
    assertLess(Math.abs(estimateTokens(text) / count(text) - 1), 1 / 3);
  }
});
