import { assertEquals, assertThrows } from "@std/assert";
import fc from "../../tests/cases.ts";
import { groupTurns } from "@tare/context";
import type { Message } from "@tare/messages";
import { callPairs } from "../../tests/call_pairs.ts";
import { conversations, messyConversations } from "../../tests/conversations.ts";

/** Returns a conversation from shorthand: one word per message, `call:a,b` and `tool:a` with call ids. */
function conversation(shorthand: string): Message[] {
  return shorthand.split(" ").filter(Boolean).map((word): Message => {
    const [role, ids = ""] = word.split(":");
    if (role === "user" || role === "system" || role === "developer") return { role, content: role };
    if (role === "tool") return { role, tool_call_id: ids, content: "result" };
    if (role === "text") return { role: "assistant", content: "answer" };
    const calls = ids.split(",").map((id) => ({
      id,
      type: "function" as const,
      function: { name: "f", arguments: "{}" },
    }));
    return { role: "assistant", tool_calls: calls };
  });
}

function ranges(shorthand: string, activeTurnStart?: number): number[][] {
  return groupTurns(conversation(shorthand), activeTurnStart).map(({ start, end }) => [start, end]);
}

Deno.test("groupTurns() opens a turn with a user message, or several in a row", () => {
  assertEquals(ranges("user text user call:1 tool:1 text user"), [[0, 2], [2, 6], [6, 7]]);
  assertEquals(ranges("user user text user user user text"), [[0, 3], [3, 7]]);
});

Deno.test("groupTurns() treats a history without a user message as one turn", () => {
  assertEquals(ranges("system call:1 tool:1 call:2 tool:2 text"), [[1, 6]]);
  assertEquals(ranges(""), []);
  assertEquals(ranges("system developer"), []);
});

Deno.test("groupTurns() groups messages before the first user message into a turn", () => {
  assertEquals(ranges("system text user text"), [[1, 2], [2, 4]]);
});

Deno.test("groupTurns() doesn't let system and developer messages open or end a turn", () => {
  assertEquals(ranges("system user system text developer user text system"), [[1, 5], [5, 8]]);
  assertEquals(ranges("user system user text"), [[0, 4]]);
});

Deno.test("groupTurns() opens no turn between a call and its answer", () => {
  assertEquals(ranges("user call:1 user tool:1 text user"), [[0, 5], [5, 6]]);
  assertEquals(ranges("user call:1,2 tool:1 user tool:2 user text"), [[0, 5], [5, 7]]);
  assertEquals(ranges("user call: user tool: text user call: tool:"), [[0, 5], [5, 8]]);
});

Deno.test("groupTurns() joins no turns for unanswered calls or orphaned answers", () => {
  assertEquals(ranges("user call:1 user text user call:1 tool:1"), [[0, 2], [2, 4], [4, 7]]);
  assertEquals(ranges("user tool:1 user call:2 tool:2 user tool:2"), [[0, 2], [2, 5], [5, 7]]);
});

Deno.test("groupTurns() starts the active turn at activeTurnStart", () => {
  assertEquals(ranges("user text call:1 tool:1", 2), [[0, 2], [2, 4]]);
  assertEquals(ranges("user text user call:1 tool:1 user", 2), [[0, 2], [2, 6]]);
  assertEquals(ranges("user text", 0), [[0, 2]]);
  assertEquals(ranges("user text", 2), [[0, 2], [2, 2]]);
  assertEquals(ranges("", 0), [[0, 0]]);
});

Deno.test("groupTurns() puts the turn of a call before the named start into the active turn if it is answered after it", () => {
  assertEquals(ranges("user text user call:1 tool:1", 4), [[0, 2], [2, 5]]);
});

Deno.test("groupTurns() rejects a start that is out of range", () => {
  for (const start of [-1, 3, 0.5, NaN, Infinity]) {
    assertThrows(
      () => groupTurns(conversation("user text"), start),
      RangeError,
      `activeTurnStart is ${start}, it must be an integer from 0 to 2`,
    );
  }
});

Deno.test("groupTurns() returns adjacent ranges of all but leading instructions that separate no pair", () => {
  const any = fc.oneof(conversations(), messyConversations());
  fc.assert(fc.property(any, fc.option(fc.nat(), { nil: undefined }), (messages, at) => {
    const turns = groupTurns(messages, at === undefined ? undefined : at % (messages.length + 1));
    assertEquals(turns.slice(1).map(({ start }) => start), turns.slice(0, -1).map(({ end }) => end));
    assertEquals(turns.at(-1)?.end ?? messages.length, messages.length);
    const leading = messages.slice(0, turns[0]?.start);
    assertEquals(leading.filter(({ role }) => role !== "system" && role !== "developer"), []);
    const turnOf = (index: number) => turns.findIndex(({ start, end }) => start <= index && index < end);
    for (const { call, answer } of callPairs(messages).pairs) assertEquals(turnOf(call), turnOf(answer));
  }));
});
