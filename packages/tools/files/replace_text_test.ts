import { assertEquals, assertThrows } from "@std/assert";
import { ToolRefusal } from "../define_tool.ts";
import { lineNumberAt, lineNumbers, nearestLines, replaceText } from "./write_file_tools.ts";

Deno.test("replaceText() replaces the one occurrence, literally", () => {
  assertEquals(replaceText("a $b c", { oldText: "$b", newText: "$& $1 \\n" }), {
    text: "a $& $1 \\n c",
    starts: [2],
    length: 8,
  });
  assertEquals(replaceText("one\ntwo\n", { oldText: "two\n", newText: "" }).text, "one\n");
});

Deno.test("replaceText() replaces all occurrences on request, without overlap", () => {
  assertEquals(replaceText("aaaa b aa", { oldText: "aa", newText: "xyz", all: true }), {
    text: "xyzxyz b xyz",
    starts: [0, 3, 9],
    length: 3,
  });
});

Deno.test("replaceText() retains the line ends of the file", () => {
  const crlf = "one\r\ntwo\r\nthree\r\n";
  assertEquals(
    replaceText(crlf, { oldText: "one\ntwo", newText: "1\n2\n2.5" }).text,
    "1\r\n2\r\n2.5\r\nthree\r\n",
  );
  assertEquals(replaceText(crlf, { oldText: "two", newText: "2\n2.5" }).text, "one\r\n2\r\n2.5\r\nthree\r\n");
  assertEquals(replaceText("one\ntwo\n", { oldText: "one\r\ntwo", newText: "1\r\n2" }).text, "1\n2\n");
  // With mixed line ends, text is used unchanged.
  assertEquals(
    replaceText("one\r\ntwo\nthree", { oldText: "two\nthree", newText: "2\n3" }).text,
    "one\r\n2\n3",
  );
});

Deno.test("replaceText() rejects text with several occurrences, and lists them", () => {
  assertThrows(
    () => replaceText("a\nb\na\na a", { oldText: "a", newText: "c" }),
    ToolRefusal,
    "old_text occurs 4 times, in lines 1, 3, 4, 4.",
  );
});

Deno.test("replaceText() quotes the nearest lines if the text is not found", () => {
  const text = "first\n\tif (ready) {\n\t\tgo();\n\t}\nlast\n";
  const error = assertThrows(
    () => replaceText(text, { oldText: "    if (ready) {\n        go();", newText: "" }),
    ToolRefusal,
  );
  assertEquals(
    error.message,
    "old_text is not in it. Copy it exactly, white space included. The nearest lines are 2-3:\n\tif (ready) {\n\t\tgo();",
  );
  assertThrows(
    () => replaceText(text, { oldText: "nothing at all", newText: "" }),
    ToolRefusal,
    "nor anything similar",
  );
  assertThrows(
    () => replaceText("one line\r\ntwo lines\nx", { oldText: "one line\ntwo lines", newText: "" }),
    ToolRefusal,
    "Some lines of the file end in CRLF",
  );
});

Deno.test("lineNumbers() returns the first twenty", () => {
  const text = "a\n".repeat(30);
  const indices = Array.from({ length: 30 }, (_, at) => 2 * at);
  assertEquals(lineNumbers(text, indices.slice(0, 3)), "1, 2, 3");
  assertEquals(lineNumbers(text, indices).split(", ").slice(-2), ["20", "…"]);
});

Deno.test("lineNumberAt() counts from 1", () => {
  assertEquals([0, 1, 2, 3, 4].map((at) => lineNumberAt("a\nb\n", at)), [1, 1, 2, 2, 3]);
});

const lines = [
  "function add(a, b) {",
  "  return a + b;",
  "}",
  "",
  "function subtract(a, b) {",
  "  return a - b;",
  "}",
];

Deno.test("nearestLines() finds the most similar range, ignoring white space", () => {
  assertEquals(nearestLines(lines, ["function subtract(a,b) {", "return a - b;"]), { start: 4, end: 6 });
  assertEquals(nearestLines(lines, ["  return a + c;"]), { start: 1, end: 2 });
});

Deno.test("nearestLines() lets the other lines decide between places", () => {
  const twice = ["x = 1", "some long line here", "y", "z", "x = 2", "some long line here", "y"];
  assertEquals(nearestLines(twice, ["x = 2", "some long line here!"]), { start: 4, end: 6 });
});

Deno.test("nearestLines() stays within the lines", () => {
  assertEquals(nearestLines(["the only line"], ["before", "the only lime", "after"]), { start: 0, end: 1 });
});

Deno.test("nearestLines() returns undefined if nothing is similar", () => {
  assertEquals(nearestLines(lines, ["class Foo extends Bar {}"]), undefined);
  assertEquals(nearestLines([], ["a"]), undefined);
});
