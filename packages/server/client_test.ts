import { assertEquals, assertThrows } from "@std/assert";
import { eventParser, RefusedError } from "./client.ts";

const TEXT = ': heartbeat\n\nid: 1\ndata: {"a":"b: c"}\n\nevent: note\n\nid: 2\ndata: {"a":"ü"}\n\n';

Deno.test("eventParser() gives the same events wherever a stream is cut", () => {
  const wanted = [{ number: 1, event: { a: "b: c" } }, { number: 2, event: { a: "ü" } }];
  assertEquals(eventParser()(TEXT), wanted);
  for (let cut = 0; cut <= TEXT.length; cut++) {
    const parse = eventParser();
    assertEquals([...parse(TEXT.slice(0, cut)), ...parse(TEXT.slice(cut))], wanted);
  }
  const parse = eventParser();
  assertEquals([...TEXT].flatMap((letter) => parse(letter)), wanted);
});

Deno.test("eventParser() throws what the server tells of", () => {
  const told = 'event: error\ndata: {"error":{"status":404,"code":"not_found","message":"It is gone."}}\n\n';
  const error = assertThrows(() => eventParser()(told), RefusedError, "It is gone.");
  assertEquals(error.status, 404);
});
