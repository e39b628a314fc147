import { assertEquals } from "@std/assert";
import { passOn, warned } from "./pass_on.ts";

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
