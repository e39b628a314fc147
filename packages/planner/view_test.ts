import { assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import { type Edit, view } from "@tare/planner";
import type { Message } from "@tare/messages";

const messages: readonly Message[] = [
  { role: "user", content: "Read." },
  {
    role: "assistant",
    tool_calls: [{ id: "1", type: "function", function: { name: "read", arguments: "{}" } }],
  },
  { role: "tool", tool_call_id: "1", content: "long" },
];
const elide = (index: number, text: string): Edit => ({
  type: "elide",
  index,
  toolCallId: "1",
  ref: "r",
  text,
});

Deno.test("view() replaces the content of an elided result, the later edit winning, and nothing else", () => {
  const seen = view({ messages, tools: [] }, [elide(2, "[a]"), elide(2, "[b]")]);
  assertEquals(seen, {
    messages: [messages[0]!, messages[1]!, { ...messages[2]!, content: "[b]" }] as Message[],
    tools: [],
  });
  assertStrictEquals(seen.messages[1], messages[1]);
  assertEquals(messages[2]!.content, "long");
});

Deno.test("view() gives the same object for the same edit each time", () => {
  const first = view({ messages, tools: [] }, [elide(2, "[a]")]);
  const second = view({ messages, tools: [] }, [elide(2, "[a]")]);
  assertStrictEquals(second.messages[2], first.messages[2]);
});

Deno.test("view() refuses to elide what is no tool result", () => {
  for (const index of [0, 9]) {
    assertThrows(
      () => view({ messages, tools: [] }, [elide(index, "x")]),
      RangeError,
      `Cannot elide message ${index}`,
    );
  }
});
