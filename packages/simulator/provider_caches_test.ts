import { assertEquals, assertNotStrictEquals, assertStrictEquals } from "@std/assert";
import { profileNamed } from "@tare/planner";
import { ProviderCaches } from "./provider_caches.ts";

Deno.test("ProviderCaches.of() gives each key and model its own cache", () => {
  const caches = new ProviderCaches(profileNamed("local"));
  assertStrictEquals(caches.of("a", "m"), caches.of("a", "m"));
  assertNotStrictEquals(caches.of("a", "m"), caches.of("b", "m"));
  assertNotStrictEquals(caches.of("a", "m"), caches.of("a", "n"));
});

Deno.test("ProviderCaches.of() forgets the cache that was not used for longest", () => {
  const caches = new ProviderCaches(profileNamed("local"));
  const prompt = [{ hash: 1, tokens: 16 }, { hash: 2, tokens: 16 }];
  for (let key = 0; key < 16; key++) caches.of(`${key}`, "m").store(prompt, 0);
  caches.of("0", "m");
  caches.of("new", "m");
  assertEquals(["0", "2", "1"].map((key) => caches.of(key, "m").lookup(prompt, 0)), [16, 16, 0]);
});
