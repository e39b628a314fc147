import { assert, assertEquals } from "@std/assert";
import type { StoreRecord } from "@tare/session/internal";
import { openPostgresStore } from "@tare/session/postgres";
import { testLikeMemory } from "../../../../packages/session/store/like_memory_fixture_test.ts";
import { testSharedStore } from "../../../../packages/session/store/shared_suite_fixture_test.ts";
import { testStore } from "../../../../packages/session/store/store_suite_fixture_test.ts";
import { query, startPostgres } from "../postgres.ts";
import { FEW, inOneDatabase, inPostgres, proxyTo, sharedInPostgres, through, withDatabase } from "./store.ts";

const postgres = await startPostgres();

testStore("openPostgresStore()", inPostgres(postgres));
testSharedStore("openPostgresStore()", sharedInPostgres(postgres));
testLikeMemory("openPostgresStore()", inOneDatabase(postgres));

const DAY_MS = 24 * 60 * 60_000;

Deno.test("openPostgresStore() uses the database's clock: a server a month ahead removes nothing of the others", async () => {
  await withDatabase(postgres, async (url) => {
    const store = await openPostgresStore(url, FEW);
    const key = { scope: "s", key: "k", bodyHash: "h" };
    await store.claimKey(key);
    await store.commit([
      { type: "session", kind: "agent", id: "a", createdAtMs: Date.now(), settings: {} },
      { type: "response", scope: "s", key: "k", response: 1 },
    ]);
    const right = Date.now;
    Date.now = () => right() + 31 * DAY_MS;
    try {
      const ahead = await openPostgresStore(url, FEW);
      assertEquals(await ahead.claimKey({ ...key, key: "another" }), { state: "new" });
      assertEquals(await ahead.claimKey(key), { state: "done", response: 1 });
      assert(Math.abs(ahead.now() - right()) < DAY_MS);
      const month = { kind: "agent", beforeMs: ahead.now() - 30 * DAY_MS } as const;
      assertEquals(await ahead.idleSessions({ ...month, limit: 10 }), []);
      assertEquals(await ahead.expireSessions({ ...month, maxBytes: 2 ** 40 }), 0);
      await ahead.close();
    } finally {
      Date.now = right;
    }
    await store.close();
  });
});

Deno.test("openPostgresStore() returns the database's time even if it receives it late", async () => {
  await withDatabase(postgres, async (url) => {
    await using proxy = proxyTo(url);
    const store = await openPostgresStore(through(url, proxy), FEW);
    proxy.set({ type: "slow", delayMs: 1_000 });
    // During two queries the time was received once, a second late.
    for (let attempt = 0; attempt < 2; attempt++) await store.getSession("nobody");
    assert(Math.abs(store.now() - Date.now()) < 700);
    proxy.set({ type: "open" });
    await store.close();
  });
});

Deno.test("listSessions() finds a title however old its session is, page by page", async () => {
  await withDatabase(postgres, async (url) => {
    const store = await openPostgresStore(url, FEW);
    const titled = (id: string, title: string, by?: string): StoreRecord[] => [
      { type: "session", kind: "agent", id, createdAtMs: 0, settings: {}, ...(by !== undefined && { by }) },
      { type: "state", sessionId: id, name: "title", value: title },
    ];
    await store.commit([
      ...titled("first", "The Zeppelin"),
      ...titled("other", "zip pellets"),
      ...titled("alice", '"Zeppelin" of Alice', "alice"),
    ]);
    await query(
      url,
      `WITH made AS (
         INSERT INTO tare.sessions (id, json, commit_id)
           SELECT 's' || n, '{"id":"s' || n || '"}', gen_random_uuid() FROM generate_series(1, 6000) AS n ORDER BY n
           RETURNING key
       ), heads AS (INSERT INTO tare.heads (session, kind, touched_at_ms) SELECT key, 'agent', 0 FROM made)
       INSERT INTO tare.state SELECT key, 'title', '"Look into issue ' || key || '"' FROM made`,
    );
    await store.commit(titled("last", "A zeppelin again"));
    const found = async (options: Parameters<typeof store.listSessions>[0]) =>
      (await store.listSessions(options)).map(({ id }) => id);
    assertEquals(await found({ search: "zEPPelin" }), ["last", "alice", "first"]);
    assertEquals(await found({ search: "zeppelin", limit: 2 }), ["last", "alice"]);
    assertEquals(await found({ search: "zeppelin", after: "alice" }), ["first"]);
    assertEquals(await found({ search: '"zeppelin"', kind: "agent", by: "alice" }), ["alice"]);
    assertEquals(await found({ search: "zeppelin", kind: "gateway" }), []);
    assertEquals((await found({ search: "ISSUE", limit: 5_500 })).length, 5_500);
    assertEquals((await found({ search: "issue", limit: 7_000 })).length, 6_000);
    assertEquals([await found({ search: "nowhere" }), await store.countSessions("agent")], [[], 6_004]);
    await store.close();
  });
});
