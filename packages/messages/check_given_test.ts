import { assertEquals, assertThrows } from "@std/assert";
import { checkGiven } from "@tare/messages/internal";

const HISTORY = [
  { role: "user", content: "Go." },
  { role: "assistant", content: null, tool_calls: [] },
  { role: "assistant" },
  { role: "function", name: "f", content: null },
];

const check = (message: unknown) =>
  checkGiven("view()", { messages: [...HISTORY, message] }, { messages: "messages" });

Deno.test("checkGiven() throws for invalid message content with the expected form", () => {
  const right = "it must be a string, or an array of content parts";
  const cases: readonly (readonly [unknown, string])[] = [
    [{}, `is missing; ${right}`],
    [{ content: null }, `is null; ${right}`],
    [{ content: { ok: true } }, `is an object; ${right}`],
    [{ content: 7 }, `is 7; ${right}`],
    [{ content: true }, `is true; ${right}`],
  ];
  for (const [fields, state] of cases) {
    const named = (of: object) =>
      assertThrows(() => check({ ...of, ...fields as object }), TypeError).message;
    assertEquals(
      named({ role: "tool", tool_call_id: "call_7" }),
      `Cannot run view(): messages[4].content (role tool, tool_call_id "call_7") ${state}`,
    );
    assertEquals(named({ role: "user" }), `Cannot run view(): messages[4].content (role user) ${state}`);
  }
});

Deno.test("checkGiven() throws for an invalid content part", () => {
  for (const part of [null, "text", {}, { type: 1 }, { type: "text" }, { type: "text", text: null }]) {
    const content = [{ type: "text", text: "a" }, part];
    const { message } = assertThrows(
      () => check({ role: "tool", tool_call_id: "call_7", content }),
      TypeError,
    );
    assertEquals(
      message.replace(/ is .*;/, ";"),
      'Cannot run view(): messages[4].content[1] (role tool, tool_call_id "call_7"); ' +
        'it must be a content part, such as { type: "text", text: "…" }',
    );
  }
});

Deno.test("checkGiven() accepts every content type of chat messages", () => {
  check({ role: "assistant", content: undefined });
  check({ role: "tool", tool_call_id: "1", content: "" });
  check({ role: "tool", tool_call_id: "1", content: [] });
  check({ role: "user", content: [{ type: "hologram" }, { type: "text", text: "" }] });
});
