import { assertEquals } from "@std/assert";
import type { Message, ToolDefinition } from "@tare/messages";
import { readDemoTurn } from "./turn.ts";

const ref = "0123456789abcdef";
const elided = `[elided: read_file result, 48213 bytes; recall with ref ${ref}]`;

function calling(...calls: readonly [id: string, name: string, args: string][]): Message {
  return {
    role: "assistant",
    content: null,
    tool_calls: calls.map(([id, name, args]) => ({
      id,
      type: "function",
      function: { name, arguments: args },
    })),
  };
}

function result(id: string, content: string): Message {
  return { role: "tool", tool_call_id: id, content };
}

function calls(...messages: readonly Message[]) {
  return readDemoTurn([{ role: "user", content: "?" }, ...messages], []).calls;
}

Deno.test("readDemoTurn() returns the last question and only the calls after it", () => {
  const turn = readDemoTurn([
    { role: "system", content: "Be brief." },
    { role: "user", content: "First?" },
    calling(["1", "list_files", "{}"]),
    result("1", "old/"),
    { role: "assistant", content: "Old." },
    { role: "user", content: "Second?" },
    { role: "user", content: [{ type: "text", text: "And this." }] },
    calling(["2", "list_files", '{"path":"new"}']),
    result("2", "new/a"),
  ], []);
  assertEquals(turn.question, "Second?\nAnd this.");
  assertEquals(turn.calls, [{ tool: "list_files", args: { path: "new" }, text: "new/a", seen: "whole" }]);
  assertEquals(readDemoTurn([{ role: "system", content: "x" }], []).question, "");
});

Deno.test("readDemoTurn() pairs calls with results, also out of order and with equal ids", () => {
  const seen = calls(
    calling(["a", "f", "{}"], ["b", "g", "{"]),
    result("b", "of g"),
    result("a", "of f"),
    calling(["", "f", "[1]"], ["", "g", "null"], ["x", "h", "{}"]),
    result("", "first"),
    result("", "second"),
  );
  assertEquals(seen.map(({ tool, text, seen }) => [tool, text, seen]), [
    ["f", "of f", "whole"],
    ["g", "of g", "whole"],
    ["f", "first", "whole"],
    ["g", "second", "whole"],
    ["h", "", "none"],
  ]);
});

Deno.test("readDemoTurn() replaces evicted results with recalled originals", () => {
  const read = (text: string, recalled: string) =>
    calls(
      calling(["1", "read_file", '{"path":"a"}']),
      result("1", text),
      calling(["2", "recall", `{"ref":"${ref}"}`]),
      result("2", recalled),
    )[0];
  const made = { tool: "read_file", args: { path: "a" }, ref };
  const middle = elided.replace("read_file", "middle of read_file");
  const cut = "orig\n[characters 0 to 4 of 8, lines 1 to 1 of 1; continue with offset 4]";
  assertEquals(read(elided, "original"), { ...made, text: "original", seen: "whole" });
  assertEquals(read(`head\n${middle}\ntail`, "original"), { ...made, text: "original", seen: "whole" });
  assertEquals(read(`head\n${middle}\ntail`, cut), {
    ...made,
    text: `head\n${middle}\ntail\n${cut}`,
    seen: "part",
  });
  assertEquals(read(elided, "Cannot recall it."), { ...made, text: elided, seen: "none" });
});

Deno.test("readDemoTurn() reports offered tools and their arguments", () => {
  const tools: ToolDefinition[] = [
    { type: "function", function: { name: "f", parameters: { type: "object", properties: { a: {} } } } },
    { type: "function", function: { name: "g" } },
  ];
  const { offers } = readDemoTurn([], tools);
  assertEquals([offers("f"), offers("g"), offers("h")], [true, true, false]);
  assertEquals([offers("f", "a"), offers("f", "b"), offers("g", "a"), offers("h", "a")], [
    true,
    false,
    false,
    false,
  ]);
});
