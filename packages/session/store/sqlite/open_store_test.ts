import { assertEquals, assertLess, assertRejects } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { archiveRef } from "@tare/prune";
import { type Store, StoreError } from "@tare/session";
import { openStore } from "@tare/session/sqlite";
import { testLikeMemory } from "../like_memory_fixture_test.ts";
import { testStore } from "../store_suite_fixture_test.ts";
import { inFile, withStore } from "./fixture_test.ts";

testStore("openStore()", inFile);
testLikeMemory("openStore()", inFile);

function query(path: string, sql: string): Record<string, unknown>[] {
  const database = new DatabaseSync(path, { readOnly: true });
  try {
    return database.prepare(sql).all();
  } finally {
    database.close();
  }
}

const refs = (path: string) => query(path, "SELECT ref FROM texts ORDER BY ref").map(({ ref }) => ref);

const putAll = (store: Store, id: string, texts: readonly string[]) =>
  Promise.all(texts.map((text) => store.archive(id).put(text)));

Deno.test("deleteSession() deletes everything that only the session references, except its totals", () =>
  withStore(async (first, path) => {
    let store = first;
    const fill = async (id: string) => {
      await store.claimKey({ scope: "s", key: id, bodyHash: "h" });
      await store.commit([
        { type: "events", sessionId: id, after: 0, events: [{ type: "turn_start" }] },
        { type: "state", sessionId: id, name: "edits", value: [1] },
        { type: "totals", sessionId: id, added: [{ day: "", about: "", totals: { calls: 1 } }] },
        { type: "names", sessionId: id, names: ["both", `of ${id}`] },
        { type: "document", kind: "response", id, sessionId: id, value: 1 },
        { type: "delivery", id, receiver: "x", sessionId: id, value: 1, dueInMs: 0 },
        { type: "response", scope: "s", key: id, response: 1, sessionId: id },
      ]);
      await putAll(store, id, ["shared", `of ${id} alone`]);
    };
    const rows = async () => {
      await store.close();
      const counts = query(path, "SELECT name FROM sqlite_schema WHERE type = 'table'").map(({ name }) => [
        name,
        query(path, `SELECT count(*) AS rows FROM ${name}`)[0]?.rows,
      ]);
      store = await openStore(path);
      return Object.fromEntries(counts);
    };
    await fill("a");
    const ofA = await rows();
    assertEquals(ofA, {
      text_references: 2,
      session_counts: 1,
      deliveries: 1,
      documents: 1,
      events: 1,
      heads: 2,
      keys: 1,
      names: 2,
      sessions: 2,
      state: 1,
      totals: 1,
      texts: 2,
    });
    await fill("b");
    await store.deleteSession("b");
    assertEquals(await rows(), { ...ofA, heads: 1, sessions: 1 });
    await store.deleteSession("a");
    const { session_counts: _, totals, ...left } = await rows();
    assertEquals([totals, new Set(Object.values(left))], [1, new Set([0])]);
    await store.close();
    assertEquals(query(path, "SELECT sessions FROM session_counts").map(({ sessions }) => sessions), [0]);
  }));

async function fillLarge(store: Store, id: string): Promise<void> {
  const events = Array.from(
    { length: 2000 },
    () => ({ type: "text_delta", text: crypto.randomUUID().repeat(30) }),
  );
  await store.commit([{ type: "events", sessionId: id, after: 0, events }]);
  await putAll(
    store,
    id,
    Array.from({ length: 20 }, () => crypto.getRandomValues(new Uint8Array(50_000)).join("")),
  );
}

Deno.test("deleteSession() shrinks the file", () =>
  withStore(async (first, path) => {
    await first.close();
    const empty = Deno.statSync(path).size;
    const store = await openStore(path);
    await fillLarge(store, "a");
    await store.close();
    const later = await openStore(path);
    const full = Deno.statSync(path).size;
    await later.deleteSession("a");
    assertEquals([full > 2_000_000, Deno.statSync(path).size <= empty + 16_384], [true, true]);
    assertEquals((await later.listSessions()).map(({ id }) => id), ["b"]);
    await later.close();
  }));

Deno.test("deleteSession() frees sessions deleted at the end of an earlier sweep", async () => {
  for (const timers of [1, 2]) {
    for (const steps of [0, 1, 2, 3, 4, 5]) {
      await withStore(async (store, path) => {
        const { setTimeout } = globalThis;
        const second = Promise.withResolvers<boolean>();
        let fired = 0;
        // The second session is deleted this many steps after the first one's sweep has resumed.
        globalThis.setTimeout = ((work: () => void, ms?: number) =>
          setTimeout(async () => {
            work();
            if (++fired !== timers) return;
            for (let step = 0; step < steps; step++) await undefined;
            second.resolve(store.deleteSession("b"));
          }, ms)) as typeof setTimeout;
        try {
          await store.deleteSession("a");
          if (fired < timers) second.resolve(store.deleteSession("b"));
          assertEquals(await second.promise, true);
        } finally {
          globalThis.setTimeout = setTimeout;
        }
        await store.close();
        assertEquals([timers, steps, query(path, "SELECT id FROM sessions")], [timers, steps, []]);
      });
    }
  }
});

Deno.test("deleteSession(): an interrupted deletion completes at the next opening, and the session stays hidden", () =>
  withStore(async (store, path) => {
    await fillLarge(store, "a");
    const removing = store.deleteSession("a");
    assertEquals([await store.getSession("a"), await store.countSessions()], [undefined, 1]);
    await store.close();
    assertEquals(await removing, true);
    assertEquals(Number(query(path, "SELECT count(*) AS rows FROM events")[0]?.rows) > 1000, true);
    const later = await openStore(path);
    await later.commit([{ type: "session", kind: "agent", id: "a", createdAtMs: 1, settings: {} }]);
    assertEquals(await later.readEvents("a"), []);
    await later.close();
    assertEquals(query(path, "SELECT number FROM events"), []);
  }));

Deno.test("archive() stores a text once, and deletes it with its last session", () =>
  withStore(async (store, path) => {
    const shared = await archiveRef("shared");
    await putAll(store, "a", ["shared", "of a alone", "shared"]);
    await putAll(store, "b", ["shared"]);
    await store.deleteSession("a");
    await store.close();
    assertEquals(refs(path), [shared]);
    const later = await openStore(path);
    assertEquals(await later.archive("b").get(shared), "shared");
    await later.deleteSession("b");
    await later.close();
    assertEquals(refs(path), []);
  }));

Deno.test("archive() stores nothing for a missing session", () =>
  withStore(async (store, path) => {
    await assertRejects(() => store.archive("none").put("text"));
    await store.close();
    assertEquals(refs(path), []);
  }));

Deno.test("archive() compresses", () =>
  withStore(async (store, path) => {
    await putAll(store, "a", ["some words\n".repeat(100_000)]);
    await store.close();
    assertLess(Deno.statSync(path).size, 200_000);
  }));

Deno.test("archive() detects a damaged text, and putting it again restores it", () =>
  withStore(async (store, path) => {
    const text = "the whole text";
    const [ref = "", other] = await putAll(store, "a", [text, "another text altogether"]);
    await store.close();
    for (
      const damage of [
        "UPDATE texts SET zstd = zeroblob(9)",
        "UPDATE texts SET zstd = substr(zstd, 1, 12)",
        "UPDATE texts SET zstd = x''",
        `UPDATE texts SET zstd = (SELECT zstd FROM texts WHERE ref = '${other}')`,
        "PRAGMA foreign_keys = OFF; DELETE FROM texts",
      ]
    ) {
      const database = new DatabaseSync(path);
      database.exec(`${damage} WHERE ref = '${ref}'`);
      database.close();
      const later = await openStore(path);
      const archive = later.archive("a");
      const error = await assertRejects(() => archive.get(ref), StoreError);
      assertEquals([error.code, error.message], [
        "corrupt",
        `Cannot read the store ${path}: the archived text ${ref} is damaged, its hash doesn't match. ` +
        "Restore it from a backup, or move it away to start with an empty store.",
      ]);
      assertEquals(await archive.put(text), ref);
      assertEquals(await archive.get(ref), text);
      await later.close();
    }
  }));

Deno.test("readEvents() detects a lost event", () =>
  withStore(async (store, path) => {
    const events = ["1", "2", "3"].map((text) => ({ type: "text_delta", text }));
    await store.commit([{ type: "events", sessionId: "a", after: 0, events }]);
    await store.close();
    const database = new DatabaseSync(path);
    database.exec("DELETE FROM events WHERE number = 2");
    database.close();
    const later = await openStore(path);
    await assertRejects(() => later.readEvents("a"), StoreError, "session a lacks event 2");
    await later.close();
  }));
