import { assertEquals } from "@std/assert";
import { openPostgresStore } from "@tare/conversation/postgres";
import { testLikeMemory } from "../../../packages/conversation/store/like_memory_fixture_test.ts";
import { testSharedStore } from "../../../packages/conversation/store/shared_suite_fixture_test.ts";
import { testStore } from "../../../packages/conversation/store/store_suite_fixture_test.ts";
import { startPostgres } from "../postgres.ts";
import { FEW, inOneDatabase, inPostgres, sharedInPostgres, withDatabase } from "./store.ts";

const postgres = await startPostgres();

testStore("openPostgresStore()", inPostgres(postgres));
testSharedStore("openPostgresStore()", sharedInPostgres(postgres));
testLikeMemory("openPostgresStore()", inOneDatabase(postgres));

const DAY_MS = 24 * 60 * 60_000;

Deno.test("openPostgresStore() goes by the database's clock: a server that is a month ahead forgets nothing of the others", async () => {
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
      const month = { kind: "agent", beforeMs: Date.now() - 30 * DAY_MS } as const;
      assertEquals(await ahead.idleSessions({ ...month, limit: 10 }), []);
      assertEquals(await ahead.expireSessions({ ...month, maxBytes: 2 ** 40 }), 0);
      await ahead.close();
    } finally {
      Date.now = right;
    }
    await store.close();
  });
});
