import { assertEquals } from "@std/assert";
import { profileNamed } from "@tare/planner";
import { callTotals, GatewayLedger, NO_CALLS } from "./ledger.ts";

Deno.test("GatewayLedger adds up each session and each group for itself", () => {
  const ledger = new GatewayLedger();
  const usage = { promptTokens: 1000, cachedTokens: 500, outputTokens: 7 };
  const [one, other, control] = [false, false, true].map((control) => ({ control, totals: NO_CALLS }));
  ledger.begin(one!);
  ledger.begin(other!);
  ledger.book(one!, { recalls: 3 });
  ledger.book(one!, callTotals(usage, { profile: profileNamed("openai") }));
  ledger.book(one!, { compactions: 1, compactionTokenUnits: 550 });
  ledger.book(control!, { errors: 1 });
  const planned = {
    ...{ calls: 1, errors: 0, recalls: 3, compactions: 1 },
    ...{ promptTokens: 1000, cachedTokens: 500, outputTokens: 7, tokenUnits: 550 },
    ...{ compactionTokenUnits: 550, unpricedCalls: 1 },
  };
  assertEquals([one?.totals, other?.totals], [planned, NO_CALLS]);
  const report = ledger.report();
  assertEquals(report.planned, { sessions: 2, ...planned, tokenUnitsPerSession: 275, callsPerSession: 0.5 });
  assertEquals([report.control.errors, report.control.tokenUnitsPerSession], [1, 0]);
});

Deno.test("GatewayLedger counts dollars where prices are known, says of how many calls none is, and averages then no dollars", () => {
  const ledger = new GatewayLedger();
  const account = { control: false, totals: NO_CALLS };
  const usage = { promptTokens: 1_000_000, cachedTokens: 0, outputTokens: 1_000_000 };
  const profile = profileNamed("none");
  ledger.begin(account);
  ledger.begin(account);
  const { usdPerSession: none, usd: nothing } = ledger.report().planned;
  ledger.book(account, callTotals(usage, { profile, price: { input: 1, output: 4 } }));
  ledger.book(account, { compactionUsd: 1 });
  const { usdPerSession, usd, compactionUsd } = ledger.report().planned;
  ledger.book(account, callTotals(usage, { profile }));
  const { usdPerSession: unknown, usd: known, unpricedCalls } = ledger.report().planned;
  assertEquals([none, nothing], [undefined, undefined]);
  assertEquals([usdPerSession, usd, compactionUsd], [2.5, 5, 1]);
  assertEquals([unknown, known, unpricedCalls], [undefined, 5, 1]);
  assertEquals([account.totals.usd, account.totals.unpricedCalls], [5, 1]);
});
