import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import fc from "../../../tests/cases.ts";
import { promptCost } from "../ledger/ledger.ts";
import { profileNamed } from "../providers.ts";
import {
  afterKeepAlive,
  afterRequest,
  type ClockState,
  type Idle,
  type KeepAliveRequest,
  NEW_CLOCK,
  nextKeepAlive,
} from "./clock.ts";
import { observeUpgrade, UNTRIED, type UpgradeTrial } from "./upgrade.ts";

const PROFILE = profileNamed("anthropic-5m");
const SECOND = 1_000;
const MINUTE = 60 * SECOND;

function request(
  clock: ClockState,
  { atMs, promptTokens, cachedTokens, outputTokens = 0, shared = cachedTokens }: {
    readonly atMs: number;
    readonly promptTokens: number;
    readonly cachedTokens: number;
    readonly outputTokens?: number;
    readonly shared?: number;
  },
) {
  const usage = { promptTokens, cachedTokens, outputTokens };
  const costUnits = promptCost(PROFILE, usage) + 5 * outputTokens;
  return afterRequest(clock, { atMs, usage, sharedTokens: shared, costUnits }, PROFILE);
}

function ping(clock: ClockState, { type, atMs }: Pick<KeepAliveRequest, "type" | "atMs">, isWarm = true) {
  const hourTokens = type === "upgrade" ? clock.answerTokens : 0;
  const usage = {
    promptTokens: clock.heldTokens + hourTokens,
    cachedTokens: isWarm ? clock.heldTokens : 0,
    cacheWriteTokens: hourTokens + (isWarm ? 0 : clock.heldTokens),
    hourWriteTokens: hourTokens + (isWarm || hourTokens === 0 ? 0 : clock.heldTokens),
    outputTokens: 0,
  };
  return afterKeepAlive(clock, { type, atMs, usage, costUnits: promptCost(PROFILE, usage) });
}

/** A conversation of 50,000 tokens that has cost a million units and was last requested at 0. */
const RICH: ClockState = { ...NEW_CLOCK, heldTokens: 50_000, answerTokens: 1_000, baseline: 1_000_000 };

/** Returns the keep-alive requests of an endless pause, in seconds. */
function pause(
  clock: ClockState,
  idle: Omit<Idle, "nowMs">,
  options: Partial<Parameters<typeof nextKeepAlive>[2]> = {},
): string[] {
  const pings: string[] = [];
  for (let nowMs = 0;;) {
    const next = nextKeepAlive(clock, { ...idle, nowMs }, { profile: PROFILE, ...options });
    if (!next) return pings;
    pings.push(`${next.type} ${next.atMs / SECOND} ${next.costUnits}`);
    clock = ping(clock, next).clock;
    nowMs = next.atMs;
  }
}

const GRANTED: UpgradeTrial = { isBilled: true, returns: 3, misses: 0 };

Deno.test("nextKeepAlive() keeps the cache alive while the awaited party is likely enough to return", () => {
  const exact = (...seconds: readonly number[]) => seconds.map((second) => `exact ${second} 5000`);
  const cases: [Omit<Idle, "nowMs">, string[], Partial<Parameters<typeof nextKeepAlive>[2]>?][] = [
    [{ pending: "tool" }, exact(280, 560, 840, 1120)],
    [{ pending: "subagent" }, exact(280, 560, 840, 1120)],
    [{ pending: "user" }, exact(280, 560, 840)],
    [{ pending: "user", hasCommitted: true }, exact(280, 560)],
    [{ pending: "user", reportsEnd: true }, exact(280, 560, 840, 1120, 1400, 1680)],
    // Half of it would be evicted for free, so expiry loses less than half.
    [{ pending: "user" }, exact(280), { prunedTokens: 25_000 }],
    [{ pending: "user" }, [], { prunedTokens: 45_000 }],
    [{ pending: "tool" }, exact(280, 560, 840, 1120), { prunedTokens: 45_000 }],
    // 0.1 · 50,000 and 2 · 1,000; then nothing.
    [{ pending: "user", trial: GRANTED }, ["upgrade 280 7000"]],
    [{ pending: "tool", trial: UNTRIED }, ["upgrade 280 7000"]],
    [{ pending: "user", trial: { ...GRANTED, isBilled: false } }, exact(280, 560, 840)],
    [{ pending: "user", trial: GRANTED, answerBlocks: 20 }, exact(280, 560, 840)],
    [{ pending: "user", thinksByBudget: true }, []],
    ...["anthropic-1h", "openai", "deepseek", "none"].map((name): (typeof cases)[number] => [
      { pending: "tool" },
      [],
      { profile: profileNamed(name) },
    ]),
  ];
  for (const [idle, pings, options] of cases) {
    assertEquals(pause(RICH, idle, options), pings, JSON.stringify([idle, options]));
  }
  assertEquals(pause({ ...RICH, heldTokens: 1_023 }, { pending: "tool" }), []);
});

Deno.test("nextKeepAlive() continues at any cost on request, but never after expiry", () => {
  const clock: ClockState = {
    ...RICH,
    baseline: 0,
    spent: 1_000_000,
    keepAliveRequests: 12,
    usedMs: 12 * 280 * SECOND,
  };
  const at = (idle: Omit<Idle, "nowMs" | "pending">, second = 12 * 280) =>
    nextKeepAlive(clock, { ...idle, nowMs: second * SECOND, pending: "user" }, { profile: PROFILE })?.atMs;
  assertEquals([at({}), at({ isRequested: true }), at({ isRequested: true }, 12 * 280 + 301)], [
    undefined,
    13 * 280 * SECOND,
    undefined,
  ]);
});

Deno.test("nextKeepAlive() is due at once when called late, and ends once the prefix has expired", () => {
  const at = (nowMs: number) => nextKeepAlive(RICH, { nowMs, pending: "tool" }, { profile: PROFILE })?.atMs;
  assertEquals([0, 280, 290, 300, 301].map((second) => at(second * SECOND)), [
    ...[280, 280, 290, 300].map((second) => second * SECOND),
    undefined,
  ]);
});

Deno.test("nextKeepAlive() stays within 5 % of the conversation's cost without keep-alive", () => {
  const pings = (baseline: number, idle: Omit<Idle, "nowMs">, more: Partial<ClockState> = {}) =>
    pause({ ...RICH, baseline, ...more }, idle).length;
  // 5,000 are 5 % of 100,000.
  assertEquals([99_999, 100_000, 199_999, 200_000].map((baseline) => pings(baseline, { pending: "tool" })), [
    ...[0, 1, 1, 2],
  ]);
  const upgrade = { pending: "user", trial: GRANTED } as const;
  assertEquals([219_999, 220_000].map((baseline) => pings(baseline, upgrade)), [0, 1]);
  assertEquals(
    [119_999, 120_000].map((baseline) => pings(baseline, upgrade, { spent: 9_000, credited: 8_000 })),
    [0, 0],
  );
  assertEquals(pings(160_000, upgrade, { spent: 9_000, credited: 8_000 }), 1);
});

Deno.test("afterRequest() and afterKeepAlive() record a whole session: costs, credits and the baseline", () => {
  // 40,000 tokens written.
  let { clock } = request(NEW_CLOCK, { atMs: 0, promptTokens: 40_000, cachedTokens: 0, outputTokens: 1_000 });
  assertEquals([clock.baseline, clock.credited], [55_000, 0]);
  // 2,750 would cover no ping of 4,000.
  assertEquals(nextKeepAlive(clock, { nowMs: 0, pending: "tool" }, { profile: PROFILE }), undefined);
  ({ clock } = request(clock, {
    ...{ atMs: MINUTE, promptTokens: 44_000, cachedTokens: 40_000, outputTokens: 2_000 },
    shared: 41_000,
  }));
  // 4,000 read, 5,000 written, 10,000 output.
  assertEquals(clock.baseline, 74_000);
  ({ clock } = request(clock, {
    atMs: 2 * MINUTE,
    promptTokens: 200_000,
    cachedTokens: 44_000,
    shared: 46_000,
  }));
  assertEquals(clock.baseline, 74_000 + 4_400 + 195_000);
  assertEquals(nextKeepAlive(clock, { nowMs: 3 * MINUTE, pending: "tool" }, { profile: PROFILE }), undefined);
  ({ clock } = request(clock, {
    atMs: 3 * MINUTE,
    promptTokens: 60_000,
    cachedTokens: 0,
    shared: 0,
    outputTokens: 500,
  }));
  assertEquals(clock.baseline, 273_400 + 75_000 + 2_500);
  const plan = nextKeepAlive(clock, { nowMs: 4 * MINUTE, pending: "tool" }, { profile: PROFILE });
  assertEquals(plan, { type: "exact", atMs: 460 * SECOND, costUnits: 6_000, keepsMs: 280 * SECOND });
  const pinged = ping(clock, plan!);
  assertEquals([pinged.isWarm, pinged.clock.spent, pinged.clock.usedMs], [true, 6_000, 460 * SECOND]);
  // The next request is 399 s after the last, 119 s after the keep-alive request.
  const back = request(pinged.clock, {
    ...{ atMs: 579 * SECOND, promptTokens: 61_000, cachedTokens: 60_000, shared: 60_500 },
  });
  assertEquals([back.retainedTokens, back.clock.keepAliveRequests], [60_000, 0]);
  assertAlmostEquals(back.credit, 69_000);
  // Without keep-alive all of it would have been written.
  assertAlmostEquals(back.clock.baseline, 350_900 + 76_250);
  const cut = request(pinged.clock, {
    ...{ atMs: 579 * SECOND, promptTokens: 61_000, cachedTokens: 60_000, shared: 20_000 },
  });
  assertEquals(cut.retainedTokens, 20_000);
  const soon = request(pinged.clock, { atMs: 479 * SECOND, promptTokens: 61_000, cachedTokens: 60_000 });
  assertEquals([soon.retainedTokens, soon.credit], [0, 0]);
});

Deno.test("afterKeepAlive() gives an extended prefix an hour, and returns evidence on it", () => {
  const upgraded = ping(RICH, { type: "upgrade", atMs: 280 * SECOND });
  assertEquals(upgraded.upgrade, { of: "bill", isGood: true });
  assertEquals([upgraded.clock.hourTokens, upgraded.clock.isUpgraded], [51_000, true]);
  const back = (minutes: number, cachedTokens: number, shared = 51_000) =>
    request(upgraded.clock, {
      atMs: 280 * SECOND + minutes * MINUTE,
      promptTokens: 52_000,
      cachedTokens,
      shared,
    });
  const there = back(40, 51_000);
  assertEquals([there.upgrade, there.retainedTokens], [{ of: "return", isGood: true }, 51_000]);
  assertEquals(back(40, 10_000).upgrade, { of: "return", isGood: false });
  // Too soon, too late, and another prompt are no evidence.
  assertEquals([back(4, 51_000), back(61, 0), back(40, 0, 20_000)].map(({ upgrade }) => upgrade), [
    ...[undefined, undefined, undefined],
  ]);
  assertEquals(pause(there.clock, { pending: "tool" }), []);
  const later = request(there.clock, {
    atMs: 90 * MINUTE,
    promptTokens: 53_000,
    cachedTokens: 51_000,
    shared: 52_000,
  });
  assertEquals([later.retainedTokens, later.upgrade], [51_000, undefined]);
  assertEquals(
    pause({ ...later.clock, heldTokens: 120_000, answerTokens: 1_000, usedMs: 0 }, {
      pending: "user",
      trial: GRANTED,
    }),
    [
      "upgrade 280 14000",
    ],
  );
});

Deno.test("afterKeepAlive() doesn't extend a prefix that was billed for five minutes or not found", () => {
  const usage = {
    promptTokens: 51_010,
    cachedTokens: 50_000,
    cacheWriteTokens: 1_000,
    hourWriteTokens: 0,
    outputTokens: 0,
  };
  const refused = afterKeepAlive(RICH, { type: "upgrade", atMs: 280 * SECOND, usage, costUnits: 6_260 });
  assertEquals([refused.upgrade, refused.clock.hourTokens], [{ of: "bill", isGood: false }, 0]);
  const trial = observeUpgrade(GRANTED, refused.upgrade!);
  assertEquals(pause({ ...refused.clock, usedMs: 0 }, { pending: "user", trial }), [
    "exact 280 5000",
    "exact 560 5000",
  ]);
  const gone = ping(RICH, { type: "exact", atMs: 280 * SECOND }, false);
  assertEquals([gone.isWarm, gone.clock.spent, gone.clock.lost], [false, 62_500, 1]);
  const again = ping(gone.clock, { type: "exact", atMs: 560 * SECOND }, false);
  assertEquals(pause({ ...again.clock, spent: 0, usedMs: 0 }, { pending: "tool" }), []);
});

const SESSIONS = fc.array(
  fc.record({
    gapMs: fc.oneof(fc.integer({ min: 1, max: 10 * MINUTE }), fc.integer({ min: 1, max: 180 * MINUTE })),
    newTokens: fc.integer({ min: 1, max: 60_000 }),
    outputTokens: fc.integer({ min: 0, max: 9_000 }),
    pending: fc.constantFrom("tool", "subagent", "user"),
    hasCommitted: fc.boolean(),
    reportsEnd: fc.boolean(),
    isCut: fc.boolean(),
  }),
  { minLength: 1, maxLength: 25 },
);

Deno.test("nextKeepAlive(): net costs never exceed 5 % of a session's cost without keep-alive, and state is plain data", () => {
  fc.assert(fc.property(SESSIONS, fc.boolean(), fc.boolean(), (calls, upgrades, grants) => {
    let clock = NEW_CLOCK;
    let trial: UpgradeTrial | undefined = upgrades ? UNTRIED : undefined;
    let nowMs = 0;
    let bare = 0;
    let paid = 0;
    for (const { gapMs, newTokens, outputTokens, isCut, ...idle } of calls) {
      const shared = isCut ? 0 : clock.heldTokens + clock.answerTokens;
      const promptTokens = shared + newTokens;
      const inHour = nowMs - clock.usedMs <= 60 * MINUTE ? Math.min(shared, clock.hourTokens) : 0;
      const inFive = nowMs - clock.usedMs <= PROFILE.ttlMs ? Math.min(shared, clock.heldTokens) : 0;
      const cachedTokens = Math.max(inHour, inFive);
      const cold = nowMs - clock.requestedAtMs <= PROFILE.ttlMs - 1 ? cachedTokens : 0;
      const made = request(clock, { atMs: nowMs, promptTokens, cachedTokens, outputTokens, shared });
      assertEquals(
        request(JSON.parse(JSON.stringify(clock)), {
          ...{ atMs: nowMs, promptTokens, cachedTokens, outputTokens, shared },
        }),
        made,
      );
      paid += promptCost(PROFILE, { promptTokens, cachedTokens }) + 5 * outputTokens;
      bare += promptCost(PROFILE, { promptTokens, cachedTokens: cold }) + 5 * outputTokens;
      clock = made.clock;
      if (trial && made.upgrade) trial = observeUpgrade(trial, made.upgrade);
      assertAlmostEquals(clock.baseline, bare, 1e-3);
      const endMs = nowMs + gapMs;
      for (;;) {
        const requested: Idle = { ...idle, nowMs, ...(trial && { trial }) };
        const next = nextKeepAlive(clock, requested, { profile: PROFILE });
        assertEquals(nextKeepAlive(JSON.parse(JSON.stringify(clock)), requested, { profile: PROFILE }), next);
        if (!next || next.atMs >= endMs) break;
        assert(next.atMs >= nowMs && next.atMs <= clock.usedMs + PROFILE.ttlMs);
        nowMs = next.atMs;
        const pinged = ping(clock, { ...next, ...(!grants && { type: "exact" }) });
        if (next.type === "upgrade") trial = observeUpgrade(trial!, { of: "bill", isGood: grants });
        paid += next.costUnits;
        clock = { ...pinged.clock, spent: clock.spent + next.costUnits };
        assert(clock.spent - clock.credited <= 0.05 * clock.baseline + 1e-6);
        assert(paid <= 1.05 * bare + 1e-3, `${paid} ${bare}`);
      }
      nowMs = endMs;
    }
  }));
});
