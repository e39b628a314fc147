import { assertEquals } from "@std/assert";
import { answerHeaders, upstreamHeaders } from "./upstream.ts";

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
  assertEquals(names(upstreamHeaders(request, { clientKeys: true })), [
    "authorization: Bearer a",
    "openai-beta: b",
  ]);
  assertEquals(names(upstreamHeaders(request, { clientKeys: false })), ["openai-beta: b"]);
  assertEquals(names(upstreamHeaders(request, { clientKeys: false, apiKey: "k" })), [
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
