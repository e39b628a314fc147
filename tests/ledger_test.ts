import { SIMULATED_SCENARIOS } from "./agents/simulated_scenarios.ts";
import { IN_FAST_SUITE, testLedger } from "./ledger.ts";

for (const scenario of SIMULATED_SCENARIOS) {
  if (IN_FAST_SUITE.includes(scenario.name)) testLedger(scenario);
}
