import { assert } from "@std/assert";
import { measureRouting, ROUTING_SCENE } from "./cache_routing.ts";

Deno.test("cache routing: a provider of eight machines serves a client without a key at random, and from one cache through Tare", async () => {
  const straight = await measureRouting({ ...ROUTING_SCENE, throughTare: false });
  const throughTare = await measureRouting({ ...ROUTING_SCENE, throughTare: true });
  assert(straight < 0.8, `straight: ${straight}`);
  assert(throughTare >= 0.95, `through Tare: ${throughTare}`);
});
