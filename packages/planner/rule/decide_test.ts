import { assertEquals } from "@std/assert";
import fc from "../../../tests/cases.ts";
import { profileNamed, worthDeferring } from "@tare/planner";
import { PROFILES } from "@tare/planner/internal";
import type { Removal } from "../retention/retention.ts";
import {
  assumedHitProbability,
  decide,
  fullFromTokens,
  howMany,
  isSurelyCold,
  type Situation,
} from "./decide.ts";

/** Returns an evictable part after `start` with its carrying cost. */
function removal(start: number, tokens: number, carryingCost = 0): Removal {
  return {
    start,
    tokens,
    // Each token has cost 1.
    parts: [{ name: "idle", tokens: carryingCost }],
    idle: true,
    evicts: true,
    loss: tokens,
    how: { type: "drop", from: start, to: start + 1 },
  };
}

const profile = { ...profileNamed("openai"), minTokens: 0, blockTokens: 1 };
const warm: Situation = {
  removals: [],
  carried: 1,
  idleSince: { idle: 0 },
  profile,
  promptTokens: 10_000,
  cachedTokens: 8_000,
  cacheHitProbability: 1,
  allowedRewriteCost: Infinity,
  stopped: false,
  windowTokens: Infinity,
};
/** Rewrite costs: 2,500 for the newest, 6,100 for both. */
const withRents = (...rents: readonly number[]) => [
  removal(1_000, 0, rents[0]),
  removal(5_000, 200, rents[1]),
];
const outcome = (removals: readonly Removal[], situation: Situation) => {
  const { evicted, decision } = decide({ ...situation, removals });
  return [evicted[0]?.start, decision?.cause];
};

Deno.test("decide() waits until the carrying cost equals the rewrite cost, then takes the largest paid cut", () => {
  assertEquals(outcome([], warm), [undefined, undefined]);
  assertEquals(outcome(withRents(0, 2_499), warm), [undefined, "wait"]);
  assertEquals(outcome(withRents(0, 2_500), warm), [5_000, "price"]);
  assertEquals(outcome(withRents(3_599, 2_500), warm), [5_000, "price"]);
  assertEquals(outcome(withRents(3_600, 2_500), warm), [1_000, "price"]);
});

Deno.test("decide() reports the nearest cut, with its numbers", () => {
  assertEquals(decide({ ...warm, removals: withRents(0, 2_000) }), {
    evicted: [],
    decision: {
      cause: "wait",
      cacheHitProbability: 1,
      tokens: 200,
      brokenTokens: 3_000,
      carryingCost: 2_000,
      rewriteCost: 2_500,
    },
  });
});

Deno.test("decide() evicts everything evictable on request, whatever it costs", () => {
  const removals = withRents(0, 0);
  const requested = { ...warm, isRequested: true, allowedRewriteCost: 0 };
  assertEquals(outcome(removals, requested), [1_000, "requested"]);
  assertEquals(decide({ ...requested, removals }).evicted, removals);
  assertEquals(outcome([], requested), [undefined, undefined]);
  assertEquals(outcome(removals, { ...requested, stopped: true }), [undefined, "wait"]);
});

Deno.test("decide() prices each cut by its broken cache and its evictions", () => {
  const [first, second] = [removal(1_000, 500, 7_000), removal(5_000, 200, 10)];
  assertEquals(decide({ ...warm, removals: [second] }).decision, {
    cause: "wait",
    cacheHitProbability: 1,
    tokens: 200,
    brokenTokens: 3_000,
    carryingCost: 10,
    rewriteCost: 0.9 * 3_000 - 200,
  });
  assertEquals(decide({ ...warm, removals: [first, second] }), {
    evicted: [first, second],
    decision: {
      cause: "price",
      cacheHitProbability: 1,
      tokens: 700,
      brokenTokens: 7_000,
      carryingCost: 7_010,
      rewriteCost: 0.9 * 7_000 - 700,
    },
  });
});

Deno.test("decide() takes every cut without a cache, or with a cold one", () => {
  const removals = [removal(1_000, 500), removal(5_000, 200)];
  for (const [name, cacheHitProbability] of [["none", 1], ["anthropic-5m", 0]] as const) {
    const profile = profileNamed(name);
    const decided = [removals, removals.slice(1)].map((removals) =>
      decide({ ...warm, removals, profile, cacheHitProbability })
    );
    assertEquals(decided.map(({ evicted }) => evicted), [removals, removals.slice(1)]);
    assertEquals(decided.map(({ decision }) => decision?.rewriteCost), [
      -700 * profile.write,
      -200 * profile.write,
    ]);
  }
});

Deno.test("decide() counts a prefix as lost that a cut leaves too short to be cached", () => {
  const { decision } = decide({
    ...warm,
    profile: { ...profile, minTokens: 2_000 },
    removals: [removal(1_000, 500)],
  });
  assertEquals(decision?.brokenTokens, 8_000);
});

Deno.test("decide() starts no cut at a part worth carrying, but includes it", () => {
  const [first, second] = [removal(1_000, 500, 9_000), removal(5_000, 200, 9_000)];
  const wanted = (one: Removal) => ({ ...one, idle: false });
  const evicted = (...removals: readonly Removal[]) => decide({ ...warm, removals }).evicted;
  assertEquals(evicted(first, wanted(second)), [first, wanted(second)]);
  assertEquals(evicted(wanted(first), second), [second]);
  assertEquals(evicted({ ...first, evicts: false }, second), [second]);
});

Deno.test("decide() doesn't wait on a cold cache", () => {
  assertEquals(outcome(withRents(), { ...warm, cacheHitProbability: 0 }), [1_000, "price"]);
});

Deno.test("decide() stays within the loss limit for a warm cache, but takes free cuts", () => {
  assertEquals(outcome(withRents(9_000, 9_000), { ...warm, allowedRewriteCost: 2_400 }), [
    undefined,
    "loss_limit",
  ]);
  assertEquals(outcome(withRents(9_000, 9_000), { ...warm, allowedRewriteCost: 2_600 }), [5_000, "price"]);
  assertEquals(
    outcome(withRents(0, 1_000), { ...warm, cacheHitProbability: 0.3, allowedRewriteCost: 2_400 }),
    [
      undefined,
      "loss_limit",
    ],
  );
  assertEquals(outcome(withRents(), { ...warm, cacheHitProbability: 0.05, allowedRewriteCost: -100 }), [
    5_000,
    "price",
  ]);
});

Deno.test("decide() pays for pending pins, but doesn't evaluate them", () => {
  const ride = { start: 2_000, tokens: -100 };
  // With the pins 6,000 cached tokens are read again and 100 more are written than evicted: 5,300 instead of
  // 2,500.
  const buys = (allowedRewriteCost: number) =>
    outcome(withRents(0, 2_500), { ...warm, ride, allowedRewriteCost });
  assertEquals([buys(5_299), buys(5_300)], [[undefined, "loss_limit"], [5_000, "price"]]);
  assertEquals(decide({ ...warm, ride, removals: withRents(0, 2_500) }).decision?.rewriteCost, 2_500);
});

Deno.test("decide() makes no rewrite only because the cache may be cold", () => {
  const likely = { ...warm, cacheHitProbability: 0.2 };
  // Warm it would cost 1,700; at this probability it would pay.
  assertEquals(outcome([removal(5_000, 1_000)], likely), [undefined, "wait"]);
  assertEquals(outcome([removal(5_000, 1_000, 1)], likely), [5_000, "price"]);
});

Deno.test("decide() makes no rewrite once it has stopped", () => {
  assertEquals(outcome(withRents(9_000, 9_000), { ...warm, stopped: true }), [undefined, "stopped"]);
});

Deno.test("decide() evicts the least needed parts from a full window, whatever it costs", () => {
  const removals = [removal(1_000, 2_000), { ...removal(5_000, 3_500), loss: 100, evicts: false }];
  const full = { ...warm, removals, isHeld: true };
  assertEquals(decide({ ...full, windowTokens: 12_000 }), { evicted: [] });
  assertEquals(decide({ ...full, windowTokens: 11_000 }), {
    evicted: removals.slice(1),
    decision: {
      cause: "window",
      cacheHitProbability: 1,
      tokens: 3_500,
      brokenTokens: 3_000,
      carryingCost: 0,
      rewriteCost: 0.9 * 3_000 - 3_500,
    },
  });
  assertEquals(decide({ ...full, windowTokens: 5_000 }).evicted, removals);
  assertEquals(decide({ ...full, removals: [removal(1_000, 999)], windowTokens: 5_000 }), { evicted: [] });
  const tenth = [removal(1_000, 1_000)];
  assertEquals(decide({ ...full, removals: tenth, windowTokens: 5_000 }).evicted, tenth);
});

/** Tools of 200 tokens each; their lines take 16. */
const tools = (count: number) => ({ count, fullTokens: 200 * count, shortTokens: 250 + 16 * count });

Deno.test("worthDeferring() keeps few tools in full and defers many, whatever the provider", () => {
  for (const profile of Object.values(PROFILES)) {
    const deferred = [1, 5, 10, 25, 50, 117].map((count) => worthDeferring({ ...tools(count), profile }));
    assertEquals(deferred, [false, false, false, true, true, true], profile.name);
  }
});

Deno.test("worthDeferring() defers fewer tools, the less lookups cost", () => {
  const fewest = (name: string) => {
    let count = 1;
    while (!worthDeferring({ ...tools(count), profile: PROFILES[name]! })) count++;
    return count;
  };
  assertEquals(
    ["local", "deepseek", "anthropic-1h", "anthropic-5m", "openai", "none"].map(fewest),
    [12, 14, 16, 16, 16, 18],
  );
});

Deno.test("worthDeferring() limits definitions to a tenth of the window, unless nothing is saved", () => {
  const { openai: profile } = PROFILES;
  const at = (windowTokens: number) => worthDeferring({ ...tools(10), profile: profile!, windowTokens });
  assertEquals([at(20_000), at(19_999)], [false, true]);
  const useless = { count: 1, fullTokens: 200, shortTokens: 266 };
  assertEquals(worthDeferring({ ...useless, profile: profile!, windowTokens: 100 }), false);
});

const removals = (promptTokens: number) =>
  fc.array(
    fc.record({
      start: fc.nat(promptTokens),
      tokens: fc.integer({ min: -100, max: 2_000 }),
      loss: fc.nat(3_000),
      parts: fc.array(
        fc.record({ name: fc.constantFrom("a", "b", "new"), tokens: fc.nat(3_000) }),
        { maxLength: 2 },
      ),
      idle: fc.boolean(),
      evicts: fc.boolean(),
    }),
    { maxLength: 7 },
  ).map((all) =>
    all.sort((a, b) => a.start - b.start).map((one): Removal => ({
      ...one,
      how: { type: "drop", from: one.start, to: one.start + 1 },
    }))
  );

/** Returns every rewrite by the formula of its cost alone. */
function everyCut(
  { removals, carried, idleSince, ride, profile, promptTokens, cachedTokens, cacheHitProbability }: Situation,
) {
  const removable = removals.filter(({ evicts }) => evicts);
  const broken = (start: number) => {
    const retained = Math.floor(Math.min(start, promptTokens - 1) / profile.blockTokens) *
      profile.blockTokens;
    return Math.max(0, cachedTokens - (retained >= profile.minTokens ? retained : 0));
  };
  const rewriteCostOf = (cacheHitProbability: number, brokenTokens: number, tokens: number) =>
    cacheHitProbability * (profile.write - profile.read) * brokenTokens - profile.write * tokens;
  return removable.flatMap((removal, first) => {
    if (!removal.idle) return [];
    const evicted = removable.slice(first);
    const tokens = evicted.reduce((sum, one) => sum + one.tokens, 0);
    const carryingCost = evicted.filter(({ idle }) => idle).flatMap(({ parts }) => parts)
      .reduce((sum, part) => sum + part.tokens * (carried - (idleSince[part.name] ?? carried)), 0);
    const warm = cacheHitProbability < 0.1 ? cacheHitProbability : 1;
    const from = Math.min(removal.start, ride?.start ?? Infinity);
    return [{
      evicted,
      carryingCost,
      tokens,
      brokenTokens: broken(removal.start),
      rewriteCost: rewriteCostOf(cacheHitProbability, broken(removal.start), tokens),
      warmPrice: rewriteCostOf(warm, broken(removal.start), tokens),
      wholePrice: rewriteCostOf(warm, broken(from), tokens + (ride?.tokens ?? 0)),
    }];
  });
}

Deno.test("decide() takes the largest of all paid and allowed cuts, and reports the nearest one otherwise", () => {
  fc.assert(fc.property(
    removals(10_000),
    fc.record({
      carried: fc.nat(3),
      cacheHitProbability: fc.constantFrom(0, 0.05, 0.1, 0.3, 1),
      allowedRewriteCost: fc.constantFrom(-100, 0, 500, 2_000, Infinity),
      cachedTokens: fc.nat(10_000),
      ride: fc.option(fc.record({ start: fc.nat(10_000), tokens: fc.integer({ min: -300, max: 300 }) }), {
        nil: undefined,
      }),
      stopped: fc.boolean(),
      isHeld: fc.boolean(),
      minTokens: fc.constantFrom(0, 2_000),
      blockTokens: fc.constantFrom(1, 128),
    }),
    (removals, { minTokens, blockTokens, ...options }) => {
      const prices = { ...profile, minTokens, blockTokens };
      const situation: Situation = {
        ...warm,
        ...options,
        removals,
        idleSince: { a: 0, b: 1 },
        profile: prices,
      };
      const cuts = options.isHeld ? [] : everyCut(situation);
      const paid = cuts.filter(({ carryingCost, rewriteCost, warmPrice }) =>
        carryingCost >= rewriteCost && (carryingCost > 0 || warmPrice <= 0)
      );
      const bought = paid.find(({ wholePrice }) =>
        !options.stopped && wholePrice <= Math.max(0, options.allowedRewriteCost)
      );
      const cheapest = cuts.toReversed().reduce<typeof cuts[number] | undefined>(
        (best, cut) =>
          best && best.carryingCost - best.rewriteCost > cut.carryingCost - cut.rewriteCost ? best : cut,
        undefined,
      );
      const [reported, cause] = bought
        ? [bought, "price"]
        : paid[0]
        ? [paid[0], options.stopped ? "stopped" : "loss_limit"]
        : [cheapest, "wait"];
      const decided = decide(situation);
      assertEquals(decided.evicted, bought?.evicted ?? []);
      assertEquals(
        decided.decision && { ...decided.decision },
        reported && {
          cause: cause as "wait",
          cacheHitProbability: options.cacheHitProbability,
          tokens: reported.tokens,
          brokenTokens: reported.brokenTokens,
          carryingCost: reported.carryingCost,
          rewriteCost: reported.rewriteCost,
        },
      );
    },
  ));
});

Deno.test("decide() empties a full window at the lowest total cost, of the newest 1, 2, 4 … removals", () => {
  fc.assert(fc.property(
    removals(10_000),
    fc.record({
      cacheHitProbability: fc.constantFrom(0, 0.3, 1),
      cachedTokens: fc.nat(10_000),
      windowTokens: fc.integer({ min: 3_000, max: 14_000 }),
      windowUse: fc.option(fc.integer({ min: 8_000, max: 14_000 }), { nil: undefined }),
      fullFrom: fc.option(fc.integer({ min: 3_000, max: 13_000 }), { nil: undefined }),
    }),
    fc.constantFrom(undefined, 50_000),
    fc.constantFrom(0, 30, 400),
    (all, { windowUse, fullFrom, ...options }, historyTokens, calls) => {
      const given = {
        calls,
        ...(historyTokens !== undefined && { historyTokens }),
        ...(windowUse !== undefined && { windowUse }),
        ...(fullFrom !== undefined && { fullFrom }),
      };
      const situation: Situation = { ...warm, ...options, ...given, removals: all, isHeld: true };
      const use = windowUse ?? warm.promptTokens;
      const those = all.filter(({ tokens }) => tokens > 0);
      // A longer prompt shrinks by more, too.
      const scale = use / warm.promptTokens;
      const sum = scale * those.reduce((sum, { tokens }) => sum + tokens, 0);
      const share = [0.6, 0.9, 1].find((share) => use - sum <= share * options.windowTokens);
      let expected: readonly Removal[] = [];
      if (use > (fullFrom ?? 0.9 * options.windowTokens)) {
        if (share === undefined) expected = sum >= 0.1 * use ? those : [];
        else {
          const needed = (use - share * options.windowTokens) / scale;
          let best = { cost: Infinity, removals: those };
          for (let back = 1; back < 2 * those.length; back *= 2) {
            const behind = those.slice(-back);
            const byWorth = behind.toSorted((a, b) => a.loss / a.tokens - b.loss / b.tokens);
            for (let count = 1; count <= byWorth.length; count++) {
              const chosen = byWorth.slice(0, count);
              const freed = chosen.reduce((sum, { tokens }) => sum + tokens, 0);
              const loss = chosen.reduce((sum, one) => sum + one.loss, 0);
              const broken = Math.max(0, options.cachedTokens - behind[0]!.start - freed);
              const once = options.cacheHitProbability * (profile.write - profile.read) * broken + loss;
              const history = historyTokens ?? warm.promptTokens;
              const cost = once * (1 / history + 1 / freed) - profile.read * (freed / 2) * calls / history;
              if (freed >= needed && cost < best.cost) best = { cost, removals: chosen };
            }
          }
          expected = best.removals.toSorted((a, b) => a.start - b.start);
        }
      }
      const decided = decide(situation);
      assertEquals(decided.evicted, expected);
      assertEquals(decided.decision?.cause, expected.length > 0 ? "window" : undefined);
    },
  ));
});

Deno.test("fullFromTokens() leaves an emptied window a tenth to fill again, and room for an answer", () => {
  const from = (windowTokens: number, emptied?: number) => fullFromTokens(windowTokens, emptied);
  assertEquals([from(100_000), from(100_000, 0), from(Infinity, 5)], [90_000, 90_000, Infinity]);
  // Emptied to little, to much, and to so much that only the answer's room is left.
  assertEquals([from(100_000, 60_000), from(100_000, 82_000), from(100_000, 94_000)], [
    90_000,
    92_000,
    95_904,
  ]);
  // A small window keeps a sixteenth of it free.
  assertEquals([from(16_000, 14_000), from(16_000, 15_900)], [15_000, 15_000]);
});

Deno.test("isSurelyCold() and assumedHitProbability() count a cache from a probability of a tenth on", () => {
  assertEquals([0, 0.099, 0.1, 1].map(isSurelyCold), [true, true, false, false]);
  assertEquals([0, 0.099, 0.1, 1].map(assumedHitProbability), [0, 0.099, 1, 1]);
});

Deno.test("howMany() formats one thing or several", () => {
  assertEquals([0, 1, 2].map((count) => howMany(count, "result")), ["0 results", "1 result", "2 results"]);
});

Deno.test("decide() empties a full window to exactly six tenths if possible", () => {
  const removals = [removal(1_000, 1_000), removal(3_000, 3_000)];
  const evicted = (windowTokens: number) =>
    decide({ ...warm, removals, isHeld: true, cacheHitProbability: 0, windowTokens, fullFrom: 9_000 }).evicted
      .length;
  // All 4,000 leave 6,000, which is six tenths of the first.
  assertEquals([evicted(10_000), evicted(9_990)], [2, 1]);
  assertEquals(
    decide({ ...warm, removals, isHeld: true, windowTokens: 20_000, fullFrom: 10_000 }).evicted,
    [],
  );
});
