import { assertEquals } from "@std/assert";
import { callInShort, callTitle } from "./call_title.ts";

Deno.test("callInShort() returns calls in words", () => {
  const cases: readonly (readonly [name: string, args: unknown, expected: string])[] = [
    ["read_file", { path: "lib/hooks.js", start_line: 1, end_line: 80 }, "Read lib/hooks.js (1–80)"],
    ["read_file", { path: "a", start_line: 9 }, "Read a (9–)"],
    [
      "read_file",
      { path: "a", also: [{ path: "b c" }, { path: "a", start_line: 5, end_line: 9 }] },
      "Read a, b c, a (5–9)",
    ],
    ["read_file", { path: "a", also: "b" }, "Read a"],
    ["list_files", {}, "List ."],
    ["search_files", { pattern: "a|b", path: "src", glob: "*.ts" }, "Search a|b in src, *.ts"],
    ["shell", { command: "npm test" }, "Run npm test"],
    ["shell", { command: "npm test\nls" }, "Run npm test …"],
    ["background", { name: "dev", stop: true }, "Stop dev"],
    ["call_tool", { name: "write_file", arguments: { path: "a" } }, "Write a"],
    ["mcp_find", { query: "a b", limit: 3 }, "mcp_find query: a b, limit: 3"],
    ["write_file", { content: "x" }, "write_file content: x"],
    ["toString", {}, "toString"],
  ];
  for (const [name, args, expected] of cases) {
    assertEquals(callInShort({ name, args: JSON.stringify(args) }), expected);
  }
  assertEquals(callInShort({ name: "shell", args: "{broken" }), "shell {broken");
  assertEquals(callTitle({ name: "shell", args: '{"command":"a","timeout_ms":5}' }), {
    title: "Run a",
    rest: { timeout_ms: 5 },
  });
});
