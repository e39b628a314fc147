import { assertEquals, assertNotEquals, assertStrictEquals, assertThrows } from "@std/assert";
import type { Message } from "@tare/messages";
import { MESSAGES_PROTOCOL, readBody, UnknownShape, writeRequest } from "@tare/wire";
import { decode, encode, newReaders, requestOf, shown } from "../request_fixture_test.ts";

const MARK = { cache_control: { type: "ephemeral" } };
const USE = { type: "tool_use", id: "c1", name: "read", input: { cache_control: 1, path: "a" } };
const result = (id: string, content: unknown, more: object = {}) => ({
  type: "tool_result",
  tool_use_id: id,
  content,
  ...more,
});

Deno.test("MESSAGES_PROTOCOL makes a message of each reply, and of each block of the user", () => {
  const messages = [
    { role: "user", content: "Go." },
    {
      role: "assistant",
      content: [
        { type: "thinking", thinking: "Hm.", signature: "s" },
        { type: "redacted_thinking", data: "x".repeat(5_000) },
        { type: "text", text: "Look." },
        USE,
      ],
    },
    {
      role: "user",
      content: [
        result("c1", "A."),
        result("c2", [{ type: "text", text: "B." }], { is_error: true }),
        result("c3", [{ type: "text", text: "C." }, {
          type: "image",
          source: { type: "base64", data: "…" },
        }]),
        { type: "text", text: "And now?" },
        { type: "document", source: { type: "base64", data: "abcd" } },
      ],
    },
    { role: "system", content: "Be brief." },
    { role: "assistant", content: "Done." },
  ];
  const found = result("c4", [{ type: "tool_reference", tool_name: "mcp__github__search" }]);
  const [kept] = MESSAGES_PROTOCOL.readItem({ role: "user", content: [found] });
  assertEquals(kept?.message.role === "tool" && kept.message.keep, true);
  const read = messages.flatMap(MESSAGES_PROTOCOL.readItem).map(({ message }) => message);
  const [, reply, ...more] = read;
  assertEquals(reply?.role === "assistant" && [reply.reasoning_content, reply.tool_calls], ["Hm.", [{
    id: "c1",
    type: "function",
    function: { name: "read", arguments: '{"cache_control":1,"path":"a"}' },
  }]]);
  assertEquals(JSON.stringify(reply?.content).length < 1_200, true);
  const picture = { type: "image_url", image_url: { url: "" } } as const;
  const expected: Message[] = [
    { role: "tool", tool_call_id: "c1", content: "A." },
    { role: "tool", tool_call_id: "c2", content: "B." },
    { role: "tool", tool_call_id: "c3", content: [{ type: "text", text: "C." }, picture] },
    { role: "user", content: "And now?" },
    { role: "user", content: [{ type: "file", file: { file_data: "abcd" } }] },
    { role: "system", content: "Be brief." },
    { role: "assistant", content: "Done." },
  ];
  assertEquals(more, expected);
  for (
    const odd of [1, { role: "tool", content: "" }, { role: "user", content: [{}] }, {
      role: "user",
      content: [{ type: "tool_result", tool_use_id: 1 }],
    }, { role: "assistant", content: [{ type: "text", text: 1 }] }]
  ) {
    assertThrows(() => MESSAGES_PROTOCOL.readItem(odd), UnknownShape);
  }
});

Deno.test("MESSAGES_PROTOCOL takes spellings of one message for the same, marks and all", () => {
  const readers = newReaders();
  const items = (content: unknown, system: unknown = "S") =>
    requestOf({ model: "m", system, messages: [{ role: "user", content }] }, MESSAGES_PROTOCOL, readers)
      .items;
  const text = items("Go.");
  const block = items([{ type: "text", text: "Go.", ...MARK }], [{ type: "text", text: "S", ...MARK }]);
  assertEquals(text.map(({ key }) => key), block.map(({ key }) => key));
  assertStrictEquals(text[1]?.parts[0]?.message, block[1]?.parts[0]?.message);
  assertEquals([text[1]?.parts[0]?.text, block[1]?.parts[0]?.text], [["content"], ["content", 0, "text"]]);
  const results = [result("c", "A."), result("c", [{ type: "text", text: "A.", ...MARK }]), result("d", "A.")]
    .map((block) => items([block])[1]?.key);
  assertEquals(results[0], results[1]);
  assertNotEquals(results[0], results[2]);
  // What a tool is asked is no mark.
  const uses = [USE, { ...USE, input: { path: "a" } }].map((use) =>
    requestOf({ model: "m", messages: [{ role: "assistant", content: [use] }] }, MESSAGES_PROTOCOL, readers)
      .items[1]?.key
  );
  assertNotEquals(uses[0], uses[1]);
});

Deno.test("MESSAGES_PROTOCOL edits single blocks, and leaves all other bytes alone", () => {
  const body = '{ "model":"m","system":"S","max_tokens":1.0,"messages":[{"role":"user","content":"Go."},' +
    '{"content":[{"type":"thinking","thinking":"Hm.","signature":"\\u0073"},{"type":"tool_use","id":"c1","name":"read","input":{"n":1.0}},' +
    '{"type":"tool_use","id":"c2","name":"read","input":{}}],"role":"assistant"},' +
    '{"role":"user","content":[ {"type":"tool_result","tool_use_id":"c1","content":"long","x":1.0}, ' +
    '{"type":"tool_result","tool_use_id":"c2","content":[{"type":"text","text":"longer"}]},{"type":"text","text":"And?"}]}] }';
  const request = requestOf(body, MESSAGES_PROTOCOL);
  const written = (changed: Parameters<typeof shown>[1]) =>
    decode(writeRequest(request, shown(request, changed)));
  assertStrictEquals(writeRequest(request, shown(request)), request.bytes);
  assertEquals(written({ 3: { content: "[1]" } }), body.replace('"long"', '"[1]"'));
  assertEquals(
    written({ 4: { content: "[2]" } }),
    body.replace('[{"type":"text","text":"longer"}]', '"[2]"'),
  );
  const left = JSON.parse(written({ 2: null, 3: null, 4: null }));
  assertEquals(left.messages, [
    { role: "user", content: "Go." },
    { role: "user", content: [{ type: "text", text: "And?" }] },
  ]);
});

Deno.test("MESSAGES_PROTOCOL writes tools, lines and answers in its own way", () => {
  const { readTool, writeTool, writeMessage, writeAnswers } = MESSAGES_PROTOCOL;
  const original = { name: "f", description: "Long.", input_schema: { type: "object" }, ...MARK };
  const read = readTool(original);
  assertEquals(read?.function, { name: "f", description: "Long.", parameters: { type: "object" } });
  assertEquals(readTool({ type: "web_search_20250305", name: "web_search" }), undefined);
  for (const odd of [1, { name: "f" }, { input_schema: {} }]) assertThrows(() => readTool(odd), UnknownShape);
  const brief = { type: "function", function: { name: "f", parameters: { type: "object" } } } as const;
  assertEquals(JSON.parse(writeTool(brief, original)), {
    name: "f",
    input_schema: { type: "object" },
    ...MARK,
  });
  assertEquals(JSON.parse(writeTool({ type: "function", function: { name: "g" } })), {
    name: "g",
    input_schema: { type: "object" },
  });
  assertEquals(JSON.parse(writeMessage({ role: "user", content: "[elided]" })), {
    role: "user",
    content: "[elided]",
  });
  assertEquals(writeAnswers([]), []);
  assertEquals(
    writeAnswers([{ id: "1", text: "A" }, { id: "2", text: "B" }]).map((json) => JSON.parse(json)),
    [{
      role: "user",
      content: [result("1", "A"), result("2", "B")],
    }],
  );
});

Deno.test("MESSAGES_PROTOCOL tells what a request says of its session, and which it must leave alone", () => {
  const hints = (more: object, headers: Record<string, string> = {}) =>
    MESSAGES_PROTOCOL.readHints(
      readBody(encode({ model: "m", messages: [], ...more })),
      new Headers(headers),
    );
  assertEquals(hints({ metadata: { user_id: '{"session_id":"s"}' } }).key, '{"session_id":"s"}');
  assertEquals(hints({}, { "x-session-id": "x" }).key, "x");
  assertEquals(hints({}).key, undefined);
  const edits = (...edits: unknown[]) => hints({ context_management: { edits } }).isDetached;
  assertEquals(edits({ type: "clear_thinking_20251015", keep: "all" }), false);
  assertEquals(edits({ type: "clear_tool_uses_20250919" }), true);
  assertEquals(hints({ thread: { type: "create" } }).isDetached, true);
  const { speaks, auth } = MESSAGES_PROTOCOL;
  assertEquals(speaks?.(new Headers({ "anthropic-version": "2023-06-01" })), true);
  assertEquals(speaks?.(new Headers()), false);
  assertEquals(auth.header("k"), ["x-api-key", "k"]);
});

Deno.test("MESSAGES_PROTOCOL refuses as its provider does", async () => {
  const types = await Promise.all([400, 401, 403, 404, 413, 415, 429, 500, 529].map(async (status) => {
    const response = MESSAGES_PROTOCOL.refuse(status, "No.", "");
    const { type, error } = await response.json();
    return [response.status, type, error.type, error.message];
  }));
  assertEquals(types, [
    [400, "error", "invalid_request_error", "No."],
    [401, "error", "authentication_error", "No."],
    [403, "error", "permission_error", "No."],
    [404, "error", "not_found_error", "No."],
    [413, "error", "request_too_large", "No."],
    [415, "error", "invalid_request_error", "No."],
    [429, "error", "rate_limit_error", "No."],
    [500, "error", "api_error", "No."],
    [529, "error", "overloaded_error", "No."],
  ]);
});
