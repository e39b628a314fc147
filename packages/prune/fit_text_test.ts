import { assert, assertLess } from "@std/assert";
import { truncateText } from "@tare/prune/internal";

Deno.test("fitHead() and fitTail() count pieces of the answer's size, however long the text is", () => {
  let counted = 0;
  const countTokens = (text: string) => {
    counted += text.length;
    return text.length;
  };
  const text = "x".repeat(5_000_000);
  const truncated = truncateText(text, {
    tool: "log",
    ref: "0123456789abcdef",
    countTokens,
    limitTokens: 1000,
  });
  assert(truncated.length > 900);
  assertLess(counted - text.length, 50_000, "besides the one count of the whole");
});

Deno.test("fitHead() and fitTail() prefer line breaks, unless that would leave much room unused", () => {
  const options = {
    tool: "log",
    ref: "0123456789abcdef",
    countTokens: (text: string) => text.length,
    limitTokens: 300,
  };
  const lines = truncateText("12345678\n".repeat(1000), options).split("\n");
  assert(lines.every((line) => ["12345678", ""].includes(line) || line.startsWith("[elided: ")));
  const [head = ""] = truncateText(`1\n${"x".repeat(1000)}`, options).split("\n[elided: ");
  assert(head.length > 80);
});
