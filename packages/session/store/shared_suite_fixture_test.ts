/** Tests of any shared store. @module */
import { assert, assertEquals, assertRejects, assertStrictEquals } from "@std/assert";
import { randomBytes } from "node:crypto";
import { archiveRef } from "@tare/prune";
import { type Store, StoreError } from "@tare/session";
import type { StoreRecord } from "@tare/session/internal";
import {
  assertFenced,
  delta,
  events,
  held,
  listen,
  type Opening,
  openingsTest,
  type SharedPlace,
} from "./openings_fixture_test.ts";
import { testMessages } from "./shared_messages_fixture_test.ts";
import { key, request, sessionRecord } from "./store_suite_fixture_test.ts";

/** Tests the shared stores that `place` opens. `name` is the function that opens them. */
export function testSharedStore(name: string, place: SharedPlace): void {
  const test = openingsTest(name, place);
  testMessages(test);

  test(
    "hold() grants a session to one opening at a time, with an increasing fence",
    async (one, two) => {
      const free = { fence: 0, holder: "none", lastEvent: 0 } as const;
      assertEquals([await one.shared.inspect("a"), await two.shared.inspect("a")], [free, free]);
      const first = await held(one, "a");
      assert(first.fence > 0);
      assertEquals([first.isSure(), first.signal.aborted], [true, false]);
      assertStrictEquals(await one.shared.hold("a"), first);
      assertEquals(await two.shared.hold("a"), undefined);
      assertEquals(await one.shared.inspect("a"), { fence: first.fence, holder: "this", lastEvent: 0 });
      assertEquals(await two.shared.inspect("a"), { fence: first.fence, holder: "other", lastEvent: 0 });
      await one.commit([events("a", 0, "1", "2")]);
      await two.shared.release("a");
      assertEquals(await two.shared.hold("a"), undefined);
      await one.shared.release("a");
      await one.shared.release("a");
      assertEquals(await two.shared.inspect("a"), { fence: first.fence, holder: "none", lastEvent: 2 });
      const second = await held(two, "a");
      assert(second.fence > first.fence);
      assertEquals([first.isSure(), second.isSure()], [false, true]);
      assertEquals(await one.shared.hold("a"), undefined);
      assert(await one.shared.hold("b"));
    },
  );

  test("hold() succeeds for one of several concurrent openings", async (one, two, { open }) => {
    const openings = [one, two, await open()];
    for (let round = 0; round < 5; round++) {
      const holds = await Promise.all(openings.map(({ shared }) => shared.hold("a")));
      assertEquals(holds.filter((hold) => hold).length, 1);
      await openings[holds.findIndex((hold) => hold)]!.shared.release("a");
    }
    const [same, again] = await Promise.all([one.shared.hold("a"), one.shared.hold("a")]);
    assertStrictEquals(same, again);
  });

  test("hold(), inspect() and request() refuse a missing session", async ({ shared }) => {
    for (const act of [() => shared.hold("c"), () => shared.inspect("c"), () => shared.request("c", 1)]) {
      await assertRejects(act, Error, 'Cannot find session "c": there is no such session');
    }
    await shared.release("c");
  });

  test("listSessions() reports which sessions are held", async (one, two, { stop }) => {
    const isHeld = async ({ listSessions }: Store) =>
      (await listSessions()).map(({ id, isHeld }) => [id, isHeld]);
    const { gone } = listen(two);
    await held(one, "a");
    await held(two, "b");
    assertEquals([await isHeld(one), await isHeld(two)], [
      [["b", true], ["a", true]],
      [["b", true], ["a", true]],
    ]);
    await two.shared.release("b");
    assertEquals(await isHeld(one), [["b", undefined], ["a", true]]);
    await stop(one);
    await gone();
    assertEquals(await isHeld(two), [["b", undefined], ["a", undefined]]);
  });

  test("metrics() reports lease, holds and takeovers", async (one, two, { stop }) => {
    const seenBy = ({ shared }: Opening) => {
      const { leaseMs, lostLeases, held, takenOver } = shared.metrics();
      return [leaseMs > 0, lostLeases, held, takenOver];
    };
    await held(one, "a");
    await held(two, "b");
    await two.shared.release("b");
    assertEquals([seenBy(one), seenBy(two)], [[true, 0, 1, 0], [true, 0, 0, 0]]);
    const { gone } = listen(two);
    await stop(one);
    await gone();
    await held(two, "a");
    await held(two, "a");
    await held(two, "b");
    assertEquals([seenBy(one)[0], seenBy(two)], [false, [true, 0, 2, 1]]);
  });

  test("commit() and other changes of a session are fenced without its hold", async (one, two) => {
    const ref = await archiveRef("text");
    await held(one, "a");
    await held(one, "b");
    await one.archive("a").put("there");
    await one.shared.release("b");
    for (const id of ["a", "b"]) {
      const records: StoreRecord[] = [
        events(id, 0, "1"),
        { type: "state", sessionId: id, name: "x", value: 1 },
        { type: "archive", sessionId: id, ref, content: "text" },
      ];
      for (const record of records) {
        await assertFenced(() => two.commit([sessionRecord("c"), record]), id);
      }
      await assertFenced(() => two.archive(id).put("text"), id);
      await assertFenced(() => two.deleteSession(id), id);
    }
    assertEquals(
      (await one.listSessions()).map(({ id, lastEvent }) => [id, lastEvent]),
      [["b", 0], ["a", 0]],
    );
    assertEquals(await one.readState("a", "x"), undefined);
    assertEquals(await one.archive("a").get(ref), undefined);
    assertEquals(await two.archive("a").get(await archiveRef("there")), "there");
    assertEquals(await two.deleteSession("c"), false);
    await assertRejects(() => two.archive("c").put("text"), Error, 'Cannot find session "c"');
  });

  test("commit() that writes to two sessions needs the hold of both", async (one, two) => {
    await held(one, "a");
    await held(two, "b");
    await assertFenced(() => one.commit([events("a", 0, "1"), events("b", 0, "1")]), "b");
    assertEquals([await one.lastEvent("a"), await one.lastEvent("b")], [0, 0]);
    await two.shared.release("b");
    await held(one, "b");
    await one.commit([events("a", 0, "1"), events("b", 0, "1")]);
    assertEquals([await two.lastEvent("a"), await two.lastEvent("b")], [1, 1]);
  });

  test("commit() needs no hold for a new session, for documents and for responses", async (one, two) => {
    await held(one, "a");
    await one.archive("a").put("text");
    await two.claimKey(request);
    await two.commit([
      sessionRecord("c", "a"),
      events("c", 0, "1"),
      { type: "state", sessionId: "c", name: "x", value: 1 },
      { type: "document", kind: "response", id: "r", sessionId: "a", value: 1 },
      { type: "response", ...key, response: 1, sessionId: "a" },
    ]);
    assertEquals(await one.archive("c").get(await archiveRef("text")), "text");
    assertEquals([await one.lastEvent("c"), await one.readState("c", "x")], [1, 1]);
    assertEquals((await one.getDocument("response", "r"))?.value, 1);
    await assertFenced(() => two.commit([events("c", 1, "2")]), "c");
  });

  test("deleteSession() deletes a session for all openings", async (one, two) => {
    await held(one, "a");
    assertEquals([await one.deleteSession("a"), await one.deleteSession("a")], [true, false]);
    assertEquals(await two.getSession("a"), undefined);
    await assertRejects(() => two.shared.hold("a"), Error, 'Cannot find session "a"');
    await one.commit([sessionRecord("a")]);
    await assertFenced(() => one.commit([events("a", 0, "1")]), "a");
    assert(await two.shared.hold("a"));
  });

  test(
    "hold() takes over a suspended opening's session, which that one can't write any more",
    async (one, two, { stop, goOn }) => {
      const { gone } = listen(two);
      const [lost, alsoLost] = [await held(one, "a"), await held(one, "b")];
      await one.commit([events("a", 0, "1")]);
      assertEquals(await two.shared.abandonedSessions(), []);
      await stop(one);
      assertEquals([lost.isSure(), alsoLost.isSure()], [false, false]);
      await gone();
      assertEquals((await two.shared.abandonedSessions()).toSorted(), ["a", "b"]);
      assertEquals(await two.shared.inspect("a"), { fence: lost.fence, holder: "expired", lastEvent: 1 });
      const taken = await held(two, "a");
      assert(taken.fence > lost.fence);
      assertEquals(await two.shared.abandonedSessions(), ["b"]);
      await two.commit([events("a", 1, "2")]);
      goOn(one);
      await assertFenced(() => one.commit([events("a", 1, "other")]), "a");
      for (const { signal } of [lost, alsoLost]) {
        if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve));
      }
      await assertFenced(() => one.commit([events("b", 0, "other")]), "b");
      assertEquals([lost.isSure(), taken.isSure()], [false, true]);
      assertEquals(await one.shared.inspect("a"), { fence: taken.fence, holder: "other", lastEvent: 2 });
      assertEquals((await one.readEvents("a")).map(({ event }) => event), [delta("1"), delta("2")]);

      const own = await held(one, "b");
      assert(own.fence > alsoLost.fence);
      await one.commit([events("b", 0, "3")]);
      assertEquals(await two.shared.inspect("b"), { fence: own.fence, holder: "other", lastEvent: 1 });
      assertEquals(await two.shared.abandonedSessions(), []);
    },
  );

  test(
    "holdAndCommit() holds a session for one commit, and detects holds in between",
    async (one, two) => {
      const write = ({ shared }: Opening, fence: number, ...records: StoreRecord[]) =>
        shared.holdAndCommit({ sessionId: "a", fence, records });
      const state = (value: number): StoreRecord => ({ type: "state", sessionId: "a", name: "x", value });
      const seen = async () => [await one.shared.inspect("a"), await two.readState("a", "x")];
      const free = (fence: number, lastEvent: number) => ({ fence, holder: "none", lastEvent });
      assertEquals(
        await write(one, 0, state(1), events("a", 0, "1"), { type: "names", sessionId: "a", names: ["n"] }),
        1,
      );
      assertEquals(await seen(), [free(1, 1), 1]);
      assertEquals(await two.findByName(["n"]), [{ id: "a", fence: 1 }]);
      assertEquals([await write(two, 0, state(2)), await write(two, 1, state(3))], [undefined, 2]);
      assertEquals(await write(one, 1, state(4)), undefined);
      assertEquals(await seen(), [free(2, 1), 3]);
      await assertFenced(() => one.commit([state(5)]), "a");
      await assertRejects(
        () => write(one, 2, state(6), events("a", 0, "2")),
        StoreError,
        "its last event is 1",
      );
      await assertFenced(
        () => write(one, 2, state(6), { type: "state", sessionId: "b", name: "x", value: 1 }),
        "b",
      );
      assertEquals(await seen(), [free(2, 1), 3]);
      const hold = await held(two, "a");
      assertEquals(await Promise.all([one, two].map((opening) => write(opening, hold.fence, state(7)))), [
        undefined,
        undefined,
      ]);
      await two.commit([state(8)]);
      await two.shared.release("a");
      assertEquals([await write(one, 2, state(9)), await write(one, 3, state(10))], [undefined, 4]);
      assertEquals(await seen(), [free(4, 1), 10]);
      const racing = await Promise.all([one, two, one, two].map((opening) => write(opening, 4, state(11))));
      assertEquals(racing.filter((fence) => fence !== undefined), [5]);
    },
  );

  test(
    "holdAndCommit() holds a session that it creates, and needs an existing one otherwise",
    async (one, two) => {
      const records: StoreRecord[] = [
        { ...sessionRecord("c", "a"), kind: "gateway" },
        { type: "state", sessionId: "c", name: "x", value: 1 },
        events("c", 0, "1"),
      ];
      const make = ({ shared }: Opening, fence = 0) =>
        shared.holdAndCommit({ sessionId: "c", fence, records });
      assertEquals(await make(one), 1);
      assertEquals(await two.shared.inspect("c"), { fence: 1, holder: "none", lastEvent: 1 });
      await assertRejects(() => make(two), Error, 'Cannot create session "c"');
      await two.shared.holdAndCommit({ sessionId: "c", fence: 1, records: records.slice(1, 2) });
      assertEquals((await one.shared.inspect("c")).fence, 2);
      const none = { sessionId: "none", fence: 0, records: [] };
      await assertRejects(() => one.shared.holdAndCommit(none), Error, 'Cannot find session "none"');
    },
  );

  test(
    "holdAndCommit() takes over a session of an opening that is gone",
    async (one, two, { stop, goOn }) => {
      const { gone } = listen(two);
      const lost = await held(one, "a");
      const records = [events("a", 0, "1")];
      const brief = { sessionId: "a", fence: lost.fence, records };
      assertEquals(await two.shared.holdAndCommit(brief), undefined);
      await stop(one);
      await gone();
      assertEquals(await two.shared.holdAndCommit(brief), lost.fence + 1);
      assertEquals(await two.shared.abandonedSessions(), []);
      goOn(one);
      await assertFenced(() => one.commit([events("a", 1, "2")]), "a");
      assertEquals((await one.readEvents("a")).map(({ event }) => event), [delta("1")]);
    },
  );

  test("expireSessions() retains held sessions", async (one, two) => {
    await held(one, "a");
    const all = { kind: "agent", beforeMs: Number.MAX_SAFE_INTEGER, maxBytes: 0 } as const;
    assertEquals(await two.expireSessions(all), 1);
    assertEquals((await two.listSessions()).map(({ id }) => id), ["a"]);
    await one.commit([events("a", 0, "1")]);
    await one.shared.release("a");
    assertEquals([await two.expireSessions(all), await one.countSessions()], [1, 0]);
  });

  test("expireSessions() deletes no newer session in place of a held one", async (one, two) => {
    await held(one, "a");
    await held(one, "b");
    for (const id of ["a", "b"]) await one.archive(id).put(randomBytes(15_000).toString("base64") + id);
    await one.shared.release("b");
    const limits = { kind: "agent", beforeMs: 0, maxBytes: 25_000 } as const;
    assertEquals(await two.expireSessions(limits), 0);
    await one.shared.release("a");
    assertEquals([await two.expireSessions(limits), (await two.listSessions()).map(({ id }) => id)], [1, [
      "b",
    ]]);
  });

  test(
    "countSessions() and readTotals() include all concurrent writes of several openings",
    async (one, two, { open }) => {
      const openings = [one, two, await open()];
      await Promise.all(openings.map(async ({ commit, deleteSession, shared }, opening) => {
        await Promise.all(Array.from({ length: 100 }, async (_, at) => {
          const id = `${opening} ${at}`;
          const totals = { calls: 1, usd: 0.5 };
          await commit([sessionRecord(id), {
            type: "totals",
            sessionId: id,
            added: [{ day: "", about: "", totals }],
          }]);
          if (at % 4 > 0) return;
          await shared.hold(id);
          await deleteSession(id);
        }));
      }));
      for (const { countSessions, readTotals } of openings) {
        const totals = (await readTotals({ from: "", to: "" })).map(({ totals }) => totals);
        const sum = (name: string) => totals.reduce((sum, its) => sum + (its[name] ?? 0), 0);
        assertEquals([await countSessions(), sum("calls"), sum("usd")], [227, 300, 150]);
      }
    },
  );

  test(
    "abandonedSessions() returns sessions of openings that are gone, until they are held or deleted",
    async (one, two, { open, stop }) => {
      const third = await open();
      const [heard, heardToo] = [listen(two), listen(third)];
      await held(one, "a");
      await held(one, "b");
      await stop(one);
      await Promise.all([heard.gone(), heardToo.gone()]);
      assertEquals((await third.shared.abandonedSessions()).toSorted(), ["a", "b"]);
      await held(two, "a");
      await two.shared.release("a");
      await held(third, "b");
      assertEquals([await two.shared.abandonedSessions(), await third.shared.abandonedSessions()], [[], []]);
    },
  );

  test("close() releases all sessions at once and notifies the others", async (one, two) => {
    const { gone } = listen(two);
    const hold = await held(one, "a");
    await one.close();
    await gone();
    assertEquals(hold.isSure(), false);
    assertEquals(await two.shared.abandonedSessions(), []);
    assertEquals(await two.shared.inspect("a"), { fence: hold.fence, holder: "none", lastEvent: 0 });
    assert((await held(two, "a")).fence > hold.fence);
  });
}
