/** Tests of any store. @module */
import { assertEquals, assertRejects } from "@std/assert";
import fc from "../../../tests/cases.ts";
import { archiveRef } from "@tare/prune";
import { type Store, StoreError } from "@tare/session";
import type { StoredDocument, StoreRecord } from "@tare/session/internal";
import { testDeliveries } from "./store_deliveries_fixture_test.ts";
import { testKinds } from "./store_kinds_fixture_test.ts";
import { testKeys } from "./store_keys_fixture_test.ts";
import { codePoints } from "../../../tests/code_points.ts";

export const DAY_MS: number = 24 * 60 * 60 * 1000;

/** Opens a store; later calls reopen it, as another process would. */
export type OpenStore = (options?: OpenOptions) => Promise<Store>;

export type OpenOptions = { readonly now?: () => number };

export type Place = (test: (open: OpenStore) => Promise<void>) => Promise<void>;

export type TestOfStore = (
  what: string,
  use: (store: Store, open: OpenStore) => Promise<void>,
  options?: OpenOptions,
) => void;

export function sessionRecord(id: string, parent?: string): Extract<StoreRecord, { type: "session" }> {
  return {
    type: "session",
    kind: "agent",
    id,
    createdAtMs: 1,
    settings: {},
    ...(parent !== undefined && { parent }),
  };
}

const delta = (text: string) => ({ type: "text_delta", text });
export const key = { scope: "POST /tare/v1/sessions", key: "k" };
export const request: typeof key & { readonly bodyHash: string } = { ...key, bodyHash: "h" };
export const other: typeof request = { ...request, bodyHash: "other" };

/** Tests the stores that `place` opens. `name` is the function that opens them. */
export function testStore(name: string, place: Place): void {
  const test: TestOfStore = (what, use, options = {}) =>
    Deno.test(`${name}: ${what}`, () =>
      place(async (open) => {
        const store = await open(options);
        await store.commit([sessionRecord("a"), sessionRecord("b")]);
        try {
          await use(store, open);
        } finally {
          await store.close();
        }
      }));

  test("commit() stores a session unchanged, once", async (store) => {
    const settings = { metadata: { of: "\ud83d a test" } };
    const session = { id: "c", kind: "gateway", createdAtMs: 1.5, settings } as const;
    await store.commit([{ type: "session", ...session }]);
    await assertRejects(
      () => store.commit([{ type: "session", ...session, settings: 1 }]),
      Error,
      'Cannot create session "c": the id is taken',
    );
    assertEquals([await store.getSession("c"), await store.getSession("none")], [session, undefined]);
  });

  test("listSessions() returns pages, the newest first, with last events and totals", async (store) => {
    const ids = Array.from({ length: 105 }, (_, index) => `s${index}`);
    await store.commit(ids.map((id) => sessionRecord(id)));
    const list = async (options?: Parameters<Store["listSessions"]>[0]) =>
      (await store.listSessions(options)).map(({ id }) => id);
    const newest = ids.toReversed();
    assertEquals(await list(), newest.slice(0, 100));
    assertEquals(await list({ after: newest[99]! }), [...newest.slice(100), "b", "a"]);
    assertEquals(await list({ after: "s50", limit: 2 }), ["s49", "s48"]);
    await assertRejects(() => list({ after: "none" }), Error, 'Cannot find session "none"');
    await store.commit([
      { type: "events", sessionId: "a", after: 0, events: [delta("1"), delta("2")] },
      { type: "state", sessionId: "a", name: "totals", value: { turns: 1 } },
      { type: "state", sessionId: "b", name: "other", value: 1 },
    ]);
    assertEquals(await store.listSessions({ after: "s0" }), [
      { id: "b", kind: "agent", createdAtMs: 1, settings: {}, lastEvent: 0 },
      { id: "a", kind: "agent", createdAtMs: 1, settings: {}, lastEvent: 2, totals: { turns: 1 } },
    ]);
    assertEquals(await store.countSessions(), 107);
  });

  test("listSessions() searches titles case-insensitively, in pages", async (store) => {
    const title = (sessionId: string, value: string): StoreRecord => ({
      type: "state",
      sessionId,
      name: "title",
      value,
    });
    const titles = { a: 'Say "hi" to C:\\temp', b: "Über 100%", c: "say_it", d: "Say more" };
    await store.commit([
      ...["c", "d", "e"].map((id) => sessionRecord(id)),
      ...Object.entries(titles).map(([id, text]) => title(id, text)),
    ]);
    const found = async (search: string, options: { limit?: number; after?: string } = {}) =>
      (await store.listSessions({ search, ...options })).map(({ id, title }) => [id, title]);
    const rowsOf = (...ids: (keyof typeof titles)[]) => ids.map((id) => [id, titles[id]]);
    assertEquals(await found("SAY"), rowsOf("d", "c", "a"));
    assertEquals(await found("say", { limit: 1, after: "d" }), rowsOf("c"));
    assertEquals(await found('"HI" to c:\\'), rowsOf("a"));
    assertEquals([await found("ber 100%"), await found("say_"), await found("%")], [
      rowsOf("b"),
      rowsOf("c"),
      rowsOf("b"),
    ]);
    assertEquals([await found("über"), await found("üBER 1")], [rowsOf("b"), rowsOf("b")]);
    assertEquals([await found("title"), await found("nothing")], [[], []]);
    assertEquals((await store.listSessions({ search: "" })).length, 5);
  });

  test("listSessions() finds any part of a title, case-insensitively in every script", async (store) => {
    const titles = [
      "Привет, мир",
      "ΟΔΟΣ ὁδός",
      "STRASSE Straße",
      "İstanbul ıslak",
      "Ǆ ǅ ǆ",
      "𐐀 Ⴀ Ꭰ",
      'a"Ä\n\\B%_',
      "\ud83d 👍",
    ];
    await store.commit(titles.flatMap((value, at): StoreRecord[] => [
      sessionRecord(`t${at}`),
      { type: "state", sessionId: `t${at}`, name: "title", value },
    ]));
    const simple = (text: string, change: (letter: string) => string) =>
      Array.from(text, (letter) => change(letter).length === letter.length ? change(letter) : letter).join(
        "",
      );
    for (const [at, title] of titles.entries()) {
      const letters = [...title];
      for (let start = 0; start < letters.length; start += 2) {
        const part = letters.slice(start, start + 5).join("");
        // A letter without a lower case of its own is only found as it is.
        const spelled = /[İı]/.test(part) ? [part] : [part, simple(part, (one) => one.toLowerCase())];
        if (!/[İıßΟΔΣς]/.test(part)) spelled.push(simple(part, (one) => one.toUpperCase()));
        for (const search of spelled) {
          const found = (await store.listSessions({ search })).map(({ title }) => title);
          assertEquals([search, found.includes(title)], [search, true], `title ${at}`);
        }
      }
    }
    assertEquals((await store.listSessions({ search: "οδοσ" })).map(({ title }) => title), [titles[1]]);
    assertEquals((await store.listSessions({ search: "ПРИВЕТ" })).map(({ title }) => title), [titles[0]]);
  });

  test("listSessions() omits forks with an existing parent on request", async (store) => {
    await store.commit([sessionRecord("c", "a"), sessionRecord("d", "c"), sessionRecord("e", "b")]);
    const list = async (options?: Parameters<Store["listSessions"]>[0]) =>
      (await store.listSessions(options)).map(({ id }) => id);
    assertEquals(await list(), ["e", "d", "c", "b", "a"]);
    assertEquals(await list({ forks: false }), ["b", "a"]);
    await store.deleteSession("a");
    assertEquals(await list({ forks: false }), ["c", "b"]);
    assertEquals(await list({ forks: false, after: "c" }), ["b"]);
    assertEquals(await store.getSession("c"), {
      id: "c",
      kind: "agent",
      createdAtMs: 1,
      settings: {},
      parent: "a",
    });
    for (const parent of ["none", "f"]) {
      await assertRejects(
        () => store.commit([sessionRecord("f", parent)]),
        Error,
        `Cannot find session "${parent}"`,
      );
    }
  });

  test("commit() copies the parent's archive to a fork, which outlives the parent", async (store) => {
    const [before, other] = [await store.archive("a").put("before"), await store.archive("b").put("other")];
    await store.commit([sessionRecord("c", "a")]);
    const [after, own] = [await store.archive("a").put("after"), await store.archive("c").put("own")];
    const texts = (id: string) =>
      Promise.all([before, after, own, other].map((ref) => store.archive(id).get(ref)));
    assertEquals(await texts("c"), ["before", undefined, "own", undefined]);
    assertEquals(await texts("a"), ["before", "after", undefined, undefined]);
    await store.commit([{
      type: "session",
      id: "d",
      kind: "agent",
      createdAtMs: 1,
      settings: {},
      archiveOf: "a",
    }]);
    assertEquals(await texts("d"), ["before", "after", undefined, undefined]);
    // It continues from there, but is no fork any more: every list has it.
    assertEquals((await store.listSessions({ forks: false })).map(({ id }) => id), ["d", "b", "a"]);
    assertEquals((await store.getSession("d"))?.parent, undefined);
    await store.deleteSession("a");
    assertEquals(await texts("c"), ["before", undefined, "own", undefined]);
    assertEquals(await texts("d"), ["before", "after", undefined, undefined]);
  });

  test("commit() numbers the events of each session from 1, also after a restart", async (store, open) => {
    assertEquals([await store.lastEvent("a"), await store.readEvents("a")], [0, []]);
    await store.commit([
      { type: "events", sessionId: "a", after: 0, events: [delta("1")] },
      { type: "events", sessionId: "b", after: 0, events: [delta("other")] },
      { type: "events", sessionId: "a", after: 1, events: [delta("2")] },
    ]);
    await store.close();
    const later = await open();
    assertEquals(await later.lastEvent("a"), 2);
    await later.commit([{ type: "events", sessionId: "a", after: 2, events: [delta("3")] }]);
    assertEquals(
      await later.readEvents("a"),
      ["1", "2", "3"].map((text, index) => ({ number: index + 1, event: delta(text) })),
    );
    await later.close();
  });

  test("commit() refuses events after another than the last", async (store) => {
    await store.commit([{ type: "events", sessionId: "a", after: 0, events: [delta("1"), delta("2")] }]);
    for (const after of [0, 1, 3]) {
      const error = await assertRejects(
        () => store.commit([{ type: "events", sessionId: "a", after, events: [] }]),
        StoreError,
      );
      assertEquals([error.code, error.message], [
        "conflict",
        `Cannot append after event ${after} of session "a": its last event is 2. ` +
        "Read the newer events, and append after them.",
      ]);
    }
    const racing = await Promise.allSettled(
      ["3", "4"].map((text) =>
        store.commit([{ type: "events", sessionId: "a", after: 2, events: [delta(text)] }])
      ),
    );
    assertEquals(racing.map(({ status }) => status).sort(), ["fulfilled", "rejected"]);
    assertEquals(await store.lastEvent("a"), 3);
  });

  test("readEvents() filters by number and type, with a limit", async (store) => {
    const events = [delta("1"), { type: "step_end" }, delta("3"), { type: "turn_end" }];
    await store.commit([{ type: "events", sessionId: "a", after: 0, events }]);
    const numbers = async (options: Parameters<Store["readEvents"]>[1]) =>
      (await store.readEvents("a", options)).map(({ number }) => number);
    assertEquals(await numbers({ after: 2 }), [3, 4]);
    assertEquals(await numbers({ after: 9 }), []);
    assertEquals(await numbers({ limit: 2 }), [1, 2]);
    assertEquals(await numbers({ types: ["turn_end", "step_end", "'none"] }), [2, 4]);
    assertEquals(await numbers({ types: [] }), []);
    assertEquals(await numbers({ after: 1, types: ["text_delta"], limit: 1 }), [3]);
  });

  test("commit() is atomic, whichever record is refused", async (store, open) => {
    const circular: Record<string, unknown> = { type: "loop" };
    circular.self = circular;
    const ref = await archiveRef("text");
    await store.claimKey(request);
    await store.commit([{ type: "state", sessionId: "b", name: "x", value: 1 }]);
    const good: StoreRecord[] = [
      sessionRecord("c"),
      { type: "events", sessionId: "a", after: 0, events: [delta("1")] },
      { type: "events", sessionId: "c", after: 0, events: [delta("1")] },
      { type: "state", sessionId: "a", name: "x", value: 1 },
      { type: "state", sessionId: "b", name: "x", value: 2 },
      { type: "names", sessionId: "b", names: ["n"] },
      { type: "archive", sessionId: "c", ref, content: "text" },
      { type: "document", kind: "response", id: "r", sessionId: "c", value: 1 },
      { type: "response", ...key, response: 1, sessionId: "c" },
    ];
    const bad: StoreRecord[] = [
      sessionRecord("a"),
      sessionRecord("c"),
      { type: "events", sessionId: "a", after: 0, events: [delta("2")] },
      { type: "events", sessionId: "b", after: 0, events: [delta("1"), circular as { type: string }] },
      { type: "events", sessionId: "none", after: 0, events: [] },
      { type: "state", sessionId: "none", name: "x", value: 1 },
      { type: "names", sessionId: "none", names: [] },
      { type: "state", sessionId: "a", name: "x", value: undefined },
      { type: "archive", sessionId: "none", ref, content: "text" },
      { type: "archive", sessionId: "c", ref, content: "other content" },
      { type: "document", kind: "response", id: "r", sessionId: "none", value: 1 },
      { type: "response", scope: "s", key: "not claimed", response: 1 },
      { type: "response", ...key, response: 2 },
    ];
    for (const record of bad) await assertRejects(() => store.commit([...good, record]));
    const found = async (store: Store) => [
      (await store.listSessions()).map(({ id, lastEvent }) => [id, lastEvent]),
      await store.readState("a", "x"),
      await store.readState("b", "x"),
      await store.archive("c").get(ref),
      await store.getDocument("response", "r"),
      (await store.findByName(["n"])).map(({ id }) => id),
    ];
    assertEquals(await found(store), [[["b", 0], ["a", 0]], undefined, 1, undefined, undefined, []]);
    assertEquals(await store.claimKey(request), { state: "running" });
    await store.commit(good);
    await store.close();
    const later = await open();
    assertEquals(await found(later), [
      [["c", 1], ["b", 0], ["a", 1]],
      1,
      2,
      "text",
      { kind: "response", id: "r", sessionId: "c", value: 1 },
      ["b"],
    ]);
    assertEquals(await later.claimKey(request), { state: "done", response: 1 });
    await later.close();
  });

  test("commit() replaces the named state only", async (store) => {
    const save = (name: string, value: unknown) =>
      store.commit([{ type: "state", sessionId: "a", name, value }]);
    const value = { deep: [1] };
    await save("x", 1);
    await save("y", value);
    await save("x", null);
    value.deep.push(2);
    assertEquals(await Promise.all(["x", "y", "z"].map((name) => store.readState("a", name))), [
      null,
      { deep: [1] },
      undefined,
    ]);
    assertEquals([await store.readState("b", "x"), await store.lastEvent("a")], [undefined, 0]);
  });

  test(
    "sessionsWith() returns the sessions with work to do, and their states",
    async (store, open) => {
      const state = (sessionId: string, name: string, value: unknown): StoreRecord => ({
        type: "state",
        ...{ sessionId, name, value },
      });
      await store.commit([
        state("a", "turn", { atMs: 1 }),
        state("b", "turn", null),
        state("b", "queue", [2]),
      ]);
      await store.commit([state("a", "title", "turn")]);
      const found = async (from: Store) =>
        await Promise.all(
          (["turn", "pendingApproval", "queue"] as const).map(async (name) =>
            (await from.sessionsWith(name)).map(({ id, value }) => ({ id, value }))
          ),
        );
      assertEquals(await found(store), [[{ id: "a", value: { atMs: 1 } }], [], [{ id: "b", value: [2] }]]);
      await store.commit([state("a", "turn", null), state("a", "pendingApproval", 3), state("b", "turn", 4)]);
      await store.deleteSession("b");
      assertEquals(await found(store), [[], [{ id: "a", value: 3 }], []]);
      await store.close();
      const again = await open();
      assertEquals(await found(again), [[], [{ id: "a", value: 3 }], []]);
      await again.close();
    },
  );

  test("reading a missing session is refused", async (store) => {
    for (
      const read of [
        () => store.readEvents("c"),
        () => store.lastEvent("c"),
        () => store.readState("c", "x"),
        () => store.archive("c").put("text"),
      ]
    ) await assertRejects(read, Error, 'Cannot find session "c": there is no such session');
  });

  test("getDocument() returns a document until its session is deleted", async (store) => {
    const first = { kind: "response", id: "r", sessionId: "a", value: { output: [] } };
    const other = { kind: "conversation", id: "r", sessionId: "b", value: null };
    const get = () =>
      Promise.all([store.getDocument("response", "r"), store.getDocument("conversation", "r")]);
    await store.commit([{ type: "document", ...first }, { type: "document", ...other }]);
    assertEquals(await get(), [first, other]);
    assertEquals(await store.getDocument("response", "none"), undefined);
    assertEquals(await store.getDocument("none", "r"), undefined);
    const second = { ...first, sessionId: "b", value: 2 };
    await store.commit([{ type: "document", ...second }]);
    await store.deleteSession("a");
    assertEquals(await get(), [second, other]);
    await store.deleteSession("b");
    assertEquals(await get(), [undefined, undefined]);
  });

  test("listDocuments() lists documents by kind; those without a session stay until deleted", async (store) => {
    const document = (id: string, value: unknown) => ({ kind: "key", id, value });
    const ids = ["b", "a", "Z", "\ud800 \0"];
    await store.commit(ids.map((id) => ({ type: "document", ...document(id, id) })));
    await store.commit([{ type: "document", kind: "other", id: "a", sessionId: "a", value: 1 }]);
    const listed = async () => (await store.listDocuments("key")).map(({ id }) => id).sort();
    assertEquals(await listed(), [...ids].sort());
    await store.deleteSession("a");
    assertEquals(await store.listDocuments("other"), []);
    await store.commit([
      { type: "delete_document", kind: "key", id: "b" },
      { type: "delete_document", kind: "key", id: "none" },
      { type: "document", ...document("a", 2) },
    ]);
    assertEquals(await listed(), ["Z", "a", "\ud800 \0"]);
    assertEquals(await store.getDocument("key", "a"), document("a", 2));
    assertEquals(await store.getDocument("key", "b"), undefined);
  });

  test("commit() replaces a document only if it is the expected one", async (store, open) => {
    const document = (value: unknown, id = "a") => ({ kind: "key", id, value });
    const write = (value: unknown, replaces: StoredDocument | null, id = "a") =>
      store.commit([
        { type: "state", sessionId: "a", name: "x", value },
        { type: "document", ...document(value, id), replaces },
      ]);
    const refused = async (value: unknown, replaces: StoredDocument | null, id?: string) => {
      const { code, message } = await assertRejects(() => write(value, replaces, id), StoreError);
      assertEquals([code, message], [
        "conflict",
        `Cannot write document ${
          JSON.stringify(id ?? "a")
        } of kind "key": it was changed since it was read. ` +
        "Read it again and retry.",
      ]);
    };
    await refused(1, document(1), "\ud800 \0");
    await write({ b: "é\0", 1: null }, null);
    const read = (await store.getDocument("key", "a"))!;
    await refused(2, null);
    await refused(2, document(1));
    await refused(2, { ...read, sessionId: "a" });
    assertEquals(await store.readState("a", "x"), { b: "é\0", 1: null });
    // An equal document may have been written by the same commit, sent before.
    await write({ b: "é\0", 1: null }, null);
    await write(2, read);
    await refused(3, read);
    assertEquals(await store.getDocument("key", "a"), document(2));
    await store.commit([
      { type: "delete_document", kind: "key", id: "a" },
      { type: "document", ...document(4), replaces: null },
    ]);
    const racing = await Promise.allSettled([5, 6, 7].map((value) => write(value, document(4))));
    assertEquals(racing.map(({ status }) => status).sort(), ["fulfilled", "rejected", "rejected"]);
    const added = await Promise.allSettled([8, 9].map((value) => write(value, null, "new")));
    assertEquals(added.map(({ status }) => status).sort(), ["fulfilled", "rejected"]);
    await store.close();
    const later = await open();
    const stored = await later.listDocuments("key");
    assertEquals(stored.map(({ id }) => id), ["a", "new"]);
    await later.commit(stored.map((replaces) => ({ type: "document", ...replaces, value: 10, replaces })));
    assertEquals(await later.listDocuments("key"), [document(10), document(10, "new")]);
    await later.close();
  });

  test("listSessions() filters by key", async (store) => {
    const made = (id: string, by?: string) =>
      ({ type: "session", id, kind: "agent", createdAtMs: 1, settings: { by: "eve" }, by }) as const;
    await store.commit([made("x", "alice"), made("y", "alic"), made("z"), made("w", "alice")]);
    const of = async (by: string) => (await store.listSessions({ by })).map(({ id }) => id);
    assertEquals([await of("alice"), await of("alic"), await of("eve"), await of("none")], [
      ["w", "x"],
      ["y"],
      [],
      [],
    ]);
    assertEquals((await store.listSessions({ by: "alice", kind: "agent", after: "w" })).map(({ by }) => by), [
      "alice",
    ]);
    assertEquals((await store.getSession("x"))?.by, "alice");
  });

  test("archive() returns every code unit of a text by its reference", async (store) => {
    const archive = store.archive("a");
    const anyUnits = fc.array(fc.integer({ min: 0, max: 0xffff })).map((units) =>
      String.fromCharCode(...units)
    );
    await fc.assert(
      fc.asyncProperty(fc.oneof(fc.string({ unit: codePoints() }), anyUnits), async (content) => {
        const ref = await archive.put(content);
        assertEquals(ref, await archiveRef(content));
        assertEquals(await archive.get(ref), content);
      }),
      { examples: [[""], ["\ufeffbyte order mark"], ["\ud83d"], ["\ude00\ud83d"], ["a\0b"]] },
    );
  });

  test("archive() returns only the session's own texts", async (store) => {
    const ref = await store.archive("a").put("secret");
    assertEquals(await store.archive("b").get(ref), undefined);
    assertEquals(await store.archive("none").get(ref), undefined);
    assertEquals(await store.archive("a").get("nothing"), undefined);
    await store.archive("b").put("secret");
    assertEquals(await store.archive("a").get(ref), "secret");
    assertEquals(await store.archive("b").get(ref), "secret");
    await store.deleteSession("b");
    await store.commit([sessionRecord("b")]);
    assertEquals(await store.archive("b").get(ref), undefined);
  });

  testKinds(test);
  testKeys(test);
  testDeliveries(test);

  let nowMs = 0;
  test("idleSessions() returns idle sessions, the longest idle first", async (store) => {
    const idle = (beforeMs: number, limit = 10) => store.idleSessions({ kind: "agent", beforeMs, limit });
    const start = nowMs;
    nowMs += DAY_MS;
    await store.commit([sessionRecord("c")]);
    await store.commit([{ type: "events", sessionId: "a", after: 0, events: [delta("1")] }]);
    assertEquals([await idle(start - 1), await idle(start)], [[], ["b"]]);
    nowMs += DAY_MS;
    await store.commit([{ type: "events", sessionId: "a", after: 1, events: [delta("2")] }]);
    assertEquals([await idle(nowMs), await idle(nowMs, 2)], [["b", "c", "a"], ["b", "c"]]);
    await store.deleteSession("b");
    assertEquals(await idle(nowMs), ["c", "a"]);
  }, { now: () => nowMs });

  test("close() is idempotent, and later calls fail", async (store) => {
    const archive = store.archive("a");
    await store.close();
    await store.close();
    await assertRejects(() => store.getSession("a"));
    await assertRejects(() => store.commit([sessionRecord("c")]));
    await assertRejects(() => archive.put("text"));
  });
}
