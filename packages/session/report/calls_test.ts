import { assertEquals } from "@std/assert";
import { Accounts, usageTotals } from "@tare/session/internal/report";

const DAY_MS = 24 * 60 * 60_000;

Deno.test("Accounts adds totals of sessions by day and group", () => {
  const accounts = new Accounts();
  const call = {
    ...{ calls: 1, promptTokens: 1000, cachedTokens: 500, outputTokens: 7, costUnits: 550 },
    ...{ baselineCostUnits: 800, projectedCostUnits: 550 },
  };
  accounts.add("planned", { sessions: 1, days: {} });
  accounts.add("planned", {
    sessions: 1,
    days: { "1970-01-01": { ...usageTotals.nothing, calls: 2, costUnits: 100 } },
  });
  accounts.add("holdout", { sessions: 1, days: {} });
  accounts.add("planned", { sessions: 0, days: { "1970-01-02": call } });
  accounts.add("planned", {
    sessions: 0,
    days: { "1970-01-02": { recalls: 3, compactions: 1, compactionCostUnits: 550 } },
  });
  accounts.add("holdout", { sessions: 0, days: { "1970-01-01": { errors: 1 } } });
  const today = { ...usageTotals.nothing, ...call, recalls: 3, compactions: 1, compactionCostUnits: 550 };
  const planned = { ...today, calls: 3, costUnits: 650 };
  assertEquals(accounts.overview(DAY_MS, []), {
    today,
    all: { ...planned, errors: 1 },
    groups: {
      planned: { ...planned, sessions: 2 },
      holdout: { ...usageTotals.nothing, errors: 1, sessions: 1 },
    },
    warnings: [],
  });
  assertEquals(accounts.overview(2 * DAY_MS, []).today, usageTotals.nothing);
  assertEquals(accounts.report(), {
    planned: {
      ...planned,
      ...{ sessions: 2, costUnitsPerSession: 325, callsPerSession: 1.5, usdPerSession: 0 },
      ...{ baselineCostUnitsPerSession: 400, projectedCostUnitsPerSession: 275 },
    },
    holdout: {
      ...usageTotals.nothing,
      ...{ errors: 1, sessions: 1, costUnitsPerSession: 0, callsPerSession: 0, usdPerSession: 0 },
      ...{ baselineCostUnitsPerSession: 0, projectedCostUnitsPerSession: 0 },
    },
  });
});

Deno.test("Accounts counts unpriced calls, and reports no average dollars with them", () => {
  const accounts = new Accounts();
  accounts.add("planned", { sessions: 1, days: {} });
  accounts.add("planned", { sessions: 1, days: {} });
  const reportOf = () => {
    const { usd, usdPerSession, unpricedCalls } = accounts.report().planned;
    return [usd, usdPerSession, unpricedCalls];
  };
  accounts.add("planned", { sessions: 0, days: { "1970-01-01": { calls: 1, usd: 5 } } });
  assertEquals(reportOf(), [5, 2.5, 0]);
  accounts.add("planned", { sessions: 0, days: { "1970-01-01": { calls: 1, unpricedCalls: 1 } } });
  assertEquals(reportOf(), [5, null, 1]);
});
