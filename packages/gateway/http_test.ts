import { assert, assertEquals, assertRejects } from "@std/assert";
import { answerHeaders, passOn, upstreamHeaders, warned } from "./http.ts";
import { readBody } from "@tare/gateway/internal";
import { ApiError } from "@tare/wire/internal";

Deno.test("upstreamHeaders() retains the headers for the upstream", () => {
  const request = new Request("http://localhost/", {
    headers: {
      authorization: "Bearer a",
      "x-tare": "off",
      cookie: "c",
      "openai-beta": "b",
      "x-forwarded-for": "1",
    },
  });
  const names = (headers: Headers) => [...headers].map(([name, value]) => `${name}: ${value}`);
  assertEquals(names(upstreamHeaders(request, {})), [
    "authorization: Bearer a",
    "openai-beta: b",
  ]);
  assertEquals(names(upstreamHeaders(request, { apiKey: "k" })), [
    "authorization: Bearer k",
    "openai-beta: b",
  ]);
});

Deno.test("answerHeaders() omits headers of the connection", () => {
  const headers = {
    "content-encoding": "gzip",
    "content-length": "3",
    "x-request-id": "r",
    "set-cookie": "a=b",
  };
  assertEquals([...answerHeaders(new Response(null, { headers }))], [["x-request-id", "r"]]);
});

Deno.test("upstreamHeaders() and answerHeaders() omit headers named by Connection", () => {
  const headers = { connection: "close, X-Hop, x-other", "x-hop": "1", "X-Other": "2", "x-end": "3" };
  const request = new Request("http://localhost/", { headers });
  assertEquals([...upstreamHeaders(request, {})], [["x-end", "3"]]);
  assertEquals([...answerHeaders(new Response(null, { headers }))], [["x-end", "3"]]);
});

Deno.test("answerHeaders() disables buffering of events by proxies", () => {
  const headers = { "content-type": "text/event-stream; charset=utf-8" };
  assertEquals([...answerHeaders(new Response(null, { headers }))], [
    ["content-type", "text/event-stream; charset=utf-8"],
    ["x-accel-buffering", "no"],
  ]);
});

Deno.test("passOn() returns status, headers and bytes unchanged, and aborts when the reader cancels", async () => {
  const abort = new AbortController();
  const response = passOn(new Response("abc", { status: 418, headers: { a: "b" } }), abort, { c: "d" });
  assertEquals([response.status, response.headers.get("a"), response.headers.get("c")], [418, "b", "d"]);
  assertEquals(await response.text(), "abc");
  await passOn(new Response("abc"), abort).body?.cancel();
  assertEquals([abort.signal.aborted, passOn(new Response(null, { status: 204 }), abort).body], [true, null]);
});

Deno.test("warned() returns a valid header for any text", () => {
  assertEquals([warned(undefined), warned("a\nü")], [{}, { "x-tare-warning": "a " }]);
});

function sent(...pieces: readonly Uint8Array<ArrayBuffer>[]): Request {
  return new Request("http://localhost/", { method: "POST", body: ReadableStream.from(pieces) });
}

const piece = (length: number) => new Uint8Array(length).fill(0x20);

Deno.test("readBody() returns a single piece without a copy, and copies several once", async () => {
  const whole = piece(10);
  assertEquals(await readBody(sent(whole), { maxBytes: 10 }) === whole, true);
  assertEquals((await readBody(sent(piece(4), piece(6)), { maxBytes: 10 }))?.length, 10);
  assertEquals(await readBody(new Request("http://localhost/"), { maxBytes: 10 }), new Uint8Array());
});

Deno.test("readBody() requests a long body's limit with its first piece, then with all pieces", async () => {
  const requests: number[] = [];
  const read = (limits: readonly (number | undefined)[]) => {
    requests.length = 0;
    const limit = (begin: Uint8Array) => limits[requests.push(begin.length) - 1];
    return readBody(sent(piece(4), piece(4), piece(4), piece(4)), {
      maxBytes: 20,
      early: { bytes: 6, limit },
    });
  };
  assertEquals([(await read([undefined, undefined]))?.length, [...requests]], [16, [4, 8]]);
  assertEquals([(await read([undefined, 16]))?.length, [...requests]], [16, [4, 8]]);
  assertEquals([(await read([18]))?.length, [...requests]], [16, [4]]);
  const refused = await assertRejects(() => read([6]), ApiError, "it has more than 6 bytes");
  assertEquals([refused.status, requests], [413, [4]]);
});

Deno.test("readBody() leaves a body of unknown encoding unread", async () => {
  const headers = { "content-encoding": "snappy" };
  const request = new Request("http://localhost/", { method: "POST", body: "x", headers });
  assertEquals(await readBody(request, { maxBytes: 10 }), undefined);
  assert(!request.bodyUsed);
  assertEquals(await request.text(), "x");
});
