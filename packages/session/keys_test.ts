import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { Keys, type Keys as AnyKeys, type Reservation } from "@tare/session";
import { memoryStore } from "@tare/session/sqlite";
import { sharedMemory } from "../../tests/shared_memory.ts";

const NOON = Date.UTC(2026, 0, 31, 12);

Deno.test("Keys authenticates the owner and added keys, and stores only hashes", async () => {
  const store = memoryStore({ now: () => NOON });
  const keys = new Keys({ store, owners: ["correct-horse"] });
  const secret = await keys.add({ name: "alice", routes: ["gateway"], budgetUsdPerDay: 5, perMinute: 60 });
  assertEquals(Keys.isSecret(secret), true);
  assertEquals(await keys.find("correct-horse"), Keys.OWNER);
  const { name, routes } = await keys.find(secret) ?? {};
  assertEquals([name, routes], ["alice", ["gateway"]]);
  for (const wrong of ["", "wrong", "correct-horse ", `${secret}x`, secret.replace("tare_", ""), "alice"]) {
    assertEquals(await keys.find(wrong), undefined, wrong);
  }
  const settings = {
    name: "alice",
    routes: ["gateway"],
    budgetUsdPerDay: 5,
    perMinute: 60,
    createdAtMs: NOON,
  };
  assertEquals(await keys.list() as unknown, [{ ...settings, spentUsd: 0 }]);
  assertEquals(JSON.stringify(await store.listDocuments("key")).includes(secret.slice(5, 15)), false);
  assertEquals((await new Keys({ store, owners: [] }).find(secret))?.name, "alice");
  assertEquals([await keys.remove("alice"), await keys.remove("alice")], [true, false]);
  assertEquals([await keys.find(secret), await keys.list()], [undefined, []]);
});

Deno.test("Keys.add() refuses taken and invalid names", async () => {
  const keys = new Keys({ store: memoryStore(), owners: [] });
  await keys.add({ name: "a", routes: ["agent"] });
  await assertRejects(
    () => keys.add({ name: "a", routes: ["agent"] }),
    RangeError,
    "Cannot add key a: the name is taken. Remove that key first.",
  );
  for (const name of ["", "owner", "guest", "A", "a b", "-a", 'a","id":"', "a".repeat(41)]) {
    await assertRejects(() => keys.add({ name, routes: ["agent"] }), RangeError, "Cannot add key");
  }
});

Deno.test("Keys refuses by route, daily budget, unknown price, and after removal of a key", async () => {
  let nowMs = NOON;
  const store = memoryStore({ now: () => nowMs });
  const keys = new Keys({ store, owners: [] });
  await keys.add({ name: "alice", routes: ["gateway"], budgetUsdPerDay: 1 });
  const alice = (await keys.list())[0]!;
  const refusalOf = (refusal: ReturnType<AnyKeys["budgetRefusal"]>) =>
    refusal && [refusal.status, refusal.message];
  assertEquals(refusalOf(keys.refusal(alice, "agent")), [
    403,
    "Forbidden: key alice is for gateway, not for agent.",
  ]);
  assertEquals(keys.refusal(alice, "gateway"), undefined);
  assertMatch(
    keys.budgetRefusal("alice", false)?.message ?? "",
    /price of this model is unknown.*TARE_PRICE/,
  );
  keys.paid("alice", 0.75);
  assertEquals(keys.refusal(alice, "gateway"), undefined);
  keys.paid("alice", 0.5);
  const spent = [
    402,
    "Budget exceeded: key alice has spent its budget of $1 for today, $1.2500. Retry after 2026-02-01T00:00Z, " +
    "or raise the budget.",
  ];
  assertEquals(refusalOf(keys.refusal(alice, "gateway")), spent);
  await keys.close();
  // Neither a restart nor another key of that name resets it.
  const next = new Keys({ store, owners: [] });
  assertEquals((await next.list())[0]?.spentUsd, 1.25);
  assertEquals(refusalOf(next.refusal(alice, "gateway")), spent);
  await next.remove("alice");
  assertEquals(refusalOf(next.budgetRefusal("alice")), [
    403,
    "Forbidden: key alice, which pays for this, was removed.",
  ]);
  await next.add({ name: "alice", routes: ["gateway"], budgetUsdPerDay: 1 });
  assertEquals(refusalOf(next.refusal(alice, "gateway")), spent);
  nowMs += 12 * 60 * 60_000;
  assertEquals(next.refusal(alice, "gateway"), undefined);
  // Spending of the previous day is deleted with the first call of the next.
  next.paid("alice", 0.25);
  await next.close();
  assertEquals((await store.listDocuments("key_spent")).map(({ value }) => value), [
    { name: "alice", day: "2026-02-01", usd: 0.25 },
  ]);
  assertEquals([next.budgetRefusal(undefined), next.budgetRefusal(Keys.GUEST.name)], [undefined, undefined]);
});

Deno.test("Keys.count() enforces the requests per minute", async () => {
  let nowMs = NOON;
  const keys = new Keys({ store: memoryStore({ now: () => nowMs }), owners: ["o"] });
  await keys.add({ name: "alice", routes: ["gateway"], perMinute: 2 });
  const alice = (await keys.list())[0]!;
  nowMs += 40_000;
  assertEquals([keys.count(alice), keys.count(alice)], [undefined, undefined]);
  assertEquals(keys.count(alice), {
    status: 429,
    code: "rate_limit_exceeded",
    message: "Rate limit exceeded for key alice: 2 requests per minute. Retry in 20 s.",
    retryAfterS: 20,
  });
  assertEquals([keys.count(Keys.OWNER), keys.count(Keys.GUEST)], [undefined, undefined]);
  nowMs += 20_000;
  assertEquals(keys.count(alice), undefined);
});

Deno.test("Keys: servers on one store share keys within a second and add up their spending", async () => {
  let nowMs = NOON;
  const memory = sharedMemory();
  const [one, other] = [1, 2].map(() =>
    new Keys({ store: memory.open({ now: () => nowMs }).store, owners: [] })
  );
  const secret = await one!.add({ name: "alice", routes: ["gateway"], budgetUsdPerDay: 1 });
  const alice = await other!.find(secret);
  assertEquals(alice?.name, "alice");
  one!.paid("alice", 0.75);
  other!.paid("alice", 0.5);
  await Promise.all([one!.close(), other!.close()]);
  nowMs += 1_000;
  await Promise.all([one!.find(secret), other!.find(secret)]);
  assertEquals([one!, other!].map((keys) => keys.refusal(alice!, "gateway")?.code), [
    "budget_spent",
    "budget_spent",
  ]);
  await one!.remove("alice");
  nowMs += 1_000;
  assertEquals(await other!.find(secret), undefined);
});

async function spendAtOnce(
  servers: readonly AnyKeys[],
  { calls, usd, most, costs = () => usd }: {
    readonly calls: number;
    readonly usd: number;
    readonly most: number;
    readonly costs?: (call: number) => number;
  },
) {
  await servers[0]!.add({ name: "alice", routes: ["gateway"], budgetUsdPerDay: most });
  await Promise.all(servers.map((keys) => keys.list()));
  let [spent, refused, underWay, mostUnderWay] = [0, 0, 0, 0];
  await Promise.all(Array.from({ length: calls }, async (_, call) => {
    const keys = servers[call % servers.length]!;
    const reserved = await keys.reserve("alice", usd);
    if (!("release" in reserved)) {
      assertEquals(reserved.code, "budget_spent");
      refused++;
      return;
    }
    mostUnderWay = Math.max(mostUnderWay, ++underWay);
    await new Promise((resolve) => setTimeout(resolve));
    underWay--;
    spent += costs(call);
    keys.paid("alice", costs(call));
    reserved.release();
  }));
  await Promise.all(servers.map((keys) => keys.close()));
  return { spent, refused, mostUnderWay };
}

Deno.test("Keys.reserve() lets concurrent calls exceed a budget by at most one call's maximum", async () => {
  const keys = () => [new Keys({ store: memoryStore({ now: () => NOON }), owners: [] })];
  const dear = await spendAtOnce(keys(), { calls: 50, usd: 0.1, most: 0.05 });
  assertEquals(dear, { spent: 0.1, refused: 49, mostUnderWay: 1 });
  const cheap = await spendAtOnce(keys(), { calls: 50, usd: 1, most: 10, costs: () => 0.01 });
  assertEquals([cheap.refused, cheap.mostUnderWay, cheap.spent.toFixed(2)], [0, 10, "0.50"]);
  const many = await spendAtOnce(keys(), { calls: 200, usd: 1, most: 10, costs: (call) => (call % 5) / 4 });
  assert(many.spent >= 10 && many.spent < 11 && many.refused > 0, JSON.stringify(many));
});

Deno.test("Keys.reserve() of several servers exceeds a budget by at most one call's maximum", async () => {
  for (const servers of [2, 3]) {
    const memory = sharedMemory();
    const all = Array.from(
      { length: servers },
      () => new Keys({ store: memory.open({ now: () => NOON }).store, owners: [] }),
    );
    const { spent, refused, mostUnderWay } = await spendAtOnce(all, { calls: 24, usd: 0.1, most: 0.25 });
    assertEquals([spent.toFixed(2), refused, mostUnderWay], ["0.30", 21, 3]);
  }
});

Deno.test("Keys.reserve() ignores reservations of servers that are gone, and can be aborted", async () => {
  const memory = sharedMemory();
  const opened = [1, 2].map(() => memory.open({ now: () => NOON }));
  const [one, other] = opened.map(({ store }) => new Keys({ store, owners: [] })) as [AnyKeys, AnyKeys];
  await one.add({ name: "alice", routes: ["gateway"], budgetUsdPerDay: 1 });
  await other.list();
  assert("release" in await one.reserve("alice", 2));
  const closing = new AbortController();
  let requestCount = 0;
  const waits = other.reserve("alice", 2, {
    signal: closing.signal,
    progress: () => {
      if (++requestCount === 2) closing.abort(new Error("left"));
    },
  });
  await assertRejects(() => waits, Error, "left");
  opened[0]!.kill();
  memory.pass(20_000);
  const reserved = await other.reserve("alice", 2) as Reservation;
  reserved.release();
  reserved.release();
  other.paid("alice", 1);
  assertEquals(
    await other.reserve("alice", 2).then((refused) => "code" in refused && refused.code),
    "budget_spent",
  );
  await other.close();
  assertEquals(
    (await opened[1]!.store.listDocuments("key_spent")).map(({ value }) => value as { reservedUsd?: number })
      .map(({ reservedUsd }) => reservedUsd).sort(),
    [2, undefined],
  );
});

Deno.test("Keys.add() succeeds for one of several concurrent calls with the same name", async () => {
  const memory = sharedMemory();
  const servers = [1, 2, 3].map(() => new Keys({ store: memory.open().store, owners: [] }));
  const added = await Promise.allSettled(servers.map((keys) => keys.add({ name: "a", routes: ["agent"] })));
  const secrets = added.flatMap((one) => one.status === "fulfilled" ? one.value : []);
  assertEquals(secrets.length, 1);
  for (const keys of servers) {
    assertEquals((await keys.find(secrets[0]!))?.name, "a");
    await keys.close();
  }
});

Deno.test("Keys.paid() stores costs recorded during a write", async () => {
  for (let steps = 0; steps < 40; steps++) {
    const store = memoryStore();
    const keys = new Keys({ store, owners: [] });
    keys.paid("alice", 1);
    for (let step = 0; step < steps; step++) await Promise.resolve();
    keys.paid("alice", 1);
    await keys.close();
    const usd = (await store.listDocuments("key_spent")).map(({ value }) => (value as { usd: number }).usd);
    assertEquals([steps, usd], [steps, [2]]);
  }
});

Deno.test("Keys omits damaged documents, reports each once, and the other keys work", async () => {
  const memory = memoryStore({ now: () => NOON });
  const day = "2026-01-31";
  await memory.commit([
    ...[{}, { name: "b", hash: "x", routes: ["agent"] }, { name: "a", hash: 1, routes: [] }, null].map((
      value,
      at,
    ) => (
      { type: "document", kind: "key", id: "abcd"[at]!, value } as const
    )),
    { type: "document", kind: "key_spent", id: "e 1", value: { name: "e", day, usd: 0.5 } },
    { type: "document", kind: "key_spent", id: "e 2", value: { name: "e", day, usd: "0.5" } },
  ]);
  const errors: unknown[] = [];
  const store = {
    ...memory,
    listDocuments: (kind: string, damaged?: (id: string, error: unknown) => void) => {
      damaged?.("torn", new Error("Its checksum doesn't match."));
      return memory.listDocuments(kind);
    },
  };
  const keys = new Keys({ store, owners: [], onError: (error) => errors.push(error) });
  const secret = await keys.add({ name: "e", routes: ["agent"] });
  assertEquals([(await keys.find(secret))?.name, (await keys.list()).map(({ name }) => name)], ["e", [
    "b",
    "e",
  ]]);
  assertEquals((await keys.report({ name: "e", routes: [] }))?.spentUsd, 0.5);
  assertEquals(
    errors.map((error) => /document "(.+)" of kind "(.+)": (.+)/.exec(String(error))?.slice(1)).sort(),
    [
      ["a", "key", "it isn't a valid key."],
      ["c", "key", "it isn't a valid key."],
      ["d", "key", "it isn't a valid key."],
      ["e 2", "key_spent", "it isn't a key's spending."],
      ["torn", "key", "Its checksum doesn't match."],
      ["torn", "key_spent", "Its checksum doesn't match."],
    ],
  );
  await keys.close();
});

Deno.test("Keys.paid() records costs of keys, but not of the owner, guests or free calls", async () => {
  const store = memoryStore({ now: () => NOON });
  const keys = new Keys({ store, owners: [] });
  for (const [name, usd] of [[undefined, 1], ["guest", 1], ["a", 0], ["a", -1], ["a", NaN]] as const) {
    keys.paid(name, usd);
  }
  await keys.close();
  assertEquals(await store.listDocuments("key_spent"), []);
  keys.paid("a", 0.25);
  keys.paid("b", 1);
  keys.paid("a", 0.5);
  await keys.close();
  const spent = (await store.listDocuments("key_spent")).map(({ value }) => value);
  assertEquals(spent, [{ name: "a", day: "2026-01-31", usd: 0.75 }, {
    name: "b",
    day: "2026-01-31",
    usd: 1,
  }]);
});
