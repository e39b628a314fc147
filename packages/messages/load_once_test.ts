import { assertEquals, assertRejects, assertStrictEquals } from "@std/assert";
import { loadOnce } from "./load_once.ts";

Deno.test("loadOnce() loads each key once and hands out the same promise", async () => {
  const loaded: string[] = [];
  const load = loadOnce((key: string) => Promise.resolve((loaded.push(key), key.toUpperCase())));
  const [first, second] = [load("a"), load("a")];
  assertStrictEquals(first, second);
  assertEquals(await Promise.all([first, load("b"), load("a")]), ["A", "B", "A"]);
  assertEquals(loaded, ["a", "b"]);
});

Deno.test("loadOnce() forgets a load that failed", async () => {
  const replies = [Promise.reject(new Error("offline")), Promise.resolve("table")];
  const load = loadOnce((_: string) => replies.shift() ?? Promise.reject(new Error("asked too often")));
  await assertRejects(() => load("a"), Error, "offline");
  assertEquals([await load("a"), await load("a")], ["table", "table"]);
});
