import { assert, assertEquals, assertRejects } from "@std/assert";
import { bodyPieces, eventText, GrowingBytes } from "@tare/wire/internal/sse";
import { joinBytes } from "./json.ts";
import { MAX_EVENT_BYTES, splitEvents, SseSplitter } from "./sse.ts";

const encode = (text: string) => new TextEncoder().encode(text);
const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
const STREAM = ': hello\n\ndata: {"a":1}\n\nevent: b\r\ndata:x\r\ndata: y\r\n\r\ndata: ü\n\ndata: cut';

Deno.test("SseSplitter splits at the ends of events in any chunking", () => {
  const bytes = encode(STREAM);
  for (let size = 1; size <= bytes.length; size++) {
    const splitter = new SseSplitter();
    const cuts: Uint8Array<ArrayBuffer>[] = [];
    for (let at = 0; at < bytes.length; at += size) cuts.push(splitter.cut(bytes.subarray(at, at + size)));
    const rest = splitter.end();
    const data = cuts.flatMap((cut) => splitEvents(cut).map(({ data }) => data));
    assertEquals(data, [undefined, '{"a":1}', "x\ny", "ü"]);
    assertEquals([rest?.data, splitter.end()], ["cut", undefined]);
    assertEquals(decode(joinBytes([...cuts, rest!.bytes])), STREAM);
  }
});

Deno.test("splitEvents() preserves each byte", () => {
  assertEquals(splitEvents(encode(STREAM)).map(({ bytes }) => decode(bytes)).join(""), STREAM);
});

Deno.test("SseSplitter skips line feeds that end no event", () => {
  for (const stream of ["\n", "\nabc", "\r\n\n\n", "\n\n\n\nx", "a\n\n\n"]) {
    const bytes = encode(stream);
    for (let size = 1; size <= bytes.length; size++) {
      const splitter = new SseSplitter();
      const cuts: Uint8Array<ArrayBuffer>[] = [];
      for (let at = 0; at < bytes.length; at += size) cuts.push(splitter.cut(bytes.subarray(at, at + size)));
      assertEquals(decode(joinBytes([...cuts, splitter.end()?.bytes ?? new Uint8Array()])), stream);
    }
  }
});

Deno.test("SseSplitter reports a too long event in one or several pieces, and loses no bytes", () => {
  const event = (bytes: number) => `data: ${"x".repeat(bytes - "data: \n\n".length)}\n\n`;
  const excess = (longest: number, size = Infinity) => {
    const splitter = new SseSplitter();
    const bytes = encode(`data: 1\n\n${event(longest)}data: 2\n\n`);
    const cuts: Uint8Array<ArrayBuffer>[] = [];
    for (let at = 0; at < bytes.length; at += size) cuts.push(splitter.cut(bytes.subarray(at, at + size)));
    assertEquals(joinBytes(cuts), bytes);
    return splitter.excess;
  };
  for (const size of [65_536, 1_000_001, Infinity]) {
    assertEquals(excess(MAX_EVENT_BYTES, size), undefined);
    assertEquals(excess(MAX_EVENT_BYTES + 1, size), "one of its events has more than 16 MiB");
  }
});

Deno.test("SseSplitter reports a too long stream", () => {
  const splitter = new SseSplitter();
  const event = encode(`data: ${"x".repeat(2 ** 20 - "data: \n\n".length)}\n\n`);
  for (let mebibytes = 0; mebibytes < 128; mebibytes++) assertEquals(splitter.cut(event), event);
  assertEquals(splitter.excess, undefined);
  splitter.cut(encode("\n"));
  assertEquals(splitter.excess, "its stream has more than 128 MiB");
});

Deno.test("SseSplitter accepts other limits", () => {
  const splitter = new SseSplitter({ maxEventBytes: 10, maxStreamBytes: Infinity });
  assertEquals(splitter.events(encode("data: 1\n\ndata: 2\n\n")).map(({ data }) => data), ["1", "2"]);
  assertEquals([splitter.events(encode("data: 3456\n\n")), splitter.excess !== undefined], [[], true]);
});

Deno.test("eventText() writes what SseSplitter reads", () => {
  const messages = [{ data: "[DONE]" }, { event: "note", data: '{"a":"ü"}' }, { id: 7, data: "x" }];
  const bytes = encode("\ufeff" + messages.map(eventText).join(""));
  assertEquals(
    new SseSplitter().events(bytes).map(({ name, id, data }) => ({ name, id, data })),
    messages.map(({ id, event, data }) => ({
      name: event,
      id: id === undefined ? undefined : String(id),
      data,
    })),
  );
});

Deno.test("GrowingBytes returns added bytes in order, once", () => {
  const bytes = new GrowingBytes();
  for (let at = 0; at < 1_000; at++) bytes.add(new Uint8Array([at % 256]));
  bytes.add(new Uint8Array());
  bytes.add(new Uint8Array([7, 8]));
  assertEquals([bytes.length, bytes.at(0), bytes.at(-1), bytes.at(1_001), bytes.at(1_002)], [
    1_002,
    0,
    8,
    8,
    undefined,
  ]);
  const expected = Uint8Array.from({ length: 1_002 }, (_, at) => at < 1_000 ? at % 256 : at - 993);
  assertEquals([bytes.take(), bytes.length, bytes.take(), bytes.at(-1)], [
    expected,
    0,
    new Uint8Array(),
    undefined,
  ]);
});

const TEXT = "A word, and the next one. ".repeat(20_000);

async function read(body: ReadableStream<Uint8Array<ArrayBuffer>> | null) {
  const decoder = new TextDecoder();
  const lengths = new Set<number>();
  let text = "";
  for await (const piece of bodyPieces(body)) {
    text += decoder.decode(piece, { stream: true });
    lengths.add(piece.buffer.byteLength);
  }
  return { text: text + decoder.decode(), lengths };
}

Deno.test("bodyPieces() yields a byte stream in memory of constant size", async () => {
  const bytes = new TextEncoder().encode(TEXT);
  let at = 0;
  const body = new ReadableStream({
    type: "bytes",
    pull(controller) {
      if (at < bytes.length) controller.enqueue(bytes.slice(at, at += 50_000));
      else {
        controller.close();
        controller.byobRequest?.respond(0);
      }
    },
  });
  const { text, lengths } = await read(body);
  assertEquals(text, TEXT);
  assertEquals([...lengths], [16_384]);
});

Deno.test("bodyPieces() yields the pieces of another stream, and nothing without a body", async () => {
  const pieces = ["one", "", "two"].map((text) => new TextEncoder().encode(text));
  const made = new ReadableStream({
    start(controller) {
      for (const piece of pieces) controller.enqueue(piece);
      controller.close();
    },
  });
  assertEquals((await read(made)).text, "onetwo");
  assertEquals((await read(null)).text, "");
});

function waiting() {
  const seen = { isCancelled: false };
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
    start: (controller) => controller.enqueue(new Uint8Array([1])),
    cancel: () => void (seen.isCancelled = true),
  });
  return { body, seen };
}

Deno.test("bodyPieces() ends when aborted, also while waiting, and cancels an unfinished body", async () => {
  const stopped = new AbortController();
  const { body, seen } = waiting();
  const pieces = bodyPieces(body, stopped.signal);
  assertEquals((await pieces.next()).value, new Uint8Array([1]));
  const next = pieces.next();
  stopped.abort();
  assertEquals((await next).done, true);
  assert(seen.isCancelled);
  const other = waiting();
  for await (const _ of bodyPieces(other.body)) break;
  assert(other.seen.isCancelled);
});

Deno.test("bodyPieces() rejects with the body's error", async () => {
  const body = new ReadableStream({ pull: (controller) => controller.error(new TypeError("broken off")) });
  await assertRejects(() => read(body), TypeError, "broken off");
});
