import { assertEquals, assertRejects } from "@std/assert";
import { HttpError } from "@tare/server";
import { LINES, readLines } from "./read_lines.ts";

function post(body: BodyInit): Request {
  return new Request("http://localhost/", { method: "POST", body, headers: { "content-type": LINES } });
}

Deno.test("readLines() gives the text and its bytes, and refuses what isn't UTF-8", async () => {
  assertEquals(await readLines(post("{}\né"), 10), {
    value: "{}\né",
    bytes: new TextEncoder().encode("{}\né"),
  });
  const error = await assertRejects(() => readLines(post(new Uint8Array([0xff])), 10), HttpError);
  assertEquals([error.status, error.message], [400, "Cannot read the body: it isn't UTF-8."]);
});
