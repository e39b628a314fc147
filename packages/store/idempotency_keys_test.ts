import { assertEquals, assertThrows } from "@std/assert";
import { openStore } from "@tare/store";
import { withStore } from "./fixture_test.ts";

const DAY_MS = 24 * 60 * 60 * 1000;
const key = { scope: "POST /v1/sessions", key: "k" };
const request = { ...key, bodyHash: "h" };

Deno.test("claim() says new, running, done with the response, and mismatch", () =>
  withStore(({ idempotency }) => {
    assertEquals(idempotency.claim(request), { state: "new" });
    assertEquals(idempotency.claim(request), { state: "running" });
    assertEquals(idempotency.claim({ ...request, bodyHash: "other" }), { state: "mismatch" });
    idempotency.complete(key, { response: { status: 201 } });
    assertEquals(idempotency.claim(request), { state: "done", response: { status: 201 } });
    assertEquals(idempotency.claim({ ...request, bodyHash: "other" }), { state: "mismatch" });
    assertEquals(idempotency.claim({ ...request, scope: "POST /v1/responses" }), { state: "new" });
  }));

Deno.test("release() lets a failed request be sent again, and leaves one that is done", () =>
  withStore(({ idempotency }) => {
    idempotency.release(key);
    idempotency.claim(request);
    idempotency.release(key);
    assertEquals(idempotency.claim({ ...request, bodyHash: "other" }), { state: "new" });
    idempotency.complete(key, { response: null });
    idempotency.release(key);
    assertEquals(idempotency.claim({ ...request, bodyHash: "other" }), { state: "done", response: null });
  }));

Deno.test("complete() refuses a key that isn't claimed, and a session that isn't there", () =>
  withStore(({ idempotency }) => {
    const complete = (sessionId?: string) =>
      idempotency.complete(key, { response: 1, ...(sessionId !== undefined && { sessionId }) });
    const message = 'Cannot complete idempotency key "k" of POST /v1/sessions: it isn\'t claimed';
    assertThrows(() => complete(), Error, message);
    idempotency.claim(request);
    assertThrows(() => complete("none"), Error, 'Cannot find session "none"');
    assertEquals(idempotency.claim(request), { state: "running" });
    complete("a");
    assertThrows(() => complete(), Error, message);
  }));

Deno.test("claim() says interrupted, once, where an earlier process didn't come to its end", () =>
  withStore((store, path) => {
    store.idempotency.claim(request);
    store.close();
    const { idempotency, close } = openStore(path);
    assertThrows(() => idempotency.complete(key, { response: 1 }), Error, "it isn't claimed");
    idempotency.release(key);
    assertEquals(idempotency.claim({ ...request, bodyHash: "other" }), { state: "mismatch" });
    assertEquals(idempotency.claim(request), { state: "interrupted" });
    assertEquals(idempotency.claim(request), { state: "running" });
    idempotency.complete(key, { response: 1 });
    assertEquals(idempotency.claim(request), { state: "done", response: 1 });
    close();
  }));

Deno.test("claim() forgets a key a day after its response, and never one that is running", () => {
  let nowMs = 0;
  return withStore(({ idempotency }) => {
    idempotency.claim(request);
    nowMs = 2 * DAY_MS;
    assertEquals(idempotency.claim(request), { state: "running" });
    idempotency.complete(key, { response: 1 });
    nowMs += DAY_MS - 1;
    assertEquals(idempotency.claim(request), { state: "done", response: 1 });
    nowMs += 1;
    assertEquals(idempotency.claim({ ...request, bodyHash: "other" }), { state: "new" });
  }, { now: () => nowMs });
});

Deno.test("claim() forgets a response that was kept for a session when the session goes", () =>
  withStore(({ idempotency, deleteSession }) => {
    idempotency.claim(request);
    idempotency.complete(key, { response: 1, sessionId: "a" });
    deleteSession("b");
    assertEquals(idempotency.claim(request), { state: "done", response: 1 });
    deleteSession("a");
    assertEquals(idempotency.claim(request), { state: "new" });
  }));
