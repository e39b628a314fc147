import { assertEquals } from "@std/assert";
import { joinBytes } from "./json_spans.ts";
import { splitEvents, SseSplitter, type StreamLimits } from "./sse_splitter.ts";

const encode = (text: string) => new TextEncoder().encode(text);
const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
const STREAM = ': hello\n\ndata: {"a":1}\n\nevent: b\r\ndata:x\r\ndata: y\r\n\r\ndata: ü\n\ndata: cut';

Deno.test("SseSplitter cuts at the ends of events, wherever the pieces of the stream end", () => {
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

Deno.test("splitEvents() keeps each byte", () => {
  assertEquals(splitEvents(encode(STREAM)).map(({ bytes }) => decode(bytes)).join(""), STREAM);
});

Deno.test("SseSplitter passes line feeds that end nothing", () => {
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

Deno.test("SseSplitter says what is too long, whether it comes in pieces or at once, and loses nothing", () => {
  const stream = `data: 1\n\ndata: ${"x".repeat(2_000)}\n\ndata: 2\n\n`;
  const excess = (size: number, limits: StreamLimits) => {
    const splitter = new SseSplitter(limits);
    const bytes = encode(stream);
    const cuts: Uint8Array<ArrayBuffer>[] = [];
    for (let at = 0; at < bytes.length; at += size) cuts.push(splitter.cut(bytes.subarray(at, at + size)));
    assertEquals(decode(joinBytes(cuts)), stream);
    return splitter.excess;
  };
  for (const size of [1, 100, stream.length]) {
    assertEquals(excess(size, { maxEventBytes: 2_008 }), undefined);
    assertEquals(excess(size, { maxEventBytes: 2_000 }), "one of its events has more than 0 MiB");
    assertEquals(excess(size, { maxBytes: stream.length }), undefined);
    assertEquals(excess(size, { maxBytes: 2_020 }), "its stream has more than 0 MiB");
  }
});
