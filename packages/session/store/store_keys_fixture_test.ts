/**
 * Tests of idempotency keys, for any store.
 * @module
 */
import { assertEquals, assertRejects } from "@std/assert";
import { DAY_MS, key, other, request, type TestOfStore } from "./store_suite_fixture_test.ts";

export function testKeys(test: TestOfStore): void {
  test("claimKey() returns new, running, done with the response, and mismatch", async (store) => {
    assertEquals(await store.claimKey(request), { state: "new" });
    assertEquals(await store.claimKey(request), { state: "running" });
    assertEquals(await store.claimKey(other), { state: "mismatch" });
    await store.commit([{ type: "response", ...key, response: { status: 201 } }]);
    assertEquals(await store.claimKey(request), { state: "done", response: { status: 201 } });
    assertEquals(await store.claimKey(other), { state: "mismatch" });
    assertEquals(await store.claimKey({ ...request, scope: "POST /v1/responses" }), { state: "new" });
  });

  test("releaseKey() releases a failed request's key, but no completed one", async (store) => {
    await store.releaseKey(key);
    await store.claimKey(request);
    await store.releaseKey(key);
    assertEquals(await store.claimKey(other), { state: "new" });
    await store.commit([{ type: "response", ...key, response: null }]);
    await store.releaseKey(key);
    assertEquals(await store.claimKey(other), { state: "done", response: null });
  });

  test("commit() refuses a response to an unclaimed key or of a missing session", async (store) => {
    const respond = (sessionId?: string) =>
      store.commit([{
        type: "response",
        ...key,
        response: 1,
        ...(sessionId !== undefined && { sessionId }),
      }]);
    const message = 'Cannot complete idempotency key "k" of POST /tare/v1/sessions: it isn\'t claimed';
    await assertRejects(() => respond(), Error, message);
    await store.claimKey(request);
    await assertRejects(() => respond("none"), Error, 'Cannot find session "none"');
    assertEquals(await store.claimKey(request), { state: "running" });
    await respond("a");
    await assertRejects(() => respond(), Error, message);
  });

  test(
    "claimKey() returns interrupted once if an earlier process ended before completion",
    async (store, open) => {
      await store.claimKey(request);
      await store.close();
      const later = await open();
      const respond = () => later.commit([{ type: "response", ...key, response: 1 }]);
      await assertRejects(respond, Error, "it isn't claimed");
      await later.releaseKey(key);
      assertEquals(await later.claimKey(other), { state: "mismatch" });
      assertEquals(await later.claimKey(request), { state: "interrupted" });
      assertEquals(await later.claimKey(request), { state: "running" });
      await respond();
      assertEquals(await later.claimKey(request), { state: "done", response: 1 });
      await later.close();
    },
  );

  test(
    "claimKey() returns new once if an earlier process ended before its atomic commit",
    async (store, open) => {
      const atomic = { ...request, isAtomic: true };
      await store.claimKey(atomic);
      await store.close();
      const later = await open();
      assertEquals(await later.claimKey({ ...other, isAtomic: true }), { state: "mismatch" });
      assertEquals(await later.claimKey(atomic), { state: "new" });
      assertEquals(await later.claimKey(atomic), { state: "running" });
      await later.commit([{ type: "response", ...key, response: 1 }]);
      assertEquals(await later.claimKey(atomic), { state: "done", response: 1 });
      await later.close();
    },
  );

  let nowMs = 0;
  test("claimKey() expires a key a day after its response, but never a running one", async (store) => {
    await store.claimKey(request);
    nowMs = 2 * DAY_MS;
    assertEquals(await store.claimKey(request), { state: "running" });
    await store.commit([{ type: "response", ...key, response: 1 }]);
    nowMs += DAY_MS - 1;
    assertEquals(await store.claimKey(request), { state: "done", response: 1 });
    nowMs += 1;
    assertEquals(await store.claimKey(other), { state: "new" });
  }, { now: () => nowMs });

  test("claimKey() drops a response with its session", async (store) => {
    await store.claimKey(request);
    await store.commit([{ type: "response", ...key, response: 1, sessionId: "a" }]);
    assertEquals([await store.deleteSession("b"), await store.deleteSession("b")], [true, false]);
    assertEquals(await store.claimKey(request), { state: "done", response: 1 });
    await store.deleteSession("a");
    assertEquals(await store.claimKey(request), { state: "new" });
  });
}
