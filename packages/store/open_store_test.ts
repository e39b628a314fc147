import { assertEquals, assertThrows } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { openStore } from "@tare/store";
import { withFolder, withStore } from "./fixture_test.ts";

Deno.test("createSession() keeps the session as it was given, once", () =>
  withStore((store) => {
    const session = { id: "c", createdAtMs: 1.5, settings: { metadata: { of: "\ud83d a test" } } };
    store.createSession(session);
    assertThrows(
      () => store.createSession({ ...session, settings: 1 }),
      Error,
      'Cannot create session "c": there is one of this id',
    );
    assertEquals([store.getSession("c"), store.getSession("none")], [session, undefined]);
  }));

Deno.test("listSessions() gives pages of sessions, the newest first", () =>
  withFolder((folder) => {
    const store = openStore(`${folder}/tare.db`);
    const ids = Array.from({ length: 105 }, (_, index) => `s${index}`);
    for (const id of ids) store.createSession({ id, createdAtMs: 1, settings: {} });
    const list = (options?: Parameters<typeof store.listSessions>[0]) =>
      store.listSessions(options).map(({ id }) => id);
    const newest = ids.toReversed();
    assertEquals(list(), newest.slice(0, 100));
    assertEquals(list({ before: newest[99]! }), newest.slice(100));
    assertEquals(list({ before: "s50", limit: 2 }), ["s49", "s48"]);
    assertThrows(() => list({ before: "none" }), Error, 'Cannot find session "none"');
    store.close();
  }));

Deno.test("deleteSession() removes all that only the session refers to, from every table", () =>
  withStore(async (store, path) => {
    const fill = async (id: string) => {
      store.appendEvents(id, [{ type: "turn_start" }], { state: { edits: [1] } });
      await store.archive(id).put("shared");
      await store.archive(id).put(`of ${id} alone`);
      store.documents.put({ kind: "response", id, sessionId: id, value: 1 });
      store.idempotency.claim({ scope: "s", key: id, bodyHash: "h" });
      store.idempotency.complete({ scope: "s", key: id }, { response: 1, sessionId: id });
    };
    const rows = () => {
      store.close();
      const database = new DatabaseSync(path);
      const count = (table: unknown) => database.prepare(`SELECT count(*) AS rows FROM ${table}`).get()?.rows;
      const counts = database.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
        .all().map(({ name }) => [name, count(name)]);
      database.close();
      store = openStore(path);
      return Object.fromEntries(counts);
    };
    await fill("a");
    const ofA = rows();
    assertEquals(ofA, {
      archived: 2,
      documents: 1,
      events: 1,
      idempotency_keys: 1,
      sessions: 2,
      state: 1,
      texts: 2,
    });
    await fill("b");
    assertEquals([store.deleteSession("b"), store.deleteSession("b")], [true, false]);
    assertEquals([rows(), store.getSession("b")], [{ ...ofA, sessions: 1 }, undefined]);
    assertEquals([store.deleteSession("a"), new Set(Object.values(rows()))], [true, new Set([0])]);
    store.close();
  }));

Deno.test("close() may be called twice, and nothing can be read afterwards", () =>
  withStore((store) => {
    store.close();
    store.close();
    assertThrows(() => store.getSession("a"));
  }));
