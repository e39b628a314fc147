import { assertEquals, assertNotEquals } from "@std/assert";
import { anchorOf } from "./anchor_of.ts";

Deno.test("anchorOf() names what was said, whatever the spelling", () => {
  const call = { id: "c1", type: "function", function: { name: "f", arguments: "{}" } } as const;
  const said = anchorOf({ role: "assistant", content: "Hi ", tool_calls: [call] });
  const again = {
    role: "assistant",
    content: [{ type: "text", text: "Hi" }],
    tool_calls: [call],
    refusal: null,
  } as const;
  assertEquals(anchorOf(again), said);
  assertNotEquals(anchorOf({ role: "assistant", content: "Hi" }), said);
  assertNotEquals(anchorOf({ role: "user", content: "Hi" }), anchorOf({ role: "assistant", content: "Hi" }));
});
