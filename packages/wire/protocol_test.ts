import { assertEquals, assertNotEquals, assertStrictEquals, assertThrows } from "@std/assert";
import type { Message } from "@tare/messages";
import {
  asRecord,
  CHAT_PROTOCOL,
  type ItemPart,
  peekField,
  type Protocol,
  RESPONSES_PROTOCOL,
  UnknownShape,
  writeRequest,
} from "@tare/wire/internal";
import { decode, encode, newReaders, requestOf, visible } from "./request_fixture_test.ts";
import { anchorOf } from "./request.ts";

Deno.test("readRequest() returns items and tools, known ones as the same objects", () => {
  const readers = newReaders();
  const read = (text: string) => requestOf(text, CHAT_PROTOCOL, readers);
  const one = read(
    '{"model":"m","messages":[{"role":"user","content":"a"}],"tools":[{"type":"custom"}],"stream":true}',
  );
  const two = read('{"model":"m","messages":[ {"role":"user","content":"a"} ],"tools":null}');
  assertEquals([one.model, one.stream, one.tools?.length, two.stream, two.tools], [
    "m",
    true,
    1,
    false,
    undefined,
  ]);
  assertStrictEquals(one.items[0]?.parts, two.items[0]?.parts);
});

Deno.test("readRequest() replaces a reference by the item with its id", () => {
  const known: readonly ItemPart[] = [{ message: { role: "assistant", content: "Said." } }];
  const body = { model: "m", input: ["a", "b"].map((id) => ({ type: "item_reference", id })) };
  const readers = { ...newReaders(), referred: (id: string) => id === "a" ? known : undefined };
  const { items } = requestOf(body, RESPONSES_PROTOCOL, readers);
  assertStrictEquals(items[1]?.parts, known);
  assertEquals(items[2]?.parts[0]?.message.content, null);
});

Deno.test("peekField() reads a truncated or invalid body", () => {
  assertEquals(peekField(encode('{"model":"m","messages":[{"ro'), "model"), "m");
  assertEquals(peekField(encode('{"model":"m'), "model"), undefined);
  assertEquals(peekField(encode("no"), "model"), undefined);
  assertEquals(peekField(encode('{"model":tru}'), "model"), undefined);
});

const TEXT =
  '{"x":1.0,"messages":[{"role":"user","content":"a"},{"role":"tool","n":2.0,"content":"long","tool_call_id":"c"}],' +
  '"model":"m","tools":[{"type":"function","function":{"name":"f"}},{"type":"custom"}]}';

Deno.test("writeRequest() returns the client's own bytes if nothing is changed", () => {
  const request = requestOf(TEXT, CHAT_PROTOCOL);
  assertStrictEquals(writeRequest(request, visible(request)), request.bytes);
  const text = requestOf({ model: "m", input: "Go.", instructions: "Be brief." }, RESPONSES_PROTOCOL);
  assertStrictEquals(writeRequest(text, visible(text)), text.bytes);
});

Deno.test("writeRequest() changes only a result's text and adds a tool", () => {
  const request = requestOf(TEXT, CHAT_PROTOCOL);
  const more = { type: "function", function: { name: "more" } } as const;
  const prompt = visible(request, { 1: { content: "[elided]" } });
  assertEquals(
    decode(writeRequest(request, { ...prompt, tools: [...prompt.tools, more] })),
    TEXT.replace('"long"', '"[elided]"')
      .replace('{"type":"custom"}', (tool) => `${tool},${JSON.stringify(more)}`),
  );
  const brief = { type: "function", function: { name: "f", description: "F." } } as const;
  assertEquals(
    decode(writeRequest(request, { ...prompt, tools: [brief], messages: prompt.messages.slice(0, 1) })),
    TEXT.replace(/,\{"role":"tool".*?\}/, "").replace('{"name":"f"}', '{"name":"f","description":"F."}'),
  );
});

Deno.test("writeRequest() writes placeholders, and a text instead of a list as a message", () => {
  const request = requestOf({ model: "m", input: "Go.", previous_response_id: "r1" }, RESPONSES_PROTOCOL);
  const { messages, places, ...prompt } = visible(request);
  const line: Message = { role: "user", content: "[elided]" };
  const before = {
    ...prompt,
    messages: [line, messages[0]!],
    places: [-1, 0],
    follows: "r2",
  };
  assertEquals(JSON.parse(decode(writeRequest(request, before))), {
    model: "m",
    input: [line, { role: "user", content: "Go." }],
    previous_response_id: "r2",
  });
  const after = { ...prompt, messages: [...messages, line], places: [...places, -1], follows: "r1" };
  assertEquals(JSON.parse(decode(writeRequest(request, after))), {
    model: "m",
    input: [{ role: "user", content: "Go." }, line],
    previous_response_id: "r1",
  });
});

Deno.test("writeRequest() requests usage of streams where the client doesn't", () => {
  const sent = (options: string, stream = true) => {
    const text = `{"model":"m","stream":${stream}${options},"messages":[]}`;
    const request = requestOf(text, CHAT_PROTOCOL);
    return JSON.parse(decode(writeRequest(request, visible(request)))).stream_options;
  };
  assertEquals([sent(""), sent("", false)], [{ include_usage: true }, undefined]);
  const options = ["null", "{}", '{"include_usage":true}', '{"x":1}', "5"].map((value) =>
    sent(`,"stream_options":${value}`)
  );
  assertEquals(options, [
    { include_usage: true },
    { include_usage: true },
    { include_usage: true },
    { include_usage: true, x: 1 },
    5,
  ]);
});

/** A protocol whose items contain several results and user texts. */
const BLOCKS: Protocol = {
  ...CHAT_PROTOCOL,
  name: "blocks",
  readItem(value) {
    const { blocks } = asRecord(value) ?? {};
    if (!Array.isArray(blocks)) return [];
    return blocks.map(({ of, text }, at): ItemPart => ({
      message: of === undefined
        ? { role: "user", content: text }
        : { role: "tool", tool_call_id: of, content: text },
      at: ["blocks", at],
      ...(of !== undefined && { text: ["blocks", at, "text"] }),
    }));
  },
  writeMessage: ({ content }) => JSON.stringify({ line: content }),
};

Deno.test("writeRequest() edits the parts of an item individually", () => {
  const one = '{ "blocks": [{"of":"1","text":"A"}, {"of":"2","text":"B"}, {"text":"Thanks."}], "n":1.0 }';
  const two = '{"blocks":[{"of":"3","text":"C"}]}';
  const request = requestOf(`{"model":"m","messages":[${one},${two}]}`, BLOCKS);
  const items = (prompt: Parameters<typeof writeRequest>[1]) =>
    decode(writeRequest(request, prompt)).slice(25, -2);
  assertEquals(items(visible(request)), `${one},${two}`);
  assertEquals(
    items(visible(request, { 1: { content: "[2]" }, 3: { content: "[3]" } })),
    `${one.replace('"B"', '"[2]"')},${two.replace('"C"', '"[3]"')}`,
  );
  assertEquals(
    items(visible(request, { 0: null, 1: null })),
    `{ "blocks": [{"text":"Thanks."}], "n":1.0 },${two}`,
  );
  assertEquals(
    items(visible(request, { 1: null, 2: null, 3: null })),
    '{ "blocks": [{"of":"1","text":"A"}], "n":1.0 }',
  );
  const { messages, ...prompt } = visible(request, { 1: null });
  const line: Message = { role: "user", content: "gone" };
  const lined = { ...prompt, messages: [messages[0]!, line, ...messages.slice(1)], places: [0, -1, 2, 3] };
  assertEquals(
    items(lined),
    `${one.replace(' {"of":"2","text":"B"},', "")},{"line":"gone"},${two}`,
  );
});

Deno.test("writeRequest() throws for a change that an item doesn't support", () => {
  const request = requestOf({ model: "m", messages: [{ blocks: [{ text: "a" }] }] }, BLOCKS);
  const prompt = visible(request, { 0: { content: "b" } });
  assertThrows(() => writeRequest(request, prompt), UnknownShape, "a changed message");
});

Deno.test("anchorOf() returns equal anchors for all spellings", () => {
  const call = { id: "c1", type: "function", function: { name: "f", arguments: "{}" } } as const;
  const anchor = anchorOf({ role: "assistant", content: "Hi ", tool_calls: [call] });
  const again = {
    role: "assistant",
    content: [{ type: "text", text: "Hi" }],
    tool_calls: [call],
    refusal: null,
  } as const;
  assertEquals(anchorOf(again), anchor);
  assertNotEquals(anchorOf({ role: "assistant", content: "Hi" }), anchor);
  assertNotEquals(anchorOf({ role: "user", content: "Hi" }), anchorOf({ role: "assistant", content: "Hi" }));
});
