import { assertEquals, assertGreaterOrEqual } from "@std/assert";
import { systemClock } from "./clock.ts";

Deno.test("systemClock fires once after its time, and not when it is told not to", async () => {
  const fired: string[] = [];
  const before = systemClock.now();
  systemClock.after(1, () => fired.push("cancelled"))();
  await new Promise<void>((resolve) => systemClock.after(2, resolve));
  assertGreaterOrEqual(systemClock.now(), before);
  assertEquals(fired, []);
});
