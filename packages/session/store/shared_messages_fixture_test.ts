/** Tests of messages between openings, and of shared idempotency keys, for any store. @module */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { StoreError } from "@tare/session";
import type { HolderRequest, SessionSnapshot, StoreRecord } from "@tare/session/internal";
import { delta, events, held, listen, type Opening, type TestOfOpenings } from "./openings_fixture_test.ts";
import { key, other, request, sessionRecord } from "./store_suite_fixture_test.ts";

async function changedUntil(
  opening: Opening,
  sessionId: string,
  isSo: () => Promise<boolean>,
): Promise<void> {
  let changed = Promise.withResolvers<void>();
  const end = opening.shared.watch(sessionId, () => changed.resolve());
  try {
    while (!await isSo()) {
      await changed.promise;
      changed = Promise.withResolvers();
    }
  } finally {
    end();
  }
}

export function testMessages(test: TestOfOpenings): void {
  test(
    "request() reaches the holder of a session, which commits effect and answer together",
    async (one, two) => {
      const requested = Promise.withResolvers<HolderRequest>();
      listen(one, requested.resolve);
      await held(one, "a");
      const body = { steer: "Über\ud83d" };
      const answered = two.shared.request("a", body);
      const { id: requestId, ...request } = await requested.promise;
      assertEquals(request, { sessionId: "a", body });
      const answer: StoreRecord = { type: "answer", requestId, answer: { took: body } };
      await assertRejects(() => one.commit([answer, events("a", 7, "late")]), StoreError);
      await one.commit([events("a", 0, "steered"), answer]);
      assertEquals(await answered, { answer: { took: body } });
      const twice = `Cannot answer request "${requestId}"`;
      await assertRejects(() => one.commit([events("a", 1, "twice"), answer]), Error, twice);
      assertEquals((await two.readEvents("a")).map(({ event }) => event), [delta("steered")]);
      assertEquals(await two.shared.request("b", body), undefined);
    },
  );

  test("request() matches concurrent requests with their answers", async (one, two) => {
    const requests: string[] = [];
    listen(one, ({ id, body }) => {
      requests.push(id);
      one.commit([{ type: "answer", requestId: id, answer: body }]);
    });
    await held(one, "a");
    await held(one, "b");
    const bodies = Array.from({ length: 8 }, (_, index) => index);
    assertEquals(
      await Promise.all(bodies.map((body) => two.shared.request(body % 2 === 0 ? "a" : "b", body))),
      bodies.map((answer) => ({ answer })),
    );
    assertEquals(new Set(requests).size, requests.length);
  });

  for (const how of ["release()", "close()"] as const) {
    test(
      `request() returns undefined once ${how} releases the session, and can't be answered`,
      async (one, two) => {
        const requested = Promise.withResolvers<HolderRequest>();
        listen(one, requested.resolve);
        await held(one, "a");
        const answer = two.shared.request("a", 1);
        const { id } = await requested.promise;
        if (how === "close()") await one.close();
        else await one.shared.release("a");
        assertEquals(await answer, undefined);
        const answering = how === "close()" ? two : one;
        await held(answering, "a");
        await assertRejects(
          () => answering.commit([events("a", 0, "late"), { type: "answer", requestId: id, answer: 1 }]),
          Error,
          `Cannot answer request ${JSON.stringify(id)}: it was withdrawn or answered`,
        );
        assertEquals(await two.lastEvent("a"), 0);
      },
    );
  }

  test("request() returns undefined if the holder is gone", async (one, two, { stop, goOn }) => {
    const requested = Promise.withResolvers<HolderRequest>();
    listen(one, requested.resolve);
    listen(two);
    await held(one, "a");
    const answer = two.shared.request("a", 1);
    const { id } = await requested.promise;
    await stop(one);
    assertEquals(await answer, undefined);
    assertEquals(await two.shared.request("a", 1), undefined);
    goOn(one);
    await assertRejects(() => one.commit([{ type: "answer", requestId: id, answer: 1 }]));
  });

  test("watch() reports writes and changes of the holder", async (one, two) => {
    const hold = await held(one, "a");
    const seen: unknown[] = [];
    const all = changedUntil(two, "a", async () => {
      const after = seen.length;
      seen.push(...(await two.readEvents("a", { after })).map(({ event }) => event));
      return seen.length === 3;
    });
    await one.commit([events("a", 0, "1")]);
    await one.commit([events("a", 1, "2", "3")]);
    await all;
    assertEquals(seen, ["1", "2", "3"].map(delta));
    const isFree = changedUntil(two, "a", async () => (await two.shared.inspect("a")).holder === "none");
    await one.shared.release("a");
    await isFree;
    assert((await held(two, "a")).fence > hold.fence);
    two.shared.watch("none", () => {})();
  });

  test("watch() reports a session's state, with short events", async (one, two) => {
    const seen: (SessionSnapshot | undefined)[] = [];
    let changed = Promise.withResolvers<void>();
    const end = two.shared.watch("a", (sighting) => {
      seen.push(sighting);
      changed.resolve();
    });
    /** Waits for this report. Polls may repeat the state, but not the events. */
    const becomes = async (expected: SessionSnapshot | undefined) => {
      for (;; await changed.promise) {
        changed = Promise.withResolvers();
        const found = seen.splice(0).filter((one) =>
          one?.fence === expected?.fence && one?.holder === expected?.holder &&
          one?.lastEvent === expected?.lastEvent && (one?.events || !expected?.events)
        );
        if (found.length > 0) return assertEquals(found, found.map(() => expected));
      }
    };
    await becomes({ fence: 0, holder: "none", lastEvent: 0 });
    await held(one, "a");
    const other = { fence: 1, holder: "other" } as const;
    await becomes({ ...other, lastEvent: 0 });
    await one.commit([events("a", 0, "1", "Über\ud83d")]);
    const first = [{ number: 1, event: delta("1") }, { number: 2, event: delta("Über\ud83d") }];
    await becomes({ ...other, lastEvent: 2, events: first });
    await one.commit([events("a", 2, "long ".repeat(2_000))]);
    await becomes({ ...other, lastEvent: 3 });
    await one.commit([{ type: "state", sessionId: "a", name: "x", value: 1 }, events("a", 3, "4")]);
    await becomes({ ...other, lastEvent: 4, events: [{ number: 4, event: delta("4") }] });
    await one.shared.release("a");
    await becomes({ fence: 1, holder: "none", lastEvent: 4 });
    await held(two, "a");
    await becomes({ fence: 2, holder: "this", lastEvent: 4 });
    await two.deleteSession("a");
    await becomes(undefined);
    end();
  });

  test(
    "claimKey() returns running for another opening's key, which that one can complete",
    async (one, two) => {
      assertEquals(await one.claimKey(request), { state: "new" });
      assertEquals(await two.claimKey(request), { state: "running" });
      assertEquals(await two.claimKey(other), { state: "mismatch" });
      await two.releaseKey(key);
      assertEquals(await one.claimKey(request), { state: "running" });
      await two.commit([{ type: "response", ...key, response: 1 }]);
      assertEquals(await one.claimKey(request), { state: "done", response: 1 });
      await assertRejects(
        () => one.commit([{ type: "response", ...key, response: 2 }]),
        Error,
        "it isn't claimed",
      );
    },
  );

  test("claimKey() succeeds for one of several concurrent openings", async (one, two, { open }) => {
    const openings = [one, two, await open()];
    for (let round = 0; round < 5; round++) {
      const claims = await Promise.all(
        openings.map((opening) => opening.claimKey({ ...request, key: `${round}` })),
      );
      assertEquals(claims.map(({ state }) => state).toSorted(), ["new", "running", "running"]);
    }
  });

  test(
    "claimKey() returns interrupted to one opening if the owner is gone",
    async (one, two, { open, stop }) => {
      const third = await open();
      const [heard, heardToo] = [listen(two), listen(third)];
      await one.claimKey(request);
      await stop(one);
      await Promise.all([heard.gone(), heardToo.gone()]);
      await assertRejects(
        () => two.commit([{ type: "response", ...key, response: 1 }]),
        Error,
        "isn't claimed",
      );
      assertEquals(await third.claimKey(request), { state: "interrupted" });
      assertEquals([await third.claimKey(request), await two.claimKey(request)], [
        { state: "running" },
        { state: "running" },
      ]);
    },
  );

  test(
    "a request has one effect though its suspended opening resumes",
    async (one, two, place) => {
      const atomic = { ...request, isAtomic: true };
      const gone = listen(two).gone();
      await one.claimKey(atomic);
      await place.stop(one);
      await gone;
      assertEquals(await two.claimKey(atomic), { state: "new" });
      place.goOn(one);
      const effect = (id: string): StoreRecord[] => [
        sessionRecord(id),
        { type: "response", ...key, response: id },
      ];
      const done = await Promise.allSettled([one.commit(effect("by one")), two.commit(effect("by two"))]);
      assertEquals(done.map(({ status }) => status).toSorted(), ["fulfilled", "rejected"]);
      const made = await Promise.all(["by one", "by two"].map((id) => two.getSession(id)));
      const ids = made.flatMap((session) => session?.id ?? []);
      assertEquals(ids.length, 1);
      assertEquals(await one.claimKey(atomic), { state: "done", response: ids[0] });
    },
  );

  test(
    "releaseKey() releases a key claimed before the lease was lost",
    async (one, two, place) => {
      const gone = listen(two).gone();
      await one.claimKey(request);
      await place.stop(one);
      await gone;
      place.goOn(one);
      await one.getSession("a");
      await one.releaseKey(key);
      assertEquals(await two.claimKey(other), { state: "new" });
    },
  );

  test(
    "claimKey() uses the opening's new id after a lost lease",
    async (one, two, place) => {
      const gone = listen(two).gone();
      // Sessions that no opening holds are lost too.
      await held(one, "a");
      await place.stop(one);
      await gone;
      await held(two, "a");
      place.goOn(one);
      assertEquals(await one.claimKey(request), { state: "new" });
      assertEquals(await two.claimKey(request), { state: "running" });
      await one.commit([{ type: "response", ...key, response: 1 }]);
      assertEquals(await two.claimKey(request), { state: "done", response: 1 });
    },
  );
}
