/** Tests of deliveries to external receivers, for any store. @module */
import { assertEquals, assertRejects } from "@std/assert";
import type { Store } from "@tare/session";
import type { StoreRecord } from "@tare/session/internal";
import { DAY_MS, sessionRecord, type TestOfStore } from "./store_suite_fixture_test.ts";

const delivery = (id: string, receiver: string, more: { sessionId?: string; dueInMs?: number } = {}) =>
  ({ type: "delivery", id, receiver, value: `${id} \ud83d`, dueInMs: 0, ...more }) satisfies StoreRecord;
const MINUTE_MS = 60_000;
const claim = async (store: Store, receivers: readonly string[], { most = 9, limit = 99 } = {}) => {
  const { claimed, nextInMs } = await store.claimDeliveries({
    receivers: receivers.map((receiver) => ({ receiver, limit: most })),
    ...{ limit, forMs: MINUTE_MS },
  });
  return [claimed.map(({ id, claims }) => `${id} ${claims}`), nextInMs];
};
const listed = async (store: Store, receiver: string) =>
  (await store.listDeliveries(receiver)).map(({ id }) => id);

export function testDeliveries(test: TestOfStore): void {
  let nowMs = 10 * DAY_MS;
  const options = { now: () => nowMs };

  test(
    "claimDeliveries() returns due deliveries within each receiver's limit, exclusively for a period",
    async (store) => {
      await store.commit([
        ...["1", "2", "3"].map((id) => delivery(id, "x", { sessionId: "a" })),
        delivery("4", "y"),
        delivery("5", "z"),
        delivery("6", "x", { dueInMs: MINUTE_MS / 2 }),
      ]);
      assertEquals(await claim(store, ["none"]), [[], undefined]);
      assertEquals(await claim(store, ["x", "y"], { most: 2 }), [["1 1", "2 1", "4 1"], 0]);
      assertEquals(await claim(store, ["x", "y", "z"], { limit: 1 }), [["3 1"], 0]);
      assertEquals(await claim(store, ["x", "y"]), [[], MINUTE_MS / 2]);
      nowMs += MINUTE_MS / 2;
      assertEquals(await claim(store, ["x"]), [["6 1"], MINUTE_MS / 2]);
      // Earlier claims have expired.
      nowMs += MINUTE_MS / 2;
      assertEquals(await claim(store, ["x"]), [["1 2", "2 2", "3 2"], MINUTE_MS / 2]);
    },
    options,
  );

  test(
    "commit() stores the outcome of a delivery unless it was claimed again",
    async (store, open) => {
      const start = nowMs;
      await store.commit([delivery("1", "x", { sessionId: "a" }), delivery("2", "x")]);
      await claim(store, ["x"]);
      const attempted = (id: string, claim: number, value: string, dueInMs?: number) =>
        ({
          type: "delivery_attempt",
          id,
          claim,
          value,
          ...(dueInMs !== undefined && { dueInMs }),
        }) satisfies StoreRecord;
      await store.commit([
        attempted("1", 1, "later", 1_000),
        attempted("2", 1, "done"),
        attempted("3", 1, "none"),
      ]);
      assertEquals(await claim(store, ["x"]), [[], 1_000]);
      nowMs += 1_000;
      assertEquals(await claim(store, ["x"]), [["1 2"], MINUTE_MS]);
      await store.commit([attempted("1", 1, "late"), attempted("2", 0, "earlier")]);
      const one = { id: "1", receiver: "x", sessionId: "a", value: "later", createdAtMs: start };
      const two = { id: "2", receiver: "x", value: "done", createdAtMs: start };
      await store.close();
      const later = await open(options);
      assertEquals(await later.listDeliveries("x"), [
        { ...two, claims: 1 },
        { ...one, claims: 2, dueAtMs: nowMs + MINUTE_MS },
      ]);
      assertEquals([await later.getDelivery("2"), await later.getDelivery("3")], [
        { ...two, claims: 1 },
        undefined,
      ]);
      // Sent again, which voids the earlier claim.
      await later.commit([{ ...delivery("1", "x", { sessionId: "a" }), value: "again" }]);
      await later.commit([attempted("1", 2, "lost")]);
      assertEquals(await claim(later, ["x"]), [["1 4"], MINUTE_MS]);
      assertEquals((await later.getDelivery("1"))?.value, "again");
      await later.close();
    },
    options,
  );

  test("commit() stores a delivery together with its event, or neither", async (store) => {
    const events: StoreRecord = { type: "events", sessionId: "a", after: 1, events: [{ type: "turn_end" }] };
    await assertRejects(() => store.commit([delivery("1", "x"), events]));
    await assertRejects(() => store.commit([delivery("1", "x"), delivery("2", "x", { sessionId: "none" })]));
    assertEquals(await listed(store, "x"), []);
    await store.commit([{ ...events, after: 0 }, delivery("1", "x", { sessionId: "a" })]);
    assertEquals(await listed(store, "x"), ["1"]);
  });

  test(
    "deliveries are deleted with their session or receiver, by age and by number",
    async (store) => {
      await store.commit([sessionRecord("c"), delivery("0", "x"), delivery("1", "x", { sessionId: "c" })]);
      await store.commit([delivery("2", "y", { sessionId: "c" }), delivery("3", "y")]);
      await store.deleteSession("c");
      assertEquals([await listed(store, "x"), await listed(store, "y")], [["0"], ["3"]]);
      await store.commit([{ type: "delete_deliveries", receiver: "y" }]);
      assertEquals([await listed(store, "x"), await listed(store, "y")], [["0"], []]);
      nowMs += DAY_MS;
      await store.commit(["4", "5", "6"].map((id) => delivery(id, "x")));
      const expire = (olderThanMs: number, keep: number) =>
        store.expireDeliveries({ receiver: "x", olderThanMs, keep });
      await expire(DAY_MS, 4);
      assertEquals(await listed(store, "x"), ["6", "5", "4", "0"]);
      await expire(DAY_MS - 1, 4);
      assertEquals(await listed(store, "x"), ["6", "5", "4"]);
      await expire(DAY_MS, 2);
      assertEquals(await listed(store, "x"), ["6", "5"]);
      assertEquals((await store.listDeliveries("x", { limit: 1 })).map(({ id }) => id), ["6"]);
      assertEquals((await store.listDeliveries("x", { before: "6" })).map(({ id }) => id), ["5"]);
    },
    options,
  );
}
