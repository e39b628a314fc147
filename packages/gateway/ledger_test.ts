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
  ledger.book(one!, callTotals(usage, profileNamed("openai")));
  ledger.book(one!, { compactions: 1, compactionCost: 550 });
  ledger.book(control!, { errors: 1 });
  const planned = {
    ...{ calls: 1, errors: 0, recalls: 3, compactions: 1 },
    ...{ promptTokens: 1000, cachedTokens: 500, outputTokens: 7, cost: 550, compactionCost: 550 },
  };
  assertEquals([one?.totals, other?.totals], [planned, NO_CALLS]);
  const report = ledger.report();
  assertEquals(report.planned, { sessions: 2, ...planned, costPerSession: 275, callsPerSession: 0.5 });
  assertEquals([report.control.errors, report.control.costPerSession], [1, 0]);
});
