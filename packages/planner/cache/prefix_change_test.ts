import { assertEquals } from "@std/assert";
import type { Message, ToolDefinition } from "@tare/messages";
import { findPrefixChange } from "@tare/planner";

const count = (text: string) => text.length;
const system = (content: string): Message => ({ role: "system", content });
const user = (content: string): Message => ({ role: "user", content });
const tool = (name: string, description = "Does it."): ToolDefinition => ({
  type: "function",
  function: { name, description },
});

/** What is found between a request with these instructions and the next one with those. */
function changed(before: string, now: string) {
  const rest = [user("Go on, please."), user("More.")];
  const [one, other] = [before, now].map((text) => ({ messages: [system(text), ...rest], tools: [] }));
  const found = findPrefixChange(one, other!, count);
  return found && [found.where, found.kind, found.line, found.before, found.after];
}

Deno.test("findPrefixChange() names what changes in instructions, and the line", () => {
  assertEquals(changed("A\nToday is 2026-11-22.", "A\nToday is 2026-11-23."), [
    "instructions",
    ...["date", 2, "Today is 2026-11-22.", "Today is 2026-11-23."],
  ]);
  const status = (file: string) => `Rules.\n\ngitStatus: on main\n\nStatus:\n M ${file}`;
  assertEquals(changed(status("a.ts"), status("b.ts"))?.slice(0, 3), ["instructions", "git_status", 6]);
  const bill = (hash: string) => `x-anthropic-billing-header: cc_version=2.1; cch=${hash};\nRules.`;
  assertEquals(changed(bill("a1b"), bill("ff0"))?.slice(1, 3), ["bill", 1]);
  assertEquals(changed("Session 5f3a9c21.", "Session 77aa01bc.")?.slice(1, 3), ["number", 1]);
  assertEquals(changed("Be brief.", "Be brief.\nBe kind.")?.slice(1), ["text", 2, "", "Be kind."]);
  const long = changed(`${"a".repeat(500)}b`, `${"a".repeat(500)}c`);
  assertEquals(long?.slice(3), [`${"a".repeat(40)}b`, `${"a".repeat(40)}c`]);
});

Deno.test("findPrefixChange() counts what stands behind the change again, and finds none in what goes on or back", () => {
  const messages = [system("S"), user("first"), user("second")];
  const tools = [tool("a"), tool("b")];
  const find = (now: Partial<Parameters<typeof findPrefixChange>[1]>) =>
    findPrefixChange({ messages, tools }, { messages, tools, ...now }, count);
  assertEquals(find({}), undefined);
  assertEquals(find({ messages: [...messages, user("third")] }), undefined);
  assertEquals(find({ messages: messages.slice(0, 2) }), undefined);
  // The last was said otherwise: nothing of what was read before is read again.
  assertEquals(find({ messages: [...messages.slice(0, 2), user("other")] }), undefined);
  assertEquals(find({ messages: [system("S"), user("a summary"), user("Go on.")] }), undefined);
  const found = find({ messages: [system("S"), user("1st"), user("second"), user("third")] });
  assertEquals([found?.where, found?.place, found?.kind], ["message", 1, "text"]);
  // By this counter a message takes its characters and what frames it.
  assertEquals(found?.tokens, 2 * 4 + "1st".length + "second".length);
  assertEquals(findPrefixChange(undefined, { messages, tools }, count), undefined);
});

Deno.test("findPrefixChange() tells tools that come and go from those that say something else or stand elsewhere", () => {
  const messages = [user("Go.")];
  const told = (before: readonly ToolDefinition[], now: readonly ToolDefinition[]) => {
    const found = findPrefixChange({ messages, tools: before }, { messages, tools: now }, count);
    return found && [found.where, found.kind, found.place, found.before, found.after];
  };
  const [a, b, c] = ["a", "b", "c"].map((name) => tool(name)) as [
    ToolDefinition,
    ToolDefinition,
    ToolDefinition,
  ];
  assertEquals(told([a, b], [a, b]), undefined);
  assertEquals(told([a, b], [a, b, c]), ["tools", "list", 2, "", "c"]);
  assertEquals(told([a, b, c], [a, c]), ["tools", "list", 1, "b", ""]);
  assertEquals(told([a, b], [b, a]), ["tools", "order", 0, "a, b", "b, a"]);
  assertEquals(told([a, b], [a, tool("b", "Does more.")])?.slice(0, 3), ["tools", "text", 1]);
});
