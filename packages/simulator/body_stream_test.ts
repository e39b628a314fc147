import { assertEquals, assertRejects } from "@std/assert";
import { bodyStream } from "./body_stream.ts";

Deno.test("bodyStream() sends all texts and ends", async () => {
  assertEquals(await new Response(bodyStream(["a", "", "ü"])).text(), "aü");
});

Deno.test("bodyStream() sends what it has before the connection is reset", async () => {
  const reader = bodyStream(["a", "b"], "reset").pipeThrough(new TextDecoderStream()).getReader();
  assertEquals([(await reader.read()).value, (await reader.read()).value], ["a", "b"]);
  await assertRejects(() => reader.read(), Error, "reset the connection");
});

Deno.test("bodyStream() stalls until the reader gives up", async () => {
  const reader = bodyStream(["a"], "stall").getReader();
  await reader.read();
  const next = reader.read();
  await reader.cancel();
  assertEquals((await next).done, true);
});
