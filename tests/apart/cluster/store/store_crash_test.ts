import { assert, assertEquals, assertRejects } from "@std/assert";
import { StoreError } from "@tare/session";
import { openPostgresStore } from "@tare/session/postgres";
import { held, listen, type Opening } from "../../../../packages/session/store/openings_fixture_test.ts";
import { sessionRecord } from "../../../../packages/session/store/store_suite_fixture_test.ts";
import { needs } from "../../../needs.ts";
import { ownServer, query, startPostgres } from "../postgres.ts";
import { FEW, GIVING_UP, PATIENT, proxyTo, through, withDatabase } from "./store.ts";

const postgres = await startPostgres();

const ids = Array.from({ length: 6 }, (_, index) => `session ${index}`);
const event = (number: number) => ({ type: "text_delta", number, text: "word ".repeat(number % 7) });

async function append(
  store: Opening,
  { sessionId, from, isOver }: {
    readonly sessionId: string;
    readonly from: number;
    readonly isOver: (number: number) => boolean;
  },
): Promise<number> {
  for (let number = from + 1;; number++) {
    await store.commit([
      { type: "events", sessionId, after: number - 1, events: [event(number)] },
      { type: "state", sessionId, name: "number", value: number },
    ]);
    if (isOver(number)) return number;
  }
}

async function assertWhole(store: Opening, sessionId: string, last: number): Promise<void> {
  const numbers = Array.from({ length: last }, (_, index) => index + 1);
  assertEquals(
    await store.readEvents(sessionId),
    numbers.map((number) => ({ number, event: event(number) })),
  );
  assertEquals(await store.readState(sessionId, "number"), last);
}

Deno.test("commit() is done once, whenever its connection is cut", () =>
  withDatabase(postgres, async (url) => {
    let pieces = 0;
    let cuts = 0;
    // Not during the opening, and never at the same position of the data sent.
    const onSent = () => {
      if (++pieces < 40 || pieces % 11 !== 0) return undefined;
      return ++cuts % 2 === 0 ? "cut before" : "cut after";
    };
    const proxy = proxyTo(url, { onSent });
    // Frequent renewals would take most of the cuts on a slow machine.
    const store = await openPostgresStore(through(url, proxy), { ...PATIENT, renewMs: 1000 });
    try {
      await store.commit(ids.map((id) => sessionRecord(id)));
      await Promise.all(ids.map((id) => held(store, id)));
      await Promise.all(
        ids.map((sessionId) => append(store, { sessionId, from: 0, isOver: (number) => number === 60 })),
      );
      for (const sessionId of ids) await assertWhole(store, sessionId, 60);

      const keys = Array.from({ length: 60 }, (_, index) => ({ scope: "s", key: `${index}`, bodyHash: "h" }));
      for (const key of keys) {
        assertEquals(await store.claimKey(key), { state: "new" });
        const id = `of key ${key.key}`;
        await store.commit([sessionRecord(id), { type: "response", ...key, response: id, sessionId: id }]);
        const hold = await held(store, id);
        assertEquals(hold.fence, 1);
        await store.archive(id).put(id);
        assertEquals(await store.deleteSession(id), true);
      }
      assertEquals(await store.countSessions(), ids.length);
      assert(cuts > 50, `There were ${cuts} cuts.`);
    } finally {
      await store.close();
      await proxy[Symbol.asyncDispose]();
    }
  }));

Deno.test(
  needs(
    ownServer(postgres),
    "crash: a server killed during commits loses and duplicates nothing, and blocks no hold",
  ),
  () =>
    withDatabase(postgres, async (url) => {
      const [store, other] = [await openPostgresStore(url, PATIENT), await openPostgresStore(url, PATIENT)];
      try {
        await store.commit(ids.map((id) => sessionRecord(id)));
        const holds = await Promise.all(ids.map((id) => held(store, id)));
        let last = ids.map(() => 0);
        for (let round = 1; round <= 3; round++) {
          let isStarted = false;
          const appending = Promise.all(
            ids.map((sessionId, index) =>
              append(store, { sessionId, from: last[index]!, isOver: () => isStarted })
            ),
          );
          // In the middle: some of them are acknowledged, others on their way.
          while (await other.lastEvent(ids[0]!) < last[0]! + 5);
          const killing = postgres.kill().then(postgres.start).finally(() => isStarted = true);
          [last] = await Promise.all([appending, killing]);
          for (const [index, id] of ids.entries()) await assertWhole(other, id, last[index]!);
        }
        for (const { isSure, signal } of holds) assertEquals([isSure(), signal.aborted], [true, false]);
        assertEquals(await other.shared.abandonedSessions(), []);
        assertEquals(await Promise.all(ids.map((id) => store.shared.hold(id))), holds);
      } finally {
        await store.close();
        await other.close();
      }
    }),
);

Deno.test("openPostgresStore() reports an unresponsive server in time, and continues when it responds again", () =>
  withDatabase(postgres, async (url) => {
    const proxy = proxyTo(url);
    const store = await openPostgresStore(through(url, proxy), GIVING_UP);
    try {
      await store.commit([sessionRecord("a")]);
      await held(store, "a");
      proxy.set({ type: "stuck" });
      const error = await assertRejects(() => store.lastEvent("a"), StoreError);
      assertEquals(error.code, "io");
      assert(!Deno.inspect(error).includes(new URL(url).password));
      proxy.set({ type: "open" });
      const patient = await openPostgresStore(through(url, proxy), PATIENT);
      assertEquals((await patient.shared.inspect("a")).holder, "other");
      await patient.close();
      // The same opening still holds the session: lost messages don't end a lease.
      while (await store.lastEvent("a").catch(() => -1) !== 0);
      await append(store, { sessionId: "a", from: 0, isOver: () => true });
    } finally {
      await store.close();
      await proxy[Symbol.asyncDispose]();
    }
  }));

Deno.test("openPostgresStore() loses everything when its paused opening's lease ends, by its own clock and the database's", () =>
  withDatabase(postgres, async (url) => {
    const proxy = proxyTo(url);
    const store = await openPostgresStore(through(url, proxy), { ...PATIENT, leaseMs: 4000 });
    const other = await openPostgresStore(url, FEW);
    const [heard, heardToo] = [listen(store), listen(other)];
    try {
      await other.commit([sessionRecord("a")]);
      const hold = await held(store, "a");
      proxy.set({ type: "stuck" });
      await heardToo.gone();
      assertEquals(await other.shared.abandonedSessions(), ["a"]);
      if (!hold.signal.aborted) {
        await new Promise((resolve) => hold.signal.addEventListener("abort", resolve));
      }
      assertEquals(hold.isSure(), false);
      const taken = await held(other, "a");
      proxy.set({ type: "open" });
      await heard.gone();
      assertEquals((await store.shared.inspect("a")).holder, "other");
      await other.shared.release("a");
      assert((await held(store, "a")).fence > taken.fence);
    } finally {
      proxy.set({ type: "open" });
      await other.close();
      await store.close();
      await proxy[Symbol.asyncDispose]();
    }
  }));

Deno.test("watch() and requests continue when the notification connection is lost", () =>
  withDatabase(postgres, async (url) => {
    const [store, other] = [await openPostgresStore(url, PATIENT), await openPostgresStore(url, PATIENT)];
    listen(store, ({ id, body }) => void store.commit([{ type: "answer", requestId: id, answer: body }]));
    const changed: string[] = [];
    const end = other.shared.watch("a", () => changed.push("a"));
    try {
      await store.commit([sessionRecord("a")]);
      await held(store, "a");
      for (let round = 1; round <= 3; round++) {
        await query(
          url,
          `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
           WHERE datname = current_database() AND pid <> pg_backend_pid()`,
        );
        assertEquals(await other.shared.request("a", round), { answer: round });
        const before = changed.length;
        await store.commit([{ type: "events", sessionId: "a", after: round - 1, events: [event(round)] }]);
        while (changed.length === before) await other.lastEvent("a");
      }
    } finally {
      end();
      await store.close();
      await other.close();
    }
  }));

Deno.test("createTables() waits for a concurrent opening of the same new database", () =>
  withDatabase(postgres, async (url) => {
    const stores = await Promise.all([1, 2, 3].map(() => openPostgresStore(url, FEW)));
    await stores[0]!.commit([sessionRecord("a")]);
    assertEquals(await Promise.all(stores.map((store) => store.countSessions())), [1, 1, 1]);
    await Promise.all(stores.map((store) => store.close()));
  }));

Deno.test("openPostgresStore() frees the data of a removed session if the opening that removed it didn't", () =>
  withDatabase(postgres, async (url) => {
    const store = await openPostgresStore(url, FEW);
    await store.commit([sessionRecord("a"), sessionRecord("b")]);
    await Promise.all(["a", "b"].map((id) => held(store, id)));
    await Promise.all(["a", "b"].map((id) => store.archive(id).put("of both")));
    await store.archive("a").put("of one");
    await append(store, { sessionId: "a", from: 0, isOver: (number) => number === 3 });
    // State after a process ended between the two.
    await query(url, "UPDATE tare.sessions SET id = 'deleted:', is_deleted = true WHERE id = 'a'");
    await query(
      url,
      "DELETE FROM tare.heads h USING tare.sessions s WHERE s.key = h.session AND s.is_deleted",
    );
    await store.close();
    const later = await openPostgresStore(url, FEW);
    assertEquals(await later.getSession("a"), undefined);
    const [rows] = await query(
      url,
      `SELECT (SELECT count(*) FROM tare.sessions)::int AS sessions, (SELECT count(*) FROM tare.events)::int AS events,
         (SELECT count(*) FROM tare.state)::int AS state, (SELECT count(*) FROM tare.texts)::int AS texts`,
    );
    assertEquals(rows, { sessions: 1, events: 0, state: 0, texts: 1 });
    await later.close();
  }));
