import { assertEquals } from "@std/assert";
import { joinBytes } from "./json_spans.ts";
import { splitEvents, SseSplitter } from "./sse_splitter.ts";

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
