import { assertEquals } from "@std/assert";
import { describeToolCall, toolText } from "./tool_calls.ts";

const call = (name: string, args: Readonly<Record<string, unknown>> | string, workspace?: string) =>
  describeToolCall({ name, text: typeof args === "string" ? args : JSON.stringify(args), workspace });

Deno.test("describeToolCall() describes built-in tools and their locations", () => {
  const described = [
    call("read_file", { path: "a.ts" }, "/w"),
    call("read_file", { path: "/w/a.ts", start_line: 3, end_line: 9 }, "/w"),
    call("read_file", { path: "a.ts", also: [{ path: "b.ts", start_line: 5 }, {}] }, "/w"),
    call("list_files", {}, "/w"),
    call("list_files", { path: "src" }, "/w"),
    call("search_files", { pattern: "a\nb", path: "src" }, "/w"),
    call("search_files", { pattern: "`" }),
    call("shell", { command: "ls -la" }, "/w"),
    call("recall", { ref: "r1" }, "/w"),
    call("other", {}, "/w"),
    call("call_tool", { name: "read_file", arguments: { path: "a.ts" } }, "/w"),
  ];
  assertEquals(described.map(({ kind, title, locations }) => [kind, title, ...locations]), [
    ["read", "Read a.ts", { path: "/w/a.ts" }],
    ["read", "Read /w/a.ts (lines 3–9)", { path: "/w/a.ts", line: 3 }],
    ["read", "Read a.ts, b.ts (lines 5–…)", { path: "/w/a.ts" }, { path: "/w/b.ts", line: 5 }],
    ["read", "List the workspace"],
    ["read", "List src", { path: "/w/src" }],
    ["search", "Search `a b` in src", { path: "/w/src" }],
    ["search", "Search ` in the workspace"],
    ["execute", "`ls -la`"],
    ["read", 'recall {"ref":"r1"}'],
    ["other", "other"],
    ["read", "Read a.ts", { path: "/w/a.ts" }],
  ]);
});

Deno.test("describeToolCall() shows edits as diffs if the file is known", () => {
  assertEquals(call("edit_file", { path: "a", old_text: "b", new_text: "" }, "/w").content, [
    { type: "diff", path: "/w/a", oldText: "b", newText: "" },
  ]);
  assertEquals(call("write_file", { path: "a", content: "b" }, "/w").content, [
    { type: "diff", path: "/w/a", newText: "b" },
  ]);
  assertEquals(call("write_file", { path: "a", content: "b" }).content, []);
  assertEquals(call("write_file", { path: "a" }, "/w").content, []);
});

Deno.test("describeToolCall() accepts invalid JSON and long texts", () => {
  const { title, kind, rawInput, locations } = call("read_file", '{"path": "a', "/w");
  assertEquals([title, kind, rawInput, locations], ['read_file {"path": "a', "other", '{"path": "a', []]);
  assertEquals(call("other", { text: "x".repeat(1000) }).title.length, 160);
});

Deno.test("toolText() prevents rendering as Markdown", () => {
  assertEquals(toolText(""), []);
  assertEquals(toolText("# a\n````\nb"), [
    { type: "content", content: { type: "text", text: "`````\n# a\n````\nb\n`````" } },
  ]);
});
