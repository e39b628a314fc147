import { assertEquals } from "@std/assert";
import { remaining } from "./progress_bar.ts";

Deno.test("remaining() estimates the time from the share that is done", () => {
  assertEquals(remaining(0.5, 1_000), "");
  assertEquals(remaining(0, 60_000), "");
  assertEquals(remaining(1, 60_000), "");
  assertEquals(remaining(0.25, 4_000), ", about 12 s left");
  assertEquals(remaining(0.1, 60_000), ", about 9 min left");
});
