import { assertEquals } from "@std/assert";
import { userWords } from "@tare/messages/internal";

const wordsOf = (content: string) => userWords({ role: "user", content });

const ENVIRONMENT = "<environment_context>\n  <cwd>/work</cwd>\n</environment_context>";
const RULES = "# AGENTS.md instructions for /work\n\n<INSTRUCTIONS>\n# Guide\n\n<b_c>\n</INSTRUCTIONS>";

Deno.test("userWords() omits blocks that agents add, in any order", () => {
  assertEquals(
    [
      ENVIRONMENT,
      RULES,
      `${RULES}\n\n${ENVIRONMENT}`,
      "<system-reminder>\nBe brief.\n</system-reminder>\nFix it.",
      "<current_datetime>2026-11-20T10:00:00Z</current_datetime>\n\nFix it.\n\n<reminder>\nNo tables.\n</reminder>",
      "<task>\nFix it.\n</task>\n\n<environment_details>\n# Files\n</environment_details>",
      "<user_query>Fix it.</user_query>",
      "<command-name>/model</command-name>\n            <command-message>model</command-message>",
    ].map(wordsOf),
    ["", "", "", "Fix it.", "Fix it.", "Fix it.", "Fix it.", ""],
  );
});

Deno.test("userWords() omits summaries that continue a conversation", () => {
  assertEquals(
    [
      "This session is being continued from a previous conversation that ran out of context.\n\nFiles were read.",
      "Another language model started to solve this problem and produced a summary.\nFiles were read.",
      "The conversation history before this point was compacted:\n<summary>\nFiles were read.\n</summary>",
      "<state_snapshot>\nFiles were read.\n</state_snapshot>",
    ].map(wordsOf),
    ["", "", "", ""],
  );
});

Deno.test("userWords() keeps any text of the user unchanged", () => {
  const texts = [
    "Why does <my-element>this</my-element> show twice?",
    "Mend this:\n<div>\n  <b>x</b>\n</div>",
    "<my-element> isn't drawn",
    "<environment_context> is what?",
    "1 < 2\n# AGENTS.md is old",
  ];
  assertEquals(texts.map(wordsOf), texts);
});

Deno.test("userWords() reads parts separately, and only user messages", () => {
  const content = [
    { type: "text", text: "<system-reminder>Be brief.</system-reminder>" },
    { type: "image_url", image_url: { url: "data:," } },
    { type: "text", text: "One." },
    { type: "text", text: "Two." },
  ] as const;
  assertEquals(userWords({ role: "user", content }), "One.\nTwo.");
  assertEquals(userWords({ role: "assistant", content }), "");
  assertEquals([userWords({ role: "user", content: null }), userWords({ role: "user" })], ["", ""]);
});

Deno.test("userWords() limits the number of inspected blocks", () => {
  const open = "<a_b>\n".repeat(200_000);
  assertEquals(wordsOf(open), open.trim());
  assertEquals(wordsOf(`${"<task>\n".repeat(200_000)}</task>`).length > 1_000_000, true);
});
