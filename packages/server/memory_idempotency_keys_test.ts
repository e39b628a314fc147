import { assertEquals, assertThrows } from "@std/assert";
import { memoryIdempotencyKeys } from "@tare/server";

const key = { scope: "a", key: "k" };

Deno.test("memoryIdempotencyKeys() claims, completes and releases keys, each in its scope", () => {
  const keys = memoryIdempotencyKeys();
  const other = { ...key, scope: "b" };
  assertEquals(keys.claim({ ...key, bodyHash: "1" }), { state: "new" });
  assertEquals(keys.claim({ ...other, bodyHash: "1" }), { state: "new" });
  assertEquals(keys.claim({ ...key, bodyHash: "1" }), { state: "running" });
  assertEquals(keys.claim({ ...key, bodyHash: "2" }), { state: "mismatch" });
  keys.complete(key, { response: { status: 200 } });
  assertEquals(keys.claim({ ...key, bodyHash: "1" }), { state: "done", response: { status: 200 } });
  assertEquals(keys.claim({ ...key, bodyHash: "2" }), { state: "mismatch" });
  keys.release(other);
  assertEquals(keys.claim({ ...other, bodyHash: "2" }), { state: "new" });
  assertThrows(
    () => keys.complete({ ...key, key: "new" }, { response: 1 }),
    Error,
    'Cannot keep the response to ["a","new"]: nobody has claimed it.',
  );
});

Deno.test("memoryIdempotencyKeys() forgets the oldest responses over its limit, and never a running key", () => {
  const keys = memoryIdempotencyKeys(3);
  const claim = (name: string) => keys.claim({ scope: "s", key: name, bodyHash: "1" }).state;
  claim("running");
  for (const name of ["a", "b", "c"]) {
    claim(name);
    keys.complete({ scope: "s", key: name }, { response: name });
  }
  assertEquals(["running", "b", "c", "a"].map(claim), ["running", "done", "done", "new"]);
});
