import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { MESSAGES } from "./agents/protocols/messages.ts";
import { type Account, accountOf, type SimulatedScenario } from "./agents/simulated_play.ts";
import { SIMULATED_AGENTS } from "./agents/simulated_scenarios.ts";

/** Scenarios of `tests/ledger_test.ts`; `tests/sessions/ledger_test.ts` plays all others. */
export const IN_FAST_SUITE: readonly string[] = ["standard", "short", "compacting by command"];

/** Most deviation of the estimated saving, as a share of the direct bill and of the real saving. */
const OF_BILL = 0.03;
const OF_SAVING = 0.08;

/** Least saving, as a share of the bill, that the share of the saving applies to. */
const LEAST_SAVING = 0.1;

export function assertHonest({ direct, through, recorded, claimed }: Account, of: string): void {
  assertAlmostEquals(recorded, through, 1e-4 * through, of);
  const saved = direct - through;
  const off = `${of}: ${Math.round(claimed)} claimed, ${Math.round(saved)} saved of ${Math.round(direct)}`;
  assert(Math.abs(claimed - saved) <= OF_BILL * direct, off);
  if (Math.abs(saved) < LEAST_SAVING * direct) return;
  assert(Math.abs(claimed - saved) <= OF_SAVING * Math.abs(saved), off);
}

export function testLedger(scenario: SimulatedScenario): void {
  Deno.test(`ledger: the estimated saving is real within 3 % of the bill (invariant 11): ${scenario.name}`, async () => {
    // Long scenarios take seconds for each agent.
    const isLong = scenario.plans.FIRST!.steps.length > 100;
    for (const agent of isLong ? SIMULATED_AGENTS.slice(-1) : SIMULATED_AGENTS) {
      const account = await accountOf(agent, scenario);
      assertHonest(account, agent.name);
      // Other protocols defer tools.
      if (scenario.name === "short" && agent.protocol === MESSAGES) assertEquals(account.claimed, 0);
    }
  });
}
