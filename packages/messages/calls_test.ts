import { assertEquals } from "@std/assert";
import type { Message } from "@tare/messages";
import { describeCall, meantCall, pairCalls } from "@tare/messages/internal";
import fc from "../../tests/cases.ts";

function calls(...ids: readonly string[]): Message {
  return {
    role: "assistant",
    tool_calls: ids.map((id) => ({ id, type: "function", function: { name: "f", arguments: "{}" } })),
  };
}
const answer = (id: string): Message => ({ role: "tool", tool_call_id: id, content: "x" });

/** Returns each call with its message, position and answer. */
function pairsOf(messages: readonly Message[]): (readonly [call: string, answer: number | undefined])[] {
  return pairCalls(messages).map(({ call, at, answer }) => {
    const message = messages[at];
    const place = message?.role === "assistant" ? message.tool_calls?.indexOf(call) : undefined;
    return [`${at}.${place}`, answer?.at];
  });
}

Deno.test("pairCalls() pairs parallel calls with shared or empty ids with their answers in order", () => {
  assertEquals(pairsOf([calls("", "x", "", "x"), ...["x", "", "", "x"].map(answer)]), [
    ["0.0", 2],
    ["0.1", 1],
    ["0.2", 3],
    ["0.3", 4],
  ]);
});

Deno.test("pairCalls() pairs an answer with the newest open call of its id, then with older ones", () => {
  assertEquals(pairsOf([calls("x"), calls("x", "x"), ...["x", "x", "x", "x"].map(answer)]), [
    ["0.0", 4],
    ["1.0", 2],
    ["1.1", 3],
  ]);
  assertEquals(pairsOf([calls("x"), answer("x"), calls("x"), answer("x")]), [["0.0", 1], ["2.0", 3]]);
});

Deno.test("pairCalls() returns unanswered calls without an answer and ignores unrequested answers", () => {
  assertEquals(
    pairsOf([answer("a"), calls("a", "b"), answer("b"), answer("c"), { role: "user", content: "q" }]),
    [
      ["1.0", undefined],
      ["1.1", 2],
    ],
  );
});

Deno.test("pairCalls() never pairs an answer twice, with a later call or with another id", () => {
  const message = fc.oneof(
    fc.array(fc.constantFrom("", "a", "b"), { maxLength: 3 }).map((ids) => calls(...ids)),
    fc.constantFrom("", "a", "b").map(answer),
  );
  fc.assert(fc.property(fc.array(message, { maxLength: 20 }), (messages) => {
    const pairs = pairCalls(messages);
    const answered = pairs.flatMap(({ call, at, answer }) =>
      answer ? [{ ...answer, id: call.id, call: at }] : []
    );
    assertEquals(new Set(answered.map(({ at }) => at)).size, answered.length);
    for (const { id, call, at, message } of answered) {
      assertEquals([message.tool_call_id, call < at, messages[at]], [id, true, message]);
    }
    // An answer without a call arrived while no call of its id was open.
    for (const [at, message] of messages.entries()) {
      if (message.role !== "tool" || answered.some((pair) => pair.at === at)) continue;
      const before = pairCalls(messages.slice(0, at));
      assertEquals(before.filter(({ call, answer }) => call.id === message.tool_call_id && !answer), []);
    }
  }));
});

Deno.test("describeCall() returns name and arguments of both kinds of calls", () => {
  const patch = { id: "x", type: "custom", custom: { name: "patch", input: "***" } } as const;
  assertEquals(describeCall(patch), { name: "patch", arguments: "***" });
  const read = { id: "y", type: "function", function: { name: "read", arguments: "{}" } } as const;
  assertEquals(describeCall(read), { name: "read", arguments: "{}" });
});

Deno.test("meantCall() returns the call inside call_tool, and other calls unchanged", () => {
  const made = (name: string, text: string) =>
    meantCall({ id: "x", type: "function", function: { name, arguments: text } });
  assertEquals(made("call_tool", '{"name":"read","arguments":{"path":"a"}}'), {
    name: "read",
    arguments: '{"path":"a"}',
  });
  assertEquals(made("call_tool", '{"name":"now"}'), { name: "now", arguments: "{}" });
  for (const text of ["", "null", "[]", '{"name":7}', '{"tool":"read"}', "{"]) {
    assertEquals(made("call_tool", text), { name: "call_tool", arguments: text });
  }
  assertEquals(made("read", '{"name":"write"}'), { name: "read", arguments: '{"name":"write"}' });
});
