import { assertEquals } from "@std/assert";
import { firstWords } from "@tare/messages";

Deno.test("firstWords() gives one line of at most 120 code units, no character cut in two", () => {
  assertEquals([firstWords(undefined), firstWords(null), firstWords("  \n")], ["", "", ""]);
  assertEquals(firstWords([{ type: "text", text: "a\tb" }, { type: "text", text: "c" }]), "a b c");
  assertEquals(firstWords("x".repeat(500)), "x".repeat(120));
  assertEquals(firstWords(`${"x".repeat(119)}\u{1f600}`), "x".repeat(119));
  assertEquals(firstWords(`${"x".repeat(118)}\u{1f600}`), `${"x".repeat(118)}\u{1f600}`);
});
