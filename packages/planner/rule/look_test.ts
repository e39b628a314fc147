import { assertEquals } from "@std/assert";
import { estimateTokens, type Message } from "@tare/messages";
import { Layout } from "../edits/view.ts";
import { sharePrompt } from "./look.ts";

const textOf = (tokens: number) => "x".repeat(4 * (tokens - 4));

Deno.test("sharePrompt() puts every token of a prompt into one class", () => {
  const call = (id: string): Message => ({
    role: "assistant",
    tool_calls: [{ id, type: "function", function: { name: "read", arguments: "{}" } }],
  });
  const messages: Message[] = [
    { role: "system", content: textOf(100) },
    { role: "user", content: textOf(20) },
    call("1"),
    { role: "tool", tool_call_id: "1", content: textOf(5_000) },
    { role: "assistant", content: textOf(30) },
    { role: "user", content: textOf(40) },
    call("2"),
    { role: "tool", tool_call_id: "2", content: textOf(17_000) },
  ];
  const layout = new Layout(estimateTokens);
  const text = "[elided: read result, 19984 bytes; ref 0123456789abcdef]";
  layout.update(messages, [{ type: "elide", index: 3, toolCallId: "1", ref: "0123456789abcdef", text }]);
  const shares = sharePrompt(layout, { activeStart: 5, toolTokens: 7 });
  const sum = Object.values(shares).reduce((all, tokens) => all + tokens, 0);
  assertEquals(sum, 7 + layout.tokens);
  assertEquals(shares, {
    tools: 7,
    core: 100,
    oldTurns: 20 + 6 + 30,
    activeTurn: 40 + 6,
    results: 17_000,
    placeholders: sum - 7 - 100 - 56 - 46 - 17_000,
  });
});
