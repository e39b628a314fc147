import { assertEquals } from "@std/assert";
import type { Message } from "@tare/messages";
import { countInSlices } from "./count_in_slices.ts";

Deno.test("countInSlices() counts each message once, and never again", async () => {
  const counted: string[] = [];
  const count = (text: string) => counted.push(text);
  const items = ["a", "b"].map((content) => ({ key: content, value: { role: "user", content } as Message }));
  await countInSlices({ items }, count);
  await countInSlices({ items }, count);
  assertEquals(counted, ["a", "b"]);
});
