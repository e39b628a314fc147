import { assertEquals } from "@std/assert";
import { connectionLimits } from "./limits.ts";

Deno.test("connectionLimits() takes half of the descriptors for connections, unless it is told how many", async () => {
  const waits = { idleSeconds: 1, requestSeconds: 2 };
  const { stdout } = await new Deno.Command("sh", { args: ["-c", "ulimit -n"] }).output();
  const descriptors = Number(new TextDecoder().decode(stdout)) || Infinity;
  assertEquals(await connectionLimits(waits), {
    maxConnections: Math.min(10_000, Math.floor(descriptors / 2)),
    idleMs: 1000,
    requestMs: 2000,
  });
  assertEquals((await connectionLimits({ ...waits, maxConnections: 7 })).maxConnections, 7);
});
