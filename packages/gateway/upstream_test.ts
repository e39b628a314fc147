import { assertEquals } from "@std/assert";
import { answerHeaders, passOn, upstreamHeaders, warned } from "./upstream.ts";

Deno.test("upstreamHeaders() keeps what is the upstream's business", () => {
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

Deno.test("answerHeaders() leaves out what belongs to the connection", () => {
  const headers = {
    "content-encoding": "gzip",
    "content-length": "3",
    "x-request-id": "r",
    "set-cookie": "a=b",
  };
  assertEquals([...answerHeaders(new Response(null, { headers }))], [["x-request-id", "r"]]);
});

Deno.test("upstreamHeaders() and answerHeaders() leave out what a message names in Connection", () => {
  const headers = { connection: "close, X-Hop, x-other", "x-hop": "1", "X-Other": "2", "x-end": "3" };
  const request = new Request("http://localhost/", { headers });
  assertEquals([...upstreamHeaders(request, {})], [["x-end", "3"]]);
  assertEquals([...answerHeaders(new Response(null, { headers }))], [["x-end", "3"]]);
});

Deno.test("answerHeaders() asks proxies to pass events on at once", () => {
  const headers = { "content-type": "text/event-stream; charset=utf-8" };
  assertEquals([...answerHeaders(new Response(null, { headers }))], [
    ["content-type", "text/event-stream; charset=utf-8"],
    ["x-accel-buffering", "no"],
  ]);
});

Deno.test("passOn() gives status, headers and bytes as they are, and tells when the reader leaves", async () => {
  const abort = new AbortController();
  const response = passOn(new Response("abc", { status: 418, headers: { a: "b" } }), abort, { c: "d" });
  assertEquals([response.status, response.headers.get("a"), response.headers.get("c")], [418, "b", "d"]);
  assertEquals(await response.text(), "abc");
  await passOn(new Response("abc"), abort).body?.cancel();
  assertEquals([abort.signal.aborted, passOn(new Response(null, { status: 204 }), abort).body], [true, null]);
});

Deno.test("warned() makes a header of any sentence", () => {
  assertEquals([warned(undefined), warned("a\nü")], [{}, { "x-tare-warning": "a " }]);
});
