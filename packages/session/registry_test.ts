import { assertEquals, assertRejects, assertStrictEquals } from "@std/assert";
import { HeldSessions } from "@tare/session/internal";

interface Held {
  readonly id: string;
  weight: number;
  isUsed: boolean;
}

function held(options: { readonly findsEvicted?: boolean } = {}) {
  const evicted: string[] = [];
  const sessions = new HeldSessions<Held>({
    maxWeight: 3,
    weigh: ({ weight }) => weight,
    isInUse: ({ isUsed }) => isUsed,
    evicted: ({ id }) => evicted.push(id),
    ...options,
  });
  const use = (id: string, more: Partial<Held> = {}) => {
    const session = { id, weight: 1, isUsed: false, ...more };
    sessions.use(session);
    return session;
  };
  const ids = () => Array.from(sessions.values(), ({ id }) => id);
  return { sessions, use, ids, evicted };
}

Deno.test("HeldSessions evicts the least recently used sessions by weight", () => {
  const { sessions, use, ids, evicted } = held();
  const a = use("a");
  for (const id of ["b", "c"]) use(id);
  assertStrictEquals(sessions.find("b")?.id, "b");
  assertStrictEquals(sessions.get("a"), a);
  use("d");
  assertEquals([ids(), evicted], [["d", "a", "c"], ["b"]]);
  a.weight = 3;
  sessions.use(a);
  assertEquals([ids(), evicted, sessions.size], [["a"], ["b", "c", "d"], 1]);
  use("large", { weight: 4 });
  assertEquals([sessions.find("large"), evicted.at(-1)], [undefined, "large"]);
  sessions.delete("a");
  assertEquals([ids(), evicted.at(-1)], [[], "a"]);
});

Deno.test("HeldSessions retains sessions in use", () => {
  const { sessions, use, ids, evicted } = held();
  const used = use("a", { isUsed: true });
  for (const id of ["b", "c", "d"]) use(id);
  assertEquals([ids(), evicted, sessions.size], [["d", "c", "b", "a"], [], 4]);
  assertStrictEquals(sessions.find("a"), used);
  used.isUsed = false;
  sessions.use(used);
  assertEquals([ids(), evicted], [["a", "d", "c"], ["b"]]);
});

Deno.test("HeldSessions finds an evicted session while a caller references it, if enabled", () => {
  for (const findsEvicted of [true, false]) {
    const { sessions, use, ids } = held({ findsEvicted });
    const first = use("a");
    for (const id of ["b", "c", "d"]) use(id);
    assertEquals(
      [sessions.find("a"), ids().includes("a")],
      findsEvicted ? [first, true] : [undefined, false],
    );
    sessions.delete("a");
    assertEquals(sessions.find("a"), undefined);
  }
});

Deno.test("HeldSessions.load() loads a session once, and again after a failure", async () => {
  const { sessions } = held();
  let reads = 0;
  const read = () => {
    reads++;
    return reads === 1
      ? Promise.reject(new Error("away"))
      : Promise.resolve({ id: "a", weight: 1, isUsed: false });
  };
  const failing = [sessions.load("a", read), sessions.load("a", read)];
  assertEquals(sessions.isLoading("a"), true);
  for (const one of failing) await assertRejects(() => one, Error, "away");
  const [one, other] = await Promise.all([sessions.load("a", read), sessions.load("a", read)]);
  assertStrictEquals(one, other);
  assertEquals([reads, sessions.isLoading("a")], [2, false]);
});
