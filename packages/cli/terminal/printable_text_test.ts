import { assertEquals } from "@std/assert";
import fc from "../../../tests/cases.ts";
import { printableJson, printableText, QUESTION_MARK } from "./printable_text.ts";
import { codePoints } from "../../../tests/code_points.ts";

Deno.test("printableText() escapes control, invisible and reordering characters", () => {
  const cases = [
    ["a\n\tb\r\n", "a\n\tb\n"],
    ["\x1b[8m\x07\x7f\x9b2K\r", "\\x1b[8m\\x07\\x7f\\x9b2K\\x0d"],
    ["\x1b]52;c;aGk=\x07", "\\x1b]52;c;aGk=\\x07"],
    ["a\u202eb\u2066c\u200bd\ufeff\u3164", "a\\u{202e}b\\u{2066}c\\u{200b}d\\u{feff}\\u{3164}"],
    ["r\u200dm 👩‍💻 می‌خواهم", "r\\u{200d}m 👩‍💻 می‌خواهم"],
    ["tag \u{e0041}", "tag \\u{e0041}"],
    [`${QUESTION_MARK} Allow`, "\\u{258c} Allow"],
    ["ü ▐ 漢 é \u0301", "ü ▐ 漢 é \u0301"],
    ["\ud800", "\ufffd"],
  ] as const;
  for (const [text, expected] of cases) assertEquals(printableText(text), expected);
  assertEquals(printableText("a\nb\tc\r\n👩‍💻", { isWhole: true }), "a\\x0ab\\x09c\\x0d\\x0a👩\\u{200d}💻");
});

Deno.test("property: printableText() leaves no control character or approval mark, for any text and split", () => {
  const piece = fc.oneof(
    fc.string({ unit: codePoints() }),
    fc.constantFrom("\x1b[8m", "\x9b", "\r", "\u202e", QUESTION_MARK, "\x1b]0;t\x07", "\u200b"),
  );
  fc.assert(fc.property(fc.array(piece), fc.boolean(), (pieces, isWhole) => {
    const printed = pieces.map((text) => printableText(text, { isWhole })).join("");
    assertEquals(/[^\P{Cc}\n\t]|[\u202a-\u202e\u2066-\u2069\u200b]/u.test(printed), false);
    assertEquals(printed.includes(QUESTION_MARK), false);
    const json = printableJson(pieces);
    assertEquals(json.includes(QUESTION_MARK), false);
    assertEquals(JSON.parse(json), pieces);
    assertEquals(/[\p{Cc}\p{Cf}]/u.test(json), false);
  }));
});
