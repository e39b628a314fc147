import { assertEquals, assertThrows } from "@std/assert";
import type { Message } from "@tare/messages";
import { HttpError } from "../http/http_error.ts";
import { parseSessions } from "./parse_sessions.ts";

const call = (id: string) => ({ id, type: "function", function: { name: "f", arguments: "{}" } }) as const;
const messages: readonly (Message & { readonly signature?: string })[] = [
  { role: "system", content: "i" },
  { role: "user", content: [{ type: "text", text: "q" }], name: "n" },
  { role: "assistant", content: null, tool_calls: [call("a"), call("b")], signature: "s" },
  { role: "tool", tool_call_id: "b", content: "x" },
  { role: "tool", tool_call_id: "a", content: [{ type: "text", text: "y" }] },
  { role: "assistant", content: "done" },
];
const lines = (values: readonly unknown[]) => values.map((value) => `${JSON.stringify(value)}\n`).join("");

function faults(text: string): string {
  const error = assertThrows(() => parseSessions(text), HttpError);
  assertEquals([error.status, error.code], [400, "invalid_request"]);
  return error.message;
}

Deno.test("parseSessions() reads a session of a message a line, exactly", () => {
  assertEquals(parseSessions(lines(messages)), [messages]);
  assertEquals(parseSessions(`\ufeff${lines(messages).replaceAll("\n", "\r\n\r\n")}`), [messages]);
});

Deno.test("parseSessions() reads a recorded session a line, without what recordings note", () => {
  const noted = messages.map((message) => ({
    ...message,
    ts: 1,
    usage: { input: 1 },
    meta: true,
    error: true,
  }));
  const text = lines([{ id: "1", tools: [], messages: noted }, {
    messages: [{ role: "user", content: "q", ts: 2 }],
  }]);
  assertEquals(parseSessions(text), [messages, [{ role: "user", content: "q" }]]);
});

Deno.test("parseSessions() names each bad line and what is wrong with it", () => {
  const roles = "system, developer, user, assistant, tool, function";
  const { message } = assertThrows(() => JSON.parse('{"role":'), SyntaxError);
  assertEquals(
    faults(
      '{"role":"user","content":"q"}\n\n{"role":\n3\n{"role":"robot"}\n{}\n{"role":"user"}\n{"messages":[]}',
    ),
    `Cannot import: line 3: it isn't JSON (${message}); line 4: it isn't a JSON object; line 5: role is "robot" and ` +
      `must be one of ${roles}; line 6: role is missing and must be one of ${roles}; line 7: the message must have ` +
      "required property 'content'; line 8: it is a session, but the lines before are messages. Nothing was imported.",
  );
  assertEquals(
    faults(
      lines([{ messages: [messages[1]] }, { messages: [messages[1], null, { role: "tool", content: 3 }] }]),
    ),
    `Cannot import: line 2, message 2: role is missing and must be one of ${roles}; line 2, message 3: the message ` +
      "must have required property 'tool_call_id'; content must be string or array. Nothing was imported.",
  );
  const unnamed = { role: "assistant", tool_calls: [{ id: "a", type: "function" }] };
  assertEquals(
    faults(lines([unnamed])),
    "Cannot import: line 1: tool_calls.0 must have required property 'function'. Nothing was imported.",
  );
});

Deno.test("parseSessions() takes a session whose last calls wait for their answers, as it was exported", () => {
  const open = messages.slice(1, 4);
  assertEquals(parseSessions(lines(open)), [open]);
});

Deno.test("parseSessions() refuses calls without an answer and answers without a call", () => {
  const [, user, reply, b, a, done] = messages;
  const open = (line: number, id: string) => `line ${line}: its call "${id}" isn't answered right after it`;
  const orphan = (line: number, id: string) =>
    `line ${line}: it answers call "${id}", which no reply right before it made`;
  for (
    const [wrong, ...expected] of [
      [[user, reply, b, done], open(2, "a")],
      [[user, reply, b, user, a], open(2, "a"), orphan(5, "a")],
      [[user, reply, b, b, a], orphan(4, "b")],
      [[b, user], orphan(1, "b")],
    ] as const
  ) {
    assertEquals(faults(lines(wrong)), `Cannot import: ${expected.join("; ")}. Nothing was imported.`);
  }
});

Deno.test("parseSessions() refuses a file without messages, and tells only so many faults", () => {
  assertEquals(faults("\n \n"), "Cannot import: it holds no messages. Nothing was imported.");
  assertEquals(
    faults("3\n".repeat(25)).endsWith("line 20: it isn't a JSON object; and 5 more. Nothing was imported."),
    true,
  );
});
