import { assertEquals, assertStrictEquals } from "@std/assert";
import { applyFold } from "@tare/prune";
import { say, step, user } from "./fixture_test.ts";

const messages = [
  { role: "system", content: "Be brief." } as const,
  user("one"),
  ...step("log", {}, "long"),
  say("answer one"),
  { role: "developer", content: "Be kind." } as const,
  user("two"),
  say("answer two"),
];

Deno.test("applyFold() keeps instructions and user messages, and puts the summary behind them", () => {
  const folded = applyFold(messages, { end: 6, kind: "summary", text: "It went well." });
  assertEquals(folded.map(({ role, content }) => [role, content]), [
    ["system", "Be brief."],
    ["user", "one"],
    ["developer", "Be kind."],
    ["assistant", "It went well."],
    ["user", "two"],
    ["assistant", "answer two"],
  ]);
  for (const [at, from] of [[0, 0], [1, 1], [2, 5], [4, 6], [5, 7]] as const) {
    assertStrictEquals<unknown>(folded[at], messages[from]);
  }
});

Deno.test("applyFold() drops whole turns, user messages included, for one line in the user's place", () => {
  const folded = applyFold(messages, { end: 6, kind: "drop", text: "[elided]" });
  assertEquals(folded.map(({ role }) => role), ["system", "developer", "user", "user", "assistant"]);
});
