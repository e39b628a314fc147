import { assertEquals } from "@std/assert";
import { CacheKeepAlive } from "@tare/session";
import type { KeepAliveTarget } from "@tare/session/internal";
import type { Usage } from "@tare/messages";
import type { Idle, KeepAliveEntry, KeepAliveRequest, observeUpgrade, SentKeepAlive } from "@tare/planner";

const SECOND = 1_000;
const HOUR = 3_600_000;
const USAGE: Usage = { promptTokens: 1_000, cachedTokens: 1_000, outputTokens: 0 };

interface Options extends Partial<Pick<KeepAliveTarget, "consent" | "key" | "bytes" | "price" | "send">> {
  readonly due?: readonly number[];
  readonly type?: KeepAliveRequest["type"];
  readonly units?: number;
  readonly billed?: number;
  readonly upgrade?: Parameters<typeof observeUpgrade>[1];
}

function world(options: Partial<ConstructorParameters<typeof CacheKeepAlive>[0]> = {}) {
  let nowMs = 0;
  const log: string[] = [];
  const timers = new Map<() => void, number>();
  const keepAlive = new CacheKeepAlive({
    now: () => nowMs,
    onError: (error) => log.push(String(error)),
    after(ms, callback) {
      timers.set(callback, nowMs + ms);
      return () => void timers.delete(callback);
    },
    ...options,
  });
  const second = () => nowMs / SECOND;
  function target(id: string, settings: Options = {}): KeepAliveTarget {
    const { due = [280, 560], type = "exact", units = 100_000, billed = units, upgrade } = settings;
    let made = 0;
    return {
      ...{ key: "provider", idle: { pending: "user" }, consent: "budget", bytes: 10 },
      session: {
        id,
        nextKeepAlive(idle: Idle): KeepAliveRequest | undefined {
          const atMs = (due[made] ?? -1) * SECOND;
          return atMs < idle.nowMs ? undefined : { type, atMs, costUnits: units, keepsMs: 280 * SECOND };
        },
        recordKeepAlive(sent: SentKeepAlive): KeepAliveEntry {
          made++;
          log.push(`${second()} ${id} sent ${sent.type} ${sent.atMs / SECOND}`);
          return {
            ...sent,
            costUnits: billed,
            isWarm: true,
            savedCostUnits: 0,
            ...(upgrade && { upgrade }),
          };
        },
      },
      price: () => ({ input: 1, output: 1 }),
      send: () => Promise.resolve(USAGE),
      onRecorded: () => void log.push(`${second()} ${id} booked`),
      ...settings,
    };
  }
  /** Advances the clock to a second, fires timers in order, and awaits what they start. */
  async function go(toSecond: number): Promise<string[]> {
    for (;;) {
      const [next] = [...timers].sort(([, a], [, b]) => a - b);
      if (!next || next[1] > toSecond * SECOND) break;
      timers.delete(next[0]);
      nowMs = next[1];
      next[0]();
      for (let turn = 0; turn < 10; turn++) await Promise.resolve();
    }
    nowMs = toSecond * SECOND;
    return log.splice(0);
  }
  return { keepAlive, target, go, timers, log };
}

Deno.test("CacheKeepAlive sends due keep-alive requests, records them, and drops conversations without a next one", async () => {
  const { keepAlive, target, go, timers } = world({ budgetUsdPerDay: 1 });
  keepAlive.waits(target("a"));
  keepAlive.waits(target("b", { due: [300] }));
  keepAlive.waits(target("never", { due: [] }));
  assertEquals([keepAlive.waiting, timers.size], [2, 2]);
  assertEquals(await go(279), []);
  assertEquals(await go(1_000), [
    ...["280 a sent exact 280", "280 a booked", "300 b sent exact 300", "300 b booked"],
    ...["560 a sent exact 560", "560 a booked"],
  ]);
  assertEquals([keepAlive.waiting, timers.size], [0, 0]);
});

Deno.test("CacheKeepAlive sends no keep-alive request without permission, price or budget", async () => {
  const none = world();
  none.keepAlive.waits(none.target("nobody pays"));
  // It may be requested until its cache expires.
  assertEquals([none.keepAlive.waiting, none.timers.size], [1, 1]);
  assertEquals([await none.go(279), none.keepAlive.waiting], [[], 1]);
  assertEquals([await none.go(280), none.keepAlive.waiting, none.timers.size], [[], 0, 0]);
  // A turn in progress pays regardless of the price.
  none.keepAlive.waits(none.target("own", { consent: "turn", due: [300], price: () => undefined }));
  assertEquals(await none.go(600), ["300 own sent exact 300", "300 own booked"]);

  const { keepAlive, target, go, timers } = world({ budgetUsdPerDay: 0.25 });
  keepAlive.waits(target("no price", { price: () => undefined }));
  keepAlive.waits(target("subscribed", { consent: "requested" }));
  // 10 cents each; the third would exceed the budget, and so would one that cost more than estimated.
  for (const id of ["a", "b", "c"]) keepAlive.waits(target(id, { due: [280] }));
  assertEquals((await go(1_000)).filter((line) => line.endsWith("booked")), ["280 a booked", "280 b booked"]);
  assertEquals([keepAlive.waiting, timers.size], [0, 0]);
  const [day, ping] = [86_400, 86_400 + 280];
  keepAlive.waits(target("today", { due: [1_280] }));
  assertEquals([await go(day), timers.size], [[], 0]);
  keepAlive.waits(target("d", { due: [ping], billed: 200_000 }));
  keepAlive.waits(target("e", { due: [ping + 1] }));
  assertEquals(await go(day + 1_000), [`${ping} d sent exact ${ping}`, `${ping} d booked`]);
});

Deno.test("CacheKeepAlive.keepFor() keeps a cache alive for the period regardless of the budget", async () => {
  const { keepAlive, target, go, timers } = world();
  const settings = { consent: "requested", due: [280, 3_500, 3_700] } as const;
  assertEquals(keepAlive.keepFor("a", HOUR), "nothing held");
  keepAlive.waits(target("a", settings));
  keepAlive.waits(target("b", settings));
  keepAlive.waits(target("c", { ...settings, price: () => undefined }));
  // Ten cents per 280 s, and the tokens after the breakpoint.
  assertEquals(keepAlive.keepFor("a", HOUR), { untilMs: HOUR, maxUsd: 13 * 0.10002 });
  assertEquals(keepAlive.keepFor("c", HOUR), "no price");
  assertEquals(["a", "b", "c"].map((id) => keepAlive.retainedUntilMs(id)), [HOUR, undefined, undefined]);
  assertEquals(await go(3_600), [
    ...["280 a sent exact 280", "280 a booked", "3500 a sent exact 3500", "3500 a booked"],
  ]);
  assertEquals([timers.size, keepAlive.retainedUntilMs("a")], [1, undefined]);
  assertEquals([await go(3_700), timers.size], [[], 0]);
  assertEquals(keepAlive.keepFor("b", HOUR), "nothing held");
  keepAlive.waits(target("a", { due: [3_900] }));
  keepAlive.keepFor("a", HOUR);
  keepAlive.forget("a");
  keepAlive.waits(target("a", { due: [3_900] }));
  assertEquals([await go(4_000), timers.size], [[], 0]);
});

Deno.test("CacheKeepAlive counts earlier spending against the day's budget", async () => {
  const { keepAlive, target, go } = world({ budgetUsdPerDay: 0.25, spentUsd: 0.1 });
  for (const id of ["a", "b"]) keepAlive.waits(target(id, { due: [280] }));
  assertEquals((await go(1_000)).filter((line) => line.endsWith("booked")), ["280 a booked"]);
});

Deno.test("CacheKeepAlive.keepFor() continues after later requests until its end", async () => {
  const { keepAlive, target, go } = world();
  keepAlive.waits(target("a", { due: [280] }));
  keepAlive.keepFor("a", 600 * SECOND);
  keepAlive.cancelNext("a");
  assertEquals(await go(300), []);
  keepAlive.waits(target("a", { due: [580, 860] }));
  assertEquals(await go(1_000), ["580 a sent exact 580", "580 a booked"]);
});

Deno.test("CacheKeepAlive.cancelNext() cancels a timer or a keep-alive request, whose reply is ignored", async () => {
  const { keepAlive, target, go, timers } = world({ budgetUsdPerDay: 1 });
  keepAlive.waits(target("a"));
  keepAlive.cancelNext("a");
  assertEquals([keepAlive.waiting, timers.size], [0, 0]);

  const answer = Promise.withResolvers<Usage>();
  let stopped: AbortSignal | undefined;
  const send: KeepAliveTarget["send"] = (_, signal) => {
    stopped = signal;
    return answer.promise;
  };
  keepAlive.waits(target("a", { send }));
  await go(281);
  assertEquals([keepAlive.waiting, timers.size, stopped?.aborted], [1, 0, false]);
  keepAlive.waits(target("a", { due: [600] }));
  assertEquals([keepAlive.waiting, timers.size, stopped?.aborted], [1, 1, true]);
  answer.resolve(USAGE);
  assertEquals(await go(700), ["600 a sent exact 600", "600 a booked"]);
});

Deno.test("CacheKeepAlive doesn't retry failures or requests that a provider doesn't support", async () => {
  const { keepAlive, target, go } = world({ budgetUsdPerDay: 0.1 });
  const failed = () => Promise.reject(new Error("no route to host"));
  keepAlive.waits(target("a", { send: failed }));
  assertEquals(await go(280), ["Error: Cannot keep a prompt cached: no route to host."]);
  keepAlive.waits(target("b", { due: [300], send: () => Promise.resolve(undefined) }));
  assertEquals([await go(400), keepAlive.waiting], [[], 0]);
  const trials: unknown[] = [];
  const seeing = (settings: KeepAliveTarget): KeepAliveTarget => ({
    ...settings,
    session: {
      ...settings.session,
      nextKeepAlive(idle) {
        trials.push(idle.trial?.isBilled);
        return settings.session.nextKeepAlive(idle);
      },
    },
  });
  const refuses = () => Promise.resolve("refused" as const);
  keepAlive.waits(seeing(target("c", { due: [500], type: "upgrade", send: refuses })));
  await go(500);
  keepAlive.waits(seeing(target("d", { due: [600], send: refuses })));
  assertEquals([new Set(trials.splice(0)), await go(600)], [new Set([undefined, false]), [
    "Error: Cannot keep prompts cached: the provider supports no requests without a reply.",
  ]]);
  keepAlive.waits(target("e", { due: [700] }));
  assertEquals(keepAlive.waiting, 0);
  keepAlive.waits(target("f", { due: [700], key: "another" }));
  assertEquals(await go(700), ["700 f sent exact 700", "700 f booked"]);
});

Deno.test("CacheKeepAlive remembers results of extended keep-alive by key", async () => {
  const { keepAlive, target, go } = world({ budgetUsdPerDay: 1 });
  const trials: unknown[] = [];
  const seen = (id: string, settings: Options): KeepAliveTarget => {
    const made = target(id, settings);
    const nextKeepAlive = (idle: Idle) => (trials.push(idle.trial), made.session.nextKeepAlive(idle));
    return { ...made, session: { ...made.session, nextKeepAlive } };
  };
  keepAlive.waits(seen("a", { due: [280], type: "upgrade", upgrade: { of: "bill", isGood: true } }));
  await go(300);
  keepAlive.observe("provider", { of: "return", isGood: true });
  keepAlive.waits(seen("b", { due: [] }));
  keepAlive.waits(seen("c", { due: [], key: "another" }));
  const untried = { returns: 0, misses: 0 };
  const seenTrials = trials.map((trial) => JSON.stringify(trial));
  assertEquals(
    seenTrials.filter((trial, index) => trial !== seenTrials[index - 1]).map((one) => JSON.parse(one)),
    [
      ...[untried, { ...untried, isBilled: true }],
      ...[{ isBilled: true, returns: 1, misses: 0 }, untried],
    ],
  );
});

Deno.test("CacheKeepAlive drops the longest idle conversations, and all on close()", async () => {
  const { keepAlive, target, go, timers } = world({ budgetUsdPerDay: 1, maxBytes: 10_000 });
  const ping = 4_000;
  for (const id of ["a", "b", "c"]) keepAlive.waits(target(id, { due: [280], bytes: ping - 2_000 }));
  keepAlive.waits(target("huge", { due: [280], bytes: 20_000 }));
  assertEquals([keepAlive.waiting, timers.size], [2, 2]);
  const answer = Promise.withResolvers<Usage>();
  keepAlive.waits(target("d", { due: [10], send: () => answer.promise }));
  await go(20);
  keepAlive.close();
  answer.resolve(USAGE);
  keepAlive.waits(target("late"));
  assertEquals([keepAlive.waiting, timers.size, await go(1_000)], [0, 0, []]);
});

Deno.test("CacheKeepAlive: default timers keep no process alive and are cleared by close()", () => {
  const keepAlive = new CacheKeepAlive({ now: () => 0, budgetUsdPerDay: 1, onError: () => {} });
  const { target } = world();
  for (let id = 0; id < 1_000; id++) keepAlive.waits(target(String(id)));
  assertEquals(keepAlive.waiting, 1_000);
  keepAlive.close();
});
