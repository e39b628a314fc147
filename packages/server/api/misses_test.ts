import { assertAlmostEquals, assertEquals } from "@std/assert";
import { type CallReport, reportCall } from "@tare/session/internal/report";
import { type LedgerEntry, profileNamed } from "@tare/planner";
import { reportMisses } from "./misses.ts";

const rates = { profile: profileNamed("openai"), price: { input: 1, output: 0, cacheRead: 0.1 } };

/** Calls of a session: seconds since its start, its turn, and the cause of the misses, of 10,000 tokens each. */
function calls(
  ...list: readonly (readonly [second: number, turn: number, cause: string, more?: Partial<CallReport>])[]
): CallReport[] {
  return list.map(([second, turn, cause, more = {}], at) => ({
    ...reportCall({ promptTokens: 10_000, cachedTokens: 0, outputTokens: 0 }, {
      ...{ number: at + 1, turn, purpose: "turn", rates },
      at: new Date(Date.UTC(2026, 0, 1, 12, 0, second)).toISOString(),
    }),
    uncached: [{ cause: cause as LedgerEntry["uncached"][number]["cause"], tokens: 10_000 }],
    ...more,
  }));
}

async function report(sessions: Readonly<Record<string, readonly CallReport[]>>, query = {}) {
  return await reportMisses(
    (async function* () {
      for (const [id, calls] of Object.entries(sessions)) yield { id, calls };
    })(),
    query,
  );
}

const changed: NonNullable<CallReport["changed"]> = {
  where: "instructions",
  kind: "date",
  place: 0,
  line: 3,
  before: "12:01",
  after: "12:02",
  tokens: 10_000,
};

Deno.test("reportMisses() separates causes by the event that a call waited for, avoidable ones first", async () => {
  const { misses, ...totals } = await report({
    a: calls(
      [0, 1, "first_call"],
      [400, 1, "expired"],
      [900, 1, "expired", { afterQuestion: true }],
      [2_000, 2, "expired"],
      [2_030, 2, "provider_lost"],
      [2_200, 2, "provider_lost"],
      [2_210, 2, "client_changed", { changed }],
      [2_220, 2, "new", { promptTokens: 900 }],
    ),
    b: calls([0, 1, "first_call"], [10, 1, "client_changed", { changed }], [20, 1, "own_rewrite"]),
  });
  assertEquals(totals, { sessions: 2, calls: 11, promptTokens: 100_900, cachedTokens: 0 });
  const reported = misses.map(({ cause, avoidable, calls, tokens }) => [cause, avoidable, calls, tokens]);
  assertEquals(reported[0], ["changed_instructions", true, 2, 20_000]);
  assertEquals(reported.slice(1, 5).map(([cause]) => cause).sort(), [
    "expired_approval",
    "expired_tool",
    "expired_user",
    "routed",
  ]);
  assertEquals(reported.slice(1, 5).every(([, avoidable]) => avoidable), true);
  assertEquals(reported.slice(5).some(([, avoidable]) => avoidable), false);
  assertEquals(reported.slice(5).map(([cause]) => cause).sort(), [
    "evicted",
    "first_call",
    "own_rewrite",
    "too_small",
  ]);
  const [first] = misses;
  assertAlmostEquals(first!.usd, 0.02);
  assertEquals([first!.costUnits, first!.unpricedCalls], [20_000, 0]);
  assertEquals(first!.dearest, { session: "a", call: 7, tokens: 10_000, changed });
});

Deno.test("reportMisses() doesn't report a difference of one block as a miss", async () => {
  const lost = (tokens: number) => ({ uncached: [{ cause: "provider_lost" as const, tokens }] });
  const { misses } = await report({
    a: calls([0, 1, "first_call"], [5, 1, "", lost(114)], [10, 1, "", lost(128)], [15, 1, "", lost(129)]),
  });
  assertEquals(misses.map(({ cause, calls, tokens }) => [cause, calls, tokens]), [
    ["routed", 1, 129],
    ["first_call", 1, 10_000],
    ["new", 2, 242],
  ]);
});

Deno.test("reportMisses() reports the requested days", async () => {
  const sessions = { a: calls([0, 1, "first_call"], [86_400, 2, "expired"]) };
  assertEquals((await report(sessions, { to: "2026-01-01" })).misses.map(({ cause }) => cause), [
    "first_call",
  ]);
  assertEquals((await report(sessions, { from: "2026-01-02" })).misses.map(({ cause }) => cause), [
    "expired_user",
  ]);
  assertEquals((await report(sessions, { from: "2026-01-03" })).sessions, 0);
});
