import { assertEquals } from "@std/assert";
import { connectionLimits } from "./listen.ts";

Deno.test("connectionLimits() takes half of the descriptors for connections, unless a number is set", async () => {
  const { stdout } = await new Deno.Command("sh", { args: ["-c", "ulimit -n"] }).output();
  const descriptors = Number(new TextDecoder().decode(stdout)) || Infinity;
  assertEquals(await connectionLimits(), {
    maxConnections: Math.min(10_000, Math.floor(descriptors / 2)),
    idleMs: 60_000,
    requestMs: 300_000,
    maxInFlightBytes: 67_108_864,
  });
  assertEquals((await connectionLimits({ maxConnections: 7 })).maxConnections, 7);
});
