import { assertEquals } from "@std/assert";
import { shortLines } from "./short_lines.ts";

Deno.test("shortLines() leaves out the middle of many lines and the end of long ones", () => {
  assertEquals(shortLines(["a", "", "b"]), "a\n\nb");
  assertEquals(shortLines(["x".repeat(300), "x".repeat(301)]), `${"x".repeat(300)}\n${"x".repeat(300)}…`);
  const lines = Array.from({ length: 30 }, (_, at) => `${at}`);
  assertEquals(shortLines(lines), [...lines.slice(0, 12), "[… 6 lines …]", ...lines.slice(18)].join("\n"));
});
