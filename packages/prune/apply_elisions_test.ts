import { assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import { applyElisions, type Elision } from "@tare/prune";
import { say, step, user } from "./fixture_test.ts";

const history = [
  user("go"),
  ...step("read", {}, "long", "a"),
  ...step("read", {}, "longer", "b"),
  say("done"),
];

Deno.test("applyElisions() replaces contents, the last elision winning, and touches nothing else", () => {
  const view = applyElisions(history, [
    { index: 2, toolCallId: "a", text: "first" },
    { index: 4, toolCallId: "b", text: "short" },
    { index: 2, toolCallId: "a", text: "second" },
  ]);
  assertEquals(view.map((message) => message.content), ["go", null, "second", null, "short", "done"]);
  for (const index of [0, 1, 3, 5]) assertStrictEquals(view[index], history[index]);
  assertEquals(history[2]?.content, "long");
});

Deno.test("applyElisions() is sticky: a growing history keeps the same bytes and objects", () => {
  const elisions: Elision[] = JSON.parse(JSON.stringify([{
    index: 2,
    toolCallId: "a",
    tool: "read",
    ref: "0123456789abcdef",
    text: "short",
    tokensBefore: 9,
    tokensAfter: 3,
    reason: "old",
  }]));
  const view = applyElisions(history, elisions);
  const later = applyElisions([...history, user("more")], elisions);
  assertEquals(JSON.stringify(later.slice(0, -1)), JSON.stringify(view));
  assertStrictEquals(later[2], view[2]);
});

Deno.test("applyElisions() refuses an elision that was made for another message", () => {
  for (const index of [0, 1, 4, 99]) {
    assertThrows(
      () => applyElisions(history, [{ index, toolCallId: "a", text: "short" }]),
      RangeError,
      `Cannot elide message ${index}: it is no tool result with the id 'a'`,
    );
  }
});
