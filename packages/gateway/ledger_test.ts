import { assertEquals } from "@std/assert";
import { profileNamed } from "@tare/planner";
import { GatewayLedger } from "./ledger.ts";

Deno.test("GatewayLedger adds up each group for itself", () => {
  const ledger = new GatewayLedger();
  const profile = profileNamed("openai");
  const call = { usage: { promptTokens: 1000, cachedTokens: 500, outputTokens: 7 }, profile };
  ledger.count("planned", "sessions");
  ledger.count("planned", "sessions");
  ledger.count("planned", "recalls", 3);
  ledger.count("control", "errors");
  ledger.call("planned", call);
  const { planned, control } = ledger.report();
  assertEquals(planned, {
    sessions: 2,
    calls: 1,
    errors: 0,
    recalls: 3,
    promptTokens: 1000,
    cachedTokens: 500,
    outputTokens: 7,
    cost: 550,
    costPerSession: 275,
    callsPerSession: 0.5,
  });
  assertEquals([control.errors, control.costPerSession], [1, 0]);
});
