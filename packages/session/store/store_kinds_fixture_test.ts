/** Tests of kinds, names and limits of sessions, for any store. @module */
import { assertEquals, assertRejects } from "@std/assert";
import { randomBytes } from "node:crypto";
import { archiveRef } from "@tare/prune";
import type { Store } from "@tare/session";
import type { SessionRecord, StoreRecord } from "@tare/session/internal";
import { DAY_MS, sessionRecord, type TestOfStore } from "./store_suite_fixture_test.ts";

const gatewayRecord = (id: string): StoreRecord => ({ ...sessionRecord(id), kind: "gateway" });
const names = (sessionId: string, ...names: readonly string[]): StoreRecord => ({
  type: "names",
  sessionId,
  names,
});
const found = async (store: Store, wanted: readonly string[], limit?: number) =>
  (await store.findByName(wanted, limit)).map(({ id }) => id);
const MUCH = Number.MAX_SAFE_INTEGER;

export function testKinds(test: TestOfStore): void {
  test("listSessions(), countSessions() and idleSessions() filter by kind", async (store) => {
    await store.commit([gatewayRecord("c"), sessionRecord("d"), gatewayRecord("e")]);
    const ids = async (kind?: SessionRecord["kind"], more: { limit?: number; after?: string } = {}) =>
      (await store.listSessions({ ...(kind && { kind }), ...more })).map(({ id, kind }) => `${id} ${kind}`);
    assertEquals(await ids(), ["e gateway", "d agent", "c gateway", "b agent", "a agent"]);
    assertEquals(await ids("agent", { limit: 2 }), ["d agent", "b agent"]);
    assertEquals(await ids("gateway", { after: "e" }), ["c gateway"]);
    assertEquals(
      await Promise.all(
        [undefined, "agent" as const, "gateway" as const].map((kind) => store.countSessions(kind)),
      ),
      [5, 3, 2],
    );
    const idle = (kind: SessionRecord["kind"]) => store.idleSessions({ kind, beforeMs: MUCH, limit: 9 });
    assertEquals([await idle("agent"), await idle("gateway")], [["a", "b", "d"], ["c", "e"]]);
    await store.deleteSession("c");
    assertEquals([await store.countSessions("gateway"), await idle("gateway")], [1, ["e"]]);
  });

  test(
    "findByName() orders sessions by name and then by the newest naming",
    async (store, open) => {
      await store.commit([sessionRecord("c"), names("a", "x", "y"), names("b", "y", "z"), names("c", "z")]);
      assertEquals(await found(store, ["y"]), ["b", "a"]);
      assertEquals(await found(store, ["x", "y", "z"]), ["a", "b", "c"]);
      assertEquals(await found(store, ["z", "y", "x"]), ["c", "b", "a"]);
      await store.commit([names("a", "y", "new")]);
      await store.close();
      const later = await open();
      assertEquals([await found(later, ["x"]), await found(later, [])], [[], []]);
      assertEquals(await found(later, ["y", "x", "new"]), ["a", "b"]);
      assertEquals(await found(later, ["z", "new"], 2), ["c", "b"]);
      const many = Array.from({ length: 70 }, (_, at) => `other ${at}`);
      assertEquals(await found(later, [...many, "z"]), ["c", "b"]);
      await later.commit([names("b", "z")]);
      assertEquals(await found(later, ["z"]), ["b", "c"]);
      await later.deleteSession("b");
      assertEquals([await found(later, ["z"]), await found(later, ["y"])], [["c"], ["a"]]);
      await later.close();
    },
  );

  test("readTexts() returns a session's texts, and a fork's inherited ones", async (store) => {
    const contents = ["one".repeat(1_000), "\ud83d other", "own"];
    const refs = [...await Promise.all(contents.map(archiveRef)), "0".repeat(16)];
    const put = (sessionId: string, at: number): StoreRecord => ({
      type: "archive",
      sessionId,
      ref: refs[at]!,
      content: contents[at]!,
    });
    await store.commit([put("a", 0), put("a", 1), sessionRecord("fork", "a"), put("fork", 2), put("b", 2)]);
    const texts = async (id: string) => [...(await store.readTexts(id, refs)).values()].sort();
    assertEquals(await texts("a"), contents.slice(0, 2).sort());
    assertEquals(await texts("fork"), contents.toSorted());
    assertEquals([await texts("b"), await texts("none")], [["own"], []]);
    assertEquals(await store.readTexts("a", [refs[1]!]), new Map([[refs[1]!, contents[1]!]]));
    const wrong: StoreRecord = { type: "archive", sessionId: "a", ref: refs[0]!, content: "something else" };
    await assertRejects(() => store.commit([names("b", "n"), wrong]), Error, "other content");
    assertEquals(await found(store, ["n"]), []);
  });

  test("readTotals() returns totals by kind, key and day, including deleted sessions", async (store) => {
    const add = (sessionId: string, day: string, totals: Readonly<Record<string, number>>): StoreRecord => ({
      type: "totals",
      sessionId,
      added: [{ day, about: "\ud83d", totals }, { day: "", about: "all", totals }],
    });
    await store.commit([
      { ...sessionRecord("c"), by: "alice" },
      gatewayRecord("d"),
      add("a", "2026-01-31", { usd: 1 }),
      add("c", "2026-01-31", { usd: 2, calls: 1 }),
      add("d", "2026-02-01", { usd: 4 }),
    ]);
    await store.commit([add("c", "2026-02-01", { usd: 8 })]);
    await assertRejects(() => store.commit([add("a", "2026-02-01", { usd: 64 }), add("none", "", {})]));
    const sum = async (which: Partial<Parameters<Store["readTotals"]>[0]>) => {
      const all = await store.readTotals({ from: "0000", to: "9999", ...which });
      return [
        all.reduce((sum, { totals: { usd = 0 } }) => sum + usd, 0),
        new Set(all.map(({ about }) => about)),
      ];
    };
    const read = async () => [
      await sum({}),
      await sum({ kind: "agent" }),
      await sum({ by: "alice" }),
      await sum({ from: "2026-02-01" }),
      await sum({ to: "2026-01-31", kind: "gateway" }),
      await sum({ from: "", to: "" }),
    ];
    const days = new Set(["\ud83d"]);
    const all = [[15, days], [11, days], [10, days], [12, days], [0, new Set()], [15, new Set(["all"])]];
    assertEquals(await read(), all);
    await store.deleteSession("c");
    assertEquals(await store.expireSessions({ kind: "gateway", beforeMs: MUCH, maxBytes: 0 }), 1);
    assertEquals(await read(), all);
    const [{ by, totals } = { totals: {} }] = await store.readTotals({
      from: "2026-01-31",
      to: "2026-01-31",
      by: "alice",
    });
    assertEquals([by, totals], ["alice", { usd: 2, calls: 1 }]);
  });

  let nowMs = 10 * DAY_MS;
  test(
    "expireSessions() deletes old sessions of a kind, and the longest idle beyond the size limit",
    async (store) => {
      const start = nowMs;
      const text = (name: string) => randomBytes(15_000).toString("base64") + name;
      for (const id of ["c", "d", "e"]) {
        const content = text(id);
        await store.commit([
          gatewayRecord(id),
          names(id, "n"),
          { type: "archive", sessionId: id, ref: await archiveRef(content), content },
          { type: "state", sessionId: id, name: "x", value: id },
        ]);
        nowMs += DAY_MS;
      }
      const expire = async (beforeMs: number, maxBytes: number) => [
        await store.expireSessions({ kind: "gateway", beforeMs, maxBytes }),
        (await store.listSessions({ kind: "gateway" })).map(({ id }) => id),
      ];
      assertEquals(await expire(start, MUCH), [0, ["e", "d", "c"]]);
      assertEquals(await expire(start + 1, MUCH), [1, ["e", "d"]]);
      const used: StoreRecord[] = [
        { type: "state", sessionId: "d", name: "x", value: 2 },
        names("d", "n"),
        { type: "events", sessionId: "d", after: 0, events: [{ type: "call" }] },
      ];
      for (const record of used) {
        await store.commit([record]);
        assertEquals(await store.idleSessions({ kind: "gateway", beforeMs: nowMs, limit: 9 }), ["e", "d"]);
        assertEquals(await store.idleSessions({ kind: "gateway", beforeMs: nowMs - 1, limit: 9 }), ["e"]);
        nowMs += DAY_MS;
      }
      assertEquals(await expire(0, 25_000), [1, ["d"]]);
      // It is measured again after growing.
      const more = text("more");
      await store.archive("d").put(more);
      assertEquals(await expire(0, 25_000), [1, []]);
      assertEquals(await store.readTexts("d", [await archiveRef(more)]), new Map());
      assertEquals([await store.countSessions("agent"), await found(store, ["n"])], [2, []]);
    },
    { now: () => nowMs },
  );
}
