import { assertAlmostEquals, assertEquals } from "@std/assert";
import {
  reportCall,
  reportSpend,
  type SpendingSession,
  SPENT_ON,
  usageTotals,
} from "@tare/session/internal/report";
import { type LedgerEntry, profileNamed } from "@tare/planner";

const PRICE = { input: 10, output: 20, cacheRead: 1, cacheWrite: 12.5 };
const RATES = { profile: profileNamed("anthropic-5m"), price: PRICE };

function entry(uncached: LedgerEntry["uncached"], summary?: LedgerEntry["summary"]): LedgerEntry {
  const usage = { promptTokens: 1_000_000, cachedTokens: 0, outputTokens: 0 };
  return {
    ...{ usage, predictedCachedTokens: 0, uncached, baseline: usage, baselineCostUnits: 0 },
    ...{ savedCostUnits: 0, stopped: false, costUnits: 0, ...(summary && { summary }) },
    shares: { tools: 0, core: 0, oldTurns: 0, activeTurn: 0, results: 0, placeholders: 0 },
  };
}

function callOf(
  { promptTokens = 1_000_000, cachedTokens = 0, turn = 1, number = 1, rates = RATES, ledger, rewritten }: {
    readonly promptTokens?: number;
    readonly cachedTokens?: number;
    readonly turn?: number | null;
    readonly number?: number;
    readonly rates?: Parameters<typeof reportCall>[1]["rates"];
    readonly ledger?: LedgerEntry;
    readonly rewritten?: boolean;
  } = {},
) {
  const rewrite = { mechanism: "planner", reason: "", removed: "", tokensBefore: 2, tokensAfter: 1 };
  return reportCall({ promptTokens, cachedTokens, outputTokens: 100_000 }, {
    ...{ number, at: `2026-01-0${number}T00:00:00.000Z`, turn, purpose: turn === null ? "title" : "turn" },
    ...{ rates, ledger, rewrites: rewritten ? [rewrite] : [] },
  });
}

Deno.test("reportCall() splits the cost of a call in dollars and cost units, with its summary as own rewrite", () => {
  const ledger = entry([
    { cause: "expired", tokens: 300_000 },
    { cause: "own_rewrite", tokens: 100_000 },
    { cause: "tools_changed", tokens: 50_000 },
    { cause: "provider_lost", tokens: 50_000 },
    { cause: "new", tokens: 100_000 },
  ], { promptTokens: 100_000, cachedTokens: 100_000, outputTokens: 10_000 });
  const call = callOf({ cachedTokens: 400_000, ledger });
  const rounded = (of: object | null) =>
    Object.entries(of ?? {}).map(([name, sum]) => [name, Number(sum.toFixed(9))]);
  assertEquals(rounded(call.spent.usd), [
    ...[["cacheRead", 0.4], ["new", 1.25], ["expired", 3.75], ["ownRewrite", 1.25 + 0.1 + 0.2]],
    ...[["changed", 0.625], ["lost", 0.625], ["output", 2], ["serverSide", 0], ["keepAlive", 0]],
  ]);
  assertEquals(rounded(call.spent.costUnits), [
    ...[["cacheRead", 40_000], ["new", 125_000], ["expired", 375_000], ["ownRewrite", 125_000 + 10_000]],
    ...[["changed", 62_500], ["lost", 62_500], ["output", 0], ["serverSide", 0], ["keepAlive", 0]],
  ]);
  const totals = usageTotals.call(call);
  for (const [unit, whole] of [["Usd", call.usd!], ["CostUnits", call.costUnits]] as const) {
    assertAlmostEquals(SPENT_ON.reduce((sum, part) => sum + totals[`${part}${unit}`], 0), whole);
  }
});

Deno.test("reportCall() splits an unpriced call in cost units, and retains the cost as of the call", () => {
  const { usd, spent } = callOf({ cachedTokens: 500_000, rates: { profile: RATES.profile } });
  assertEquals([usd, spent.usd, spent.costUnits.cacheRead, spent.costUnits.new], [
    null,
    null,
    50_000,
    625_000,
  ]);
  const usage = { promptTokens: 1_000_000, cachedTokens: 500_000, outputTokens: 0 };
  const call = { number: 1, at: null, turn: 1, purpose: "turn", cost: { costUnits: 1_350_000, usd: 13.5 } };
  const dearer = reportCall(usage, { ...call, rates: RATES }).spent;
  assertAlmostEquals(dearer.usd!.cacheRead, 1);
  assertAlmostEquals(dearer.usd!.new, 12.5);
  // Without a current price, the cost as of the call is split by cost units.
  const forgotten = reportCall(usage, { ...call, rates: { profile: RATES.profile } }).spent;
  assertAlmostEquals(forgotten.usd!.cacheRead, 1);
});

function* sessions(): Generator<SpendingSession> {
  const one = { kind: "agent", title: "One", model: "a", agent: "tare" } as const;
  yield {
    ...{ ...one, id: "1" },
    days: {
      "2026-01-01 a": { ...usageTotals.nothing, calls: 1, usd: 1 },
      "2026-01-02 a": { ...usageTotals.nothing, calls: 2, usd: 2 },
    },
  };
  yield {
    ...{ id: "2", kind: "gateway", title: "Two", model: "b", agent: null },
    days: {
      "2026-01-02 a": { ...usageTotals.nothing, calls: 4, usd: 4, unpricedCalls: 1 },
      "2026-01-02 b": { ...usageTotals.nothing, calls: 8, costUnits: 9, unpricedCalls: 8 },
      "2026-01-03": { ...usageTotals.nothing, calls: 16, usd: 0.5 },
    },
  };
}

Deno.test("reportSpend() groups costs by day, model, session and agent within a range of days", () => {
  const rows = (query: Parameters<typeof reportSpend>[1]) =>
    reportSpend(sessions(), query).rows.map(({ key, calls, usd, unpricedCalls }) => [
      ...[key, calls, usd, unpricedCalls],
    ]);
  assertEquals(rows({ by: "day" }), [
    ["2026-01-03", 16, 0.5, 0],
    ["2026-01-02", 14, 6, 9],
    ["2026-01-01", 1, 1, 0],
  ]);
  assertEquals(rows({ by: "model" }), [["a", 7, 7, 1], ["", 16, 0.5, 0], ["b", 8, 0, 8]]);
  assertEquals(rows({ by: "session", from: "2026-01-02", to: "2026-01-02" }), [["2", 12, 4, 9], [
    "1",
    2,
    2,
    0,
  ]]);
  assertEquals(rows({ by: "agent", from: "2026-01-03" }), [["", 16, 0.5, 0]]);
  const bothDays = rows({ by: "day_agent", from: "2026-01-02" });
  assertEquals(bothDays.map(([key]) => key).sort(), ["2026-01-02", "2026-01-02 tare", "2026-01-03"].sort());
  const report = reportSpend(sessions(), { by: "session", limit: 1 });
  assertEquals([report.rows.length, report.hasMore, report.all.calls, report.all.usd], [1, true, 31, 7.5]);
  assertEquals(report.rows[0]?.session, { kind: "gateway", title: "Two", model: "b", agent: null });
});
