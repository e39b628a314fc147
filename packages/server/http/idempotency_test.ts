import { assertEquals } from "@std/assert";
import { type Store, StoreError } from "@tare/session";
import { memoryStore } from "@tare/session/sqlite";
import type { HttpAgent } from "@tare/server";
import { sharedMemory } from "../../../tests/shared_memory.ts";
import {
  agent,
  call,
  error,
  events,
  newSession,
  request,
  scriptedModel,
  silentModel,
} from "../fixture_test.ts";
import { FULL, watchedStore } from "../sessions/store_fixture_test.ts";

function send(handler: HttpAgent, path: string, init: RequestInit & { key: string }): Promise<Response> {
  const { key, ...rest } = init;
  const headers = { "content-type": "application/json", "idempotency-key": key };
  return handler.fetch(new Request(`http://localhost${path}`, { method: "POST", headers, ...rest }));
}

async function answerOf(response: Response) {
  return { status: response.status, body: await response.json() };
}

async function sessionCount(handler: HttpAgent): Promise<number> {
  return ((await call(handler, "GET", "/tare/v1/sessions")).body as { sessions: unknown[] }).sessions.length;
}

Deno.test("answerOnce() repeats a JSON answer and acts once", async () => {
  const handler = agent(scriptedModel([]));
  const make = () => send(handler, "/tare/v1/sessions", { key: "k", body: '{"model":"m"}' });
  const [first, again] = [await make(), await make()];
  assertEquals([first.status, again.status], [201, 201]);
  assertEquals([first, again].map(({ headers }) => headers.get("idempotent-replayed")), [null, "true"]);
  assertEquals(again.headers.get("location"), first.headers.get("location"));
  assertEquals(again.headers.get("content-type"), "application/json");
  const session = await first.json();
  assertEquals(await again.json(), session);
  assertEquals(await sessionCount(handler), 1);
  const path = `/tare/v1/sessions/${session.id}`;
  for (const replayed of [null, "true"]) {
    const removed = await send(handler, path, { key: "k", method: "DELETE" });
    assertEquals([removed.status, removed.headers.get("idempotent-replayed")], [204, replayed]);
  }
  assertEquals((await send(handler, path, { key: "other", method: "DELETE" })).status, 404);
});

Deno.test("answerOnce() repeats a turn's events from the session's log", async () => {
  const handler = agent(scriptedModel([{ content: "a" }, { content: "b" }, { content: "c" }]));
  const path = `${await newSession(handler)}/turns`;
  const play = async (key: string) => {
    const response = await send(handler, path, { key, body: '{"input":"q"}' });
    return { replayed: response.headers.get("idempotent-replayed"), events: await events(response) };
  };
  const [first, second] = [await play("1"), await play("2")];
  assertEquals(await play("1"), { ...first, replayed: "true" });
  assertEquals(await play("2"), { ...second, replayed: "true" });
  assertEquals(first.events.at(-1)!.id + 1, second.events[0]!.id);
});

Deno.test("answerOnce() refuses a key with another body and follows a running turn", async () => {
  const { model, requested } = silentModel();
  const handler = agent(model);
  const session = await newSession(handler);
  const running = events(await send(handler, `${session}/turns`, { key: "k", body: '{"input":"q"}' }));
  await requested;
  const again = events(await send(handler, `${session}/turns`, { key: "k", body: '{"input":"q"}' }));
  assertEquals(
    await answerOf(await send(handler, `${session}/turns`, { key: "k", body: '{"input":"r"}' })),
    error(
      422,
      "idempotency_key_reused",
      "Cannot use this Idempotency-Key: it was sent with another body before. A new request needs a new key.",
    ),
  );
  await call(handler, "POST", `${session}/cancel`);
  const seen = await running;
  assertEquals(await again, seen);
  assertEquals(
    await events(await send(handler, `${session}/turns`, { key: "k", body: '{"input":"q"}' })),
    seen,
  );
});

Deno.test("answerOnce() refuses a key whose request is in progress", async () => {
  const gate = Promise.withResolvers<void>();
  const opened = Promise.withResolvers<void>();
  const store = watchedStore(async () => {
    opened.resolve();
    await gate.promise;
    throw new Error("no room");
  });
  const handler = agent(scriptedModel([]), { store });
  const first = send(handler, "/tare/v1/sessions", { key: "k" });
  await opened.promise;
  assertEquals(
    await answerOf(await send(handler, "/tare/v1/sessions", { key: "k" })),
    error(
      409,
      "idempotency_key_in_use",
      "Conflict: a request with this Idempotency-Key is in progress; retry.",
    ),
  );
  gate.resolve();
  assertEquals((await answerOf(await first)).status, 500);
  // A failed request may be retried.
  assertEquals((await answerOf(await send(handler, "/tare/v1/sessions", { key: "k" }))).status, 500);
});

Deno.test("answerOnce() doesn't store errors", async () => {
  const handler = agent(scriptedModel([{ content: "a" }]));
  const bad = () => send(handler, "/tare/v1/sessions", { key: "k", body: '{"tools":["fly"]}' });
  assertEquals([(await answerOf(await bad())).status, (await answerOf(await bad())).status], [400, 400]);
  assertEquals((await answerOf(await send(handler, "/tare/v1/sessions", { key: "k" }))).status, 201);
});

Deno.test("answerOnce() runs a request again that a stopped server left without effect", async () => {
  const memory = sharedMemory();
  const [first, second] = [memory.open(), memory.open()];
  const opened = Promise.withResolvers<void>();
  const { store } = first;
  const dying = agent(scriptedModel([{ content: "a" }]), {
    store: {
      ...store,
      async commit(records) {
        if (!records.some(({ type }) => type === "response")) return await store.commit(records);
        first.kill();
        opened.resolve();
        await store.commit(records);
      },
    },
  });
  const handler = agent(scriptedModel([{ content: "a" }]), { store: second.store });
  send(dying, "/tare/v1/sessions", { key: "k" });
  await opened.promise;
  assertEquals((await answerOf(await send(handler, "/tare/v1/sessions", { key: "k" }))).status, 409);
  memory.pass(10_000);
  const made = await answerOf(await send(handler, "/tare/v1/sessions", { key: "k" }));
  assertEquals([made.status, await sessionCount(handler)], [201, 1]);
  assertEquals(await answerOf(await send(handler, "/tare/v1/sessions", { key: "k" })), made);
});

Deno.test("answerOnce() refuses a request that a stopped server left with an unknown outcome", async () => {
  const memory = sharedMemory();
  const [first, second] = [memory.open(), memory.open()];
  const { id } =
    await (await send(agent(scriptedModel([]), { store: first.store }), "/tare/v1/sessions", { key: "s" }))
      .json();
  const path = `/tare/v1/sessions/${id}/cancel`;
  const { store } = first;
  const opened = Promise.withResolvers<void>();
  const dying = agent(scriptedModel([]), {
    store: {
      ...store,
      async claimKey(request) {
        const claim = await store.claimKey(request);
        first.kill();
        opened.resolve();
        return claim;
      },
    },
  });
  send(dying, path, { key: "k" });
  await opened.promise;
  memory.pass(10_000);
  const handler = agent(scriptedModel([]), { store: second.store });
  for (let times = 0; times < 2; times++) {
    assertEquals(
      await answerOf(await send(handler, path, { key: "k" })),
      error(
        409,
        "idempotency_key_interrupted",
        "Conflict: the outcome of the first request with this Idempotency-Key is unknown, because the server stopped. " +
          "Check the current state; a request with a new key runs again.",
      ),
    );
  }
});

Deno.test("answerOnce() accepts keys of 1 to 255 printable ASCII characters on requests that act", async () => {
  const handler = agent(scriptedModel([]));
  for (const key of ["", "x".repeat(256), "é", "a\tb"]) {
    const { status, body } = await answerOf(await send(handler, "/tare/v1/sessions", { key }));
    assertEquals([status, body.error.code], [400, "invalid_request"], key);
  }
  assertEquals(
    (await answerOf(await send(handler, "/tare/v1/sessions", { key: "x".repeat(255) }))).status,
    201,
  );
  const list = new Request("http://localhost/tare/v1/sessions", { headers: { "idempotency-key": "" } });
  assertEquals((await answerOf(await handler.fetch(list))).status, 200);
  assertEquals((await answerOf(await handler.fetch(request("GET", "/health")))).status, 200);
});

Deno.test("answerOnce() stores the answer in the commit of the request's effect", async () => {
  const stored: string[][] = [];
  const store = watchedStore((records) => {
    if (records.some(({ type }) => type === "response")) stored.push(records.map(({ type }) => type));
  });
  const { model, requested } = silentModel();
  const handler = agent(model, { store });
  const { id } = await (await send(handler, "/tare/v1/sessions", { key: "make" })).json();
  const path = `/tare/v1/sessions/${id}`;
  const turn = events(await send(handler, `${path}/turns`, { key: "turn", body: '{"input":"q"}' }));
  await requested;
  const steer = () => send(handler, `${path}/turns`, { key: "steer", body: '{"input":"r","steer":true}' });
  const [first, again] = [await answerOf(await steer()), await answerOf(await steer())];
  assertEquals([first.status, first], [202, again]);
  await call(handler, "POST", `${path}/cancel`);
  const seen = await turn;
  assertEquals(seen.filter(({ event }) => event.type === "user_message").length, 1);
  const lines = '{"messages":[{"role":"user","content":"a"}]}\n{"messages":[]}';
  const headers = { "content-type": "application/x-ndjson", "idempotency-key": "import" };
  const imported = await handler.fetch(
    new Request("http://localhost/tare/v1/sessions/import", { method: "POST", body: lines, headers }),
  );
  assertEquals((await imported.json()).sessions.length, 2);
  assertEquals(stored, [
    ["session", "totals", "response"],
    ["events", "state", "state", "response"],
    ["state", "response"],
    ["session", "state", "totals", "events", "session", "totals", "response"],
  ]);
});

Deno.test("answerOnce() acts once and reports an answer that is too large to store", async () => {
  const handler = agent(scriptedModel([]));
  const body = JSON.stringify({ instructions: "long ".repeat(20_000) });
  const make = () => send(handler, "/tare/v1/sessions", { key: "k", body });
  const first = await make();
  const { length } = await first.text();
  assertEquals(first.status, 201);
  assertEquals(
    await answerOf(await make()),
    error(
      409,
      "idempotency_answer_not_stored",
      `Conflict: the first request with this Idempotency-Key was answered with 201, but its ${length} characters ` +
        "exceed the 65536 that are stored. Check the current state.",
    ),
  );
  assertEquals(await sessionCount(handler), 1);
});

Deno.test("answerOnce() runs deletions without a key if the store is full", async () => {
  const store = memoryStore();
  const full = () => Promise.reject(new StoreError("full", FULL));
  const refusals: readonly Partial<Store>[] = [{ claimKey: full }, { commit: full }, {
    commit: full,
    releaseKey: full,
  }];
  const model = scriptedModel([]);
  for (const refusal of refusals) {
    const path = await newSession(agent(model, { store }));
    const handler = agent(model, { store: { ...store, ...refusal } });
    assertEquals((await answerOf(await send(handler, "/tare/v1/sessions", { key: "k" }))).status, 507);
    assertEquals((await send(handler, path, { key: "k", method: "DELETE" })).status, 204);
    assertEquals(await sessionCount(handler), 0);
    // A retry finds the current state, not a request in progress.
    const isForgotten = refusal.releaseKey === undefined;
    const again = await answerOf(await send(handler, path, { key: "k", method: "DELETE" }));
    assertEquals(again.status, isForgotten ? 404 : 409);
  }
});
