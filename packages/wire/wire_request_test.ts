import { assertEquals } from "@std/assert";
import { CHAT_FORMAT } from "./chat/chat_format.ts";
import { KnownJson } from "./known_json.ts";
import { askForUsage, joinArray, readWireBody, readWireRequest, withFields } from "./wire_request.ts";

const encode = (text: string) => new TextEncoder().encode(text);
const decode = (bytes?: Uint8Array) => bytes && new TextDecoder().decode(bytes);

Deno.test("readWireRequest() reads messages and tools, known ones as the same objects", () => {
  const known = {
    messages: new KnownJson<never>({ maxBytes: 1000 }),
    tools: new KnownJson<never>({ maxBytes: 1000 }),
  };
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
