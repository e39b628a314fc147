import { assertEquals, assertRejects } from "@std/assert";
import { lazily } from "./lazily.ts";

Deno.test("lazily() computes a value once, on the first call, and retries after a failure", async () => {
  let made = 0;
  const value = lazily(() => ++made === 1 ? Promise.reject(new Error("not yet")) : Promise.resolve(made));
  assertEquals(made, 0);
  await assertRejects(value, Error, "not yet");
  assertEquals(await Promise.all([value(), value()]), [2, 2]);
  assertEquals(made, 2);
});
