import { assertEquals } from "@std/assert";
import { usualMaxConnections } from "./listen.ts";

Deno.test("usualMaxConnections() returns half of the descriptors", async () => {
  const { stdout } = await new Deno.Command("sh", { args: ["-c", "ulimit -n"] }).output();
  const descriptors = Number(new TextDecoder().decode(stdout)) || Infinity;
  assertEquals(await usualMaxConnections(), Math.min(10_000, Math.floor(descriptors / 2)));
});
