import { assertEquals } from "@std/assert";
import type { Message } from "@tare/messages";
import { firstOpenCall } from "./first_open_call.ts";

function call(...ids: readonly string[]): Message {
  return {
    role: "assistant",
    tool_calls: ids.map((id) => ({ id, type: "function", function: { name: "f", arguments: "{}" } })),
  };
}
const answer = (id: string): Message => ({ role: "tool", tool_call_id: id, content: "x" });

Deno.test("firstOpenCall() finds the first message with a call that nothing answers", () => {
  assertEquals(firstOpenCall([]), 0);
  assertEquals(firstOpenCall([call("a", "b"), answer("b"), answer("a")]), 3);
  assertEquals(firstOpenCall([call("a"), call("b", "c"), answer("a"), answer("c")]), 1);
  assertEquals(firstOpenCall([call("a"), answer("a"), call("a")]), 2);
  assertEquals(firstOpenCall([call(""), call(""), answer("")]), 0);
});
