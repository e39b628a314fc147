import { assertEquals, assertThrows } from "@std/assert";
import { ToolRefusal } from "../define_tool.ts";
import { searchPattern } from "./search_files_tool.ts";

Deno.test("searchPattern() matches anywhere in a line and returns the position", () => {
  const pattern = searchPattern("b+c$");
  assertEquals(["abbc", "bc", "bcd", ""].map(pattern.matches), [true, true, false, false]);
  assertEquals(["abbc", "none"].map(pattern.matchStart), [1, 0]);
  assertEquals(searchPattern("").matches(""), true);
  assertEquals(searchPattern("^").matches("x"), true);
});

Deno.test("searchPattern() ignores case on request", () => {
  assertEquals(searchPattern("äpfel", { ignoreCase: true }).matches("ÄPFEL"), true);
  assertEquals(searchPattern("äpfel").matches("ÄPFEL"), false);
});

Deno.test("searchPattern() rejects unsupported RE2 syntax with an explanation", () => {
  for (const source of ["(?=x)", "(?!x)", "(?<=x)y", "(a)\\1", "(", "[z-a]", "a{5000}"]) {
    assertThrows(() => searchPattern(source), ToolRefusal, "Patterns are RE2 regular expressions", source);
  }
});

Deno.test("searchPattern() takes time linear in the line", () => {
  assertEquals(searchPattern("(x+x+)+y").matches("x".repeat(100_000)), false);
});
