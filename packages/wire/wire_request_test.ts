import { assertEquals } from "@std/assert";
import type { Message, ToolDefinition } from "@tare/messages";
import {
  askForUsage,
  CHAT_FORMAT,
  joinArray,
  type JsonReader,
  type KnownPiece,
  readJsonAt,
  readWireBody,
  readWireRequest,
  withFields,
} from "@tare/wire";

const encode = (text: string) => new TextEncoder().encode(text);
const decode = (bytes?: Uint8Array) => bytes && new TextDecoder().decode(bytes);

function remembering<T>(): JsonReader<T> {
  const pieces = new Map<string, KnownPiece<T>>();
  return {
    read(bytes, { start, end, kind, read }) {
      const key = kind + decode(bytes.subarray(start, end));
      const piece = pieces.get(key) ?? { key, value: read(readJsonAt(bytes, { start, end })) };
      pieces.set(key, piece);
      return piece;
    },
  };
}

Deno.test("readWireRequest() reads messages and tools, known ones as the same objects", () => {
  const known = { messages: remembering<Message>(), tools: remembering<ToolDefinition | undefined>() };
  const read = (text: string) => readWireRequest(readWireBody(encode(text)), CHAT_FORMAT, known);
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
  assertEquals(one.items[0] === two.items[0], true);
});

Deno.test("withFields() changes fields, adds others in front, and nothing else", () => {
  const body = readWireBody(encode('{ "a":1.0, "b" : [2],"c":3}'));
  const values = new Map([["b", joinArray([encode("1"), encode("2")])], ["new", encode("0")]]);
  assertEquals(decode(withFields(body, values)), '{"new":0, "a":1.0, "b" : [1,2],"c":3}');
});

Deno.test("askForUsage() asks where nobody has", () => {
  const asked = (options: string) =>
    decode(askForUsage(readWireBody(encode(`{"stream_options":${options}}`))));
  assertEquals(decode(askForUsage(readWireBody(encode("{}")))), '{"include_usage":true}');
  assertEquals(["null", "{}", '{"include_usage":true}', '{"x":1.0}', "5"].map(asked), [
    '{"include_usage":true}',
    '{"include_usage":true}',
    undefined,
    '{"include_usage":true,"x":1.0}',
    undefined,
  ]);
});
