import { assertEquals, assertRejects } from "@std/assert";
import { memoryStore } from "@tare/session/sqlite";
import { type Store, StoreError } from "@tare/session";
import { Ownership } from "@tare/session/internal";
import { sharedMemory } from "../../tests/shared_memory.ts";

class Counter {
  count = 0;
  isBusy = false;
  readonly calls: string[] = [];
  readonly ownership: Ownership;
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
      observe: () => Promise.resolve(false),
      handle: async (request, answer) => {
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
    store.shared?.listen({
      onRequest: (request) => void this.ownership.receive(request),
      onExpired: () => {},
    });
  }

  next(wanted: unknown = "know"): Promise<unknown> {
    return this.ownership.exclusively<unknown>(async () => {
      this.count++;
      await this.commit();
      return this.count;
    }, { request: () => wanted, answered: (answer) => `owner: ${JSON.stringify(answer)}` });
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

/** Returns the same session on two servers. `lose` expires the first one's lease and resumes it. */
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

Deno.test("Ownership.exclusively() reads a session only after another server has changed it", async () => {
  const [one, two] = await counters();
  assertEquals([await one.next(), await one.next(), await two.next(), await two.next()], [1, 2, 3, 4]);
  assertEquals(await one.next(), 5);
  assertEquals([one.calls, two.calls], [["recover", "recover"], ["recover"]]);
  assertEquals([one.ownership.isHeld, two.ownership.isHeld], [false, false]);
});

Deno.test("Ownership keeps a session while work is in progress, and sends requests of other servers to it", async () => {
  const [one, two] = await counters();
  await one.ownership.exclusively(async () => {
    one.isBusy = true;
    await Promise.resolve();
  }, { request: () => "know", answered() {} });
  assertEquals([one.ownership.isHeld, await two.next(), await two.next("know")], [
    true,
    "owner: 0",
    "owner: 0",
  ]);
  const tenure = one.ownership.tenure();
  const answer = two.ownership.request("stop");
  await one.stopped.promise;
  // The answer is due once the work has ended and the session is released.
  await tenure.run(() => Promise.resolve());
  assertEquals([await answer, one.ownership.isHeld], [{ answer: {} }, false]);
  assertEquals(await two.next(), 1);
});

Deno.test("Ownership.tenure() writes nothing after another server has taken the session", async () => {
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

Deno.test("Ownership refuses a session that was deleted or left to another server", async () => {
  const [one, two] = await counters();
  await one.next();
  await two.ownership.exclusively(async () => {}, { request: () => "know", answered() {} });
  two.ownership.leave();
  await assertRejects(() => two.next(), Error, "left");
  const [three, four] = await counters();
  await three.next();
  await four.next();
  await three.ownership.exclusively(async () => {}, { request: () => "know", answered() {} });
  three.ownership.markDeleted();
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
