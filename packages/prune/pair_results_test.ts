import { assertEquals } from "@std/assert";
import { estimateTokens, type Message, type ToolCall } from "@tare/messages";
import { selectElisions } from "@tare/prune";
import { say, step, text } from "./fixture_test.ts";

const tools = (messages: readonly Message[]) =>
  selectElisions(messages, { countTokens: estimateTokens, protectTokens: 0 }).map((
    { index, tool },
  ) => [index, tool]);

const call = (id: string, name: string): ToolCall => ({
  id,
  type: "function",
  function: { name, arguments: name },
});
const result = (id: string): Message => ({ role: "tool", tool_call_id: id, content: text(500) });

Deno.test("pairResults() pairs parallel calls that share an id, or have none, in their order", () => {
  const messages: Message[] = [
    { role: "assistant", tool_calls: [call("", "a"), call("x", "b"), call("", "c"), call("x", "d")] },
    ...["x", "", "", "x"].map(result),
    say("done"),
  ];
  assertEquals(tools(messages), [[1, "b"], [2, "a"], [3, "c"], [4, "d"]]);
});

Deno.test("pairResults() assigns a reused id to the later call", () => {
  assertEquals(tools([...step("a", "1", text(500), "x"), ...step("b", "2", text(500), "x"), say("")]), [
    [1, "a"],
    [3, "b"],
  ]);
});

Deno.test("pairResults() ignores results without a call", () => {
  const messages = [result("x"), ...step("a", "1", text(500), "x"), result("x"), result("y"), say("")];
  assertEquals(tools(messages), [[2, "a"]]);
});

Deno.test("pairResults() supports free-text calls", () => {
  const patch: ToolCall = { id: "x", type: "custom", custom: { name: "patch", input: "***" } };
  const messages: Message[] = [{ role: "assistant", tool_calls: [patch] }, result("x")];
  assertEquals(
    selectElisions([...messages, ...messages, say("")], { countTokens: estimateTokens, protectTokens: 0 })
      .map(({ index, tool, reason }) => [index, tool, reason]),
    [[1, "patch", "superseded"], [3, "patch", "old"]],
  );
});

Deno.test("pairResults() survives arguments that are nested too deep to compare key by key", () => {
  assertEquals(tools([...step("a", "[".repeat(500) + "]".repeat(500), text(500)), say("")]), [[1, "a"]]);
});

Deno.test("pairResults() pairs by the one rule when an id is open in two messages", () => {
  const messages: Message[] = [
    { role: "assistant", tool_calls: [call("x", "a")] },
    { role: "assistant", tool_calls: [call("x", "b")] },
    ...["x", "x"].map(result),
    say("done"),
  ];
  assertEquals(tools(messages), [[2, "b"], [3, "a"]]);
});

Deno.test("resultText() returns undefined for a result that must be retained", () => {
  const stays: Message = { role: "tool", tool_call_id: "a", content: text(500), keep: true };
  const messages: Message[] = [
    { role: "assistant", tool_calls: [call("a", "find"), call("b", "read")] },
    stays,
    result("b"),
    say("done"),
  ];
  assertEquals(tools(messages), [[2, "read"]]);
});
