import { assertEquals, assertRejects } from "@std/assert";
import { HttpError } from "@tare/server";
import { readBody } from "./read_body.ts";

function post(body: BodyInit | null, type?: string): Request {
  const headers = type === undefined ? {} : { "content-type": type };
  return new Request("http://localhost/", { method: "POST", body, headers });
}

Deno.test("readBody() reads a body of the type that is wanted, whatever its parameters, and an empty one of any", async () => {
  const limits = { maxBytes: 2, type: "text/plain" };
  assertEquals(await readBody(post("ab", "Text/Plain; charset=utf-8"), limits), new Uint8Array([97, 98]));
  assertEquals(await readBody(post(null), limits), new Uint8Array());
  const refused = async (body: BodyInit, type: string) =>
    (await assertRejects(() => readBody(post(body, type), limits), HttpError)).status;
  assertEquals([await refused("abc", "text/plain"), await refused("ab", "text/plain+x")], [413, 415]);
});
