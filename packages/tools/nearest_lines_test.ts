import { assertEquals } from "@std/assert";
import { nearestLines } from "./nearest_lines.ts";

const lines = [
  "function add(a, b) {",
  "  return a + b;",
  "}",
  "",
  "function subtract(a, b) {",
  "  return a - b;",
  "}",
];

Deno.test("nearestLines() finds the run that is most alike, white space aside", () => {
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

Deno.test("nearestLines() finds nothing where nothing is alike", () => {
  assertEquals(nearestLines(lines, ["class Foo extends Bar {}"]), undefined);
  assertEquals(nearestLines([], ["a"]), undefined);
});
