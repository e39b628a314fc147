import { assertEquals, assertRejects } from "@std/assert";
import { memoryStore } from "@tare/session/sqlite";
import { type Store, StoreError } from "@tare/session";
import { Ownership } from "@tare/session/internal";
import { sharedMemory } from "../../tests/shared_memory.ts";

/** A session that counts, as one server has it in memory. */
class Counter {
  count = 0;
  isBusy = false;
  /** What its ownership has called, in order. */
  readonly calls: string[] = [];
  readonly ownership: Ownership;
  /** Resolves once another server has requested that the work stops. */
  readonly stopped = Promise.withResolvers<void>();
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
    const called = (name: string) => this.calls.push(name);
    this.ownership = new Ownership({
      ...{ id: "a", store },
      events: { last: 0, failed: false, reach() {}, follow() {}, removed: () => called("removed") },
      isBusy: () => this.isBusy,
      recover: () => this.#read("recover"),
      read: () => this.#read("read").then(() => false),
      noticed: () => Promise.resolve(false),
      obey: async (request, answer) => {
        if (request === "stop") {
          this.stopped.resolve();
          return this.isBusy = false;
        }
        await this.commit([answer(this.count)]);
        return true;
      },
      lost: () => this.isBusy = called("lost") < 0,
      stalled: () => called("stalled"),
      gone: () => called("gone"),
      unsettled: () => called("unsettled"),
      refusal: (why) => new Error(why),
    });
    store.shared?.listen({ asked: (request) => void this.ownership.asked(request), gone: () => {} });
  }

  /** Counts on if this server owns the session; else returns what the owner answers. */
  next(wanted: unknown = "know"): Promise<unknown> {
    return this.ownership.alone<unknown>(async () => {
      this.count++;
      await this.commit();
      return this.count;
    }, { wanted: () => wanted, told: (answer) => `owner: ${JSON.stringify(answer)}` });
  }

  commit(more: Parameters<Store["commit"]>[0] = []): Promise<void> {
    return this.#store.commit([
      { type: "state", sessionId: "a", name: "totals", value: this.count },
      ...more,
    ]);
  }

  async #read(as: string): Promise<void> {
    this.calls.push(as);
    this.count = await this.#store.readState("a", "totals") as number ?? 0;
  }
}

const SESSION = { type: "session", kind: "gateway", id: "a", createdAtMs: 1, settings: {} } as const;

/** The same session on two servers. `lose` lets the lease of the first one expire, and that one go on. */
async function counters(): Promise<
  [Counter, Counter, lose: (meanwhile: () => Promise<unknown>) => Promise<void>]
> {
  const memory = sharedMemory();
  const [one, two] = [memory.open(), memory.open()];
  await one.store.commit([SESSION]);
  return [new Counter(one.store), new Counter(two.store), async (meanwhile) => {
    one.pause();
    memory.pass(20_000);
    await meanwhile();
    one.wake();
  }];
}

Deno.test("Ownership.alone() reads a session only after another server has changed it", async () => {
  const [one, two] = await counters();
  assertEquals([await one.next(), await one.next(), await two.next(), await two.next()], [1, 2, 3, 4]);
  assertEquals(await one.next(), 5);
  assertEquals([one.calls, two.calls], [["recover", "recover"], ["recover"]]);
  assertEquals([one.ownership.isHeld, two.ownership.isHeld], [false, false]);
});

Deno.test("Ownership keeps a session while work is in progress, and sends requests of other servers to it", async () => {
  const [one, two] = await counters();
  await one.ownership.alone(async () => {
    one.isBusy = true;
    await Promise.resolve();
  }, { wanted: () => "know", told() {} });
  assertEquals([one.ownership.isHeld, await two.next(), await two.next("know")], [
    true,
    "owner: 0",
    "owner: 0",
  ]);
  const tenure = one.ownership.tenure();
  const answer = two.ownership.ask("stop");
  await one.stopped.promise;
  // Its answer is due once the work has ended, and the session was released.
  await tenure.run(() => Promise.resolve());
  assertEquals([await answer, one.ownership.isHeld], [{ answer: {} }, false]);
  assertEquals(await two.next(), 1);
});

Deno.test("Ownership.tenure() writes nothing more once another server has taken the session", async () => {
  const [one, two, lose] = await counters();
  one.isBusy = true;
  await one.next();
  const { run, isOwn, assertOwn } = one.ownership.tenure();
  assertOwn!();
  await lose(() => two.next());
  await assertRejects(() => run(() => one.commit()), StoreError);
  assertEquals([isOwn(), one.isBusy, one.calls.includes("lost")], [false, false, true]);
  assertEquals([await two.next(), await one.next()], [3, 4]);
});

Deno.test("Ownership refuses a session that another server has deleted, or that is left", async () => {
  const [one, two] = await counters();
  await one.next();
  await two.ownership.alone(async () => {}, { wanted: () => "know", told() {} });
  two.ownership.leave();
  await assertRejects(() => two.next(), Error, "left");
  const [three, four] = await counters();
  await three.next();
  await four.next();
  await three.ownership.alone(async () => {}, { wanted: () => "know", told() {} });
  three.ownership.goAway();
  await assertRejects(() => three.next(), Error, "gone");
  assertEquals(three.calls.at(-1), "gone");
});

Deno.test("Ownership of a store that no other server can open never reads again", async () => {
  const store = memoryStore();
  await store.commit([SESSION]);
  const only = new Counter(store);
  assertEquals([await only.next(), await only.next(), only.calls], [1, 2, []]);
  assertEquals(only.ownership.tenure().assertOwn, undefined);
  await store.close();
});
