import { assert, assertEquals, assertLess, assertStringIncludes } from "@std/assert";
import fc from "fast-check";
import { estimateTokens } from "@tare/messages";
import { loadTokenizer } from "@tare/messages/tiktoken";
import { boundText, bytesFromText, parsePlaceholder } from "@tare/prune";

const ref = "0123456789abcdef";
const bound = (text: string, limitTokens?: number, countTokens = estimateTokens) =>
  boundText(text, { tool: "log", ref, countTokens, ...(limitTokens !== undefined && { limitTokens }) });

/** Head, placeholder and tail of a bounded text. */
function parts(bounded: string): [head: string, line: string, tail: string] {
  const lines = bounded.split("\n");
  const at = lines.findIndex((line) => parsePlaceholder(line)?.middle);
  return [lines.slice(0, at).join("\n"), lines[at]!, lines.slice(at + 1).join("\n")];
}

Deno.test("boundText() leaves a text within the limit as it is: 8,000 tokens by default", () => {
  const text = "x".repeat(32_000);
  assert(bound(text) === text);
  assertLess(bound(`${text}x`).length, text.length);
});

Deno.test("boundText() gives head, placeholder and tail, cut at line breaks", () => {
  const text = Array.from({ length: 5000 }, (_, n) => `line ${n}`).join("\n");
  const [head, line, tail] = parts(bound(text, 500));
  assertEquals(line, `[elided: middle of log result, ${text.length} bytes; ref ${ref}]`);
  assertEquals([head.split("\n")[0], tail.split("\n").at(-1)], ["line 0", "line 4999"]);
  assert(text.startsWith(`${head}\n`) && text.endsWith(`\n${tail}`));
  assert(head.length > 850 && tail.length > 850, "most of the limit is used");
});

Deno.test("boundText() cuts very long single lines, and never within a character", () => {
  for (
    const text of ["x".repeat(1_000_000), "🙂".repeat(100_000), `${"🙂x".repeat(9)}\n${"é🙂".repeat(50_000)}`]
  ) {
    for (const limit of [100, 101, 102, 103]) {
      const bounded = bound(text, limit);
      const [head, , tail] = parts(bounded);
      assert(text.startsWith(head) && text.endsWith(tail) && bounded.isWellFormed());
      assert(estimateTokens(bounded) <= limit && head.length > 100 && tail.length > 100);
    }
  }
});

Deno.test("boundText() never exceeds the limit and shows only what is there, whatever the counter", () => {
  const counters = [
    estimateTokens,
    (text: string) => text.length,
    (text: string) => bytesFromText(text).length,
  ];
  const texts = fc.array(fc.oneof(fc.string({ unit: "binary" }), fc.lorem(), fc.constant("\n")), {
    minLength: 1,
  })
    .chain((pieces) => fc.integer({ min: 1, max: 200 }).map((times) => pieces.join("").repeat(times)));
  fc.assert(
    fc.property(
      texts,
      fc.integer({ min: 100, max: 3000 }),
      fc.constantFrom(...counters),
      (text, limit, count) => {
        const bounded = bound(text, limit, count);
        assert(count(bounded) <= limit);
        if (count(text) <= limit) return assertEquals(bounded, text);
        const [head, , tail] = parts(bounded);
        assert(text.startsWith(head) && text.endsWith(tail) && head.length + tail.length < text.length);
      },
    ),
  );
});

Deno.test("boundText() gives the placeholder alone where the limit has no room for more", () => {
  assertEquals(bound("x".repeat(5000), 10), `[elided: log result, 5000 bytes; ref ${ref}]`);
});

Deno.test("boundText() is deterministic", () => {
  const text = "some words\n".repeat(10_000);
  assertEquals(bound(text), bound(text));
  assertStringIncludes(bound(text), ref);
});

Deno.test("boundText() stays within the limit by an exact counter, and near it, for a megabyte of any text", async () => {
  const { count } = await loadTokenizer();
  const base64 = btoa(Array.from({ length: 750_000 }, (_, n) => String.fromCharCode(n * n % 251)).join(""));
  const words = Array.from({ length: 150_000 }, (_, n) => (n * n % 9973).toString(36)).join(" ");
  for (const text of ["a".repeat(1e6), " ".repeat(1e6), "<|endoftext|>".repeat(80_000), base64, words]) {
    const tokens = count(bound(text, 8000, count));
    assert(tokens <= 8000 && tokens > 6000, `${tokens} tokens of ${text.slice(0, 20)}`);
  }
});
