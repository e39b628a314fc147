import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { MESSAGES } from "./agents/protocols/messages.ts";
import { readFiles, readingSteps } from "./agents/scenarios.ts";
import { type Account, accountOf, type SimulatedAction } from "./agents/simulated_play.ts";
import { SIMULATED_AGENTS, SIMULATED_SCENARIOS } from "./agents/simulated_scenarios.ts";
import fc, { cases } from "./cases.ts";

/** Most deviation of the estimated saving, as a share of the direct bill and of the real saving. */
const OF_BILL = 0.03;
const OF_SAVING = 0.08;

/** Least saving, as a share of the bill, that the share of the saving applies to. */
const LEAST_SAVING = 0.1;

function assertHonest({ direct, through, recorded, claimed }: Account, of: string): void {
  assertAlmostEquals(recorded, through, 1e-4 * through, of);
  const saved = direct - through;
  const off = `${of}: ${Math.round(claimed)} claimed, ${Math.round(saved)} saved of ${Math.round(direct)}`;
  assert(Math.abs(claimed - saved) <= OF_BILL * direct, off);
  if (Math.abs(saved) < LEAST_SAVING * direct) return;
  assert(Math.abs(claimed - saved) <= OF_SAVING * Math.abs(saved), off);
}

for (const scenario of SIMULATED_SCENARIOS) {
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

const action: fc.Arbitrary<SimulatedAction> = fc.oneof(
  { weight: 4, arbitrary: fc.constant({ prompt: "Go on." }) },
  { weight: 2, arbitrary: fc.constant("restart" as const) },
  fc.constant("compact" as const),
  { weight: 2, arbitrary: fc.constantFrom(25, 26).map((tools) => ({ tools })) },
  { weight: 2, arbitrary: fc.constantFrom("usual" as const, "other" as const).map((model) => ({ model })) },
  fc.constantFrom(60_000, 7_200_000).map((pauseMs) => ({ pauseMs })),
);

/** Returns actions of a session of several turns, which are interrupted after a few calls. */
const session = fc.array(fc.tuple(action, fc.integer({ min: 1, max: 14 })), { minLength: 4, maxLength: 10 })
  .map((parts) =>
    parts.flatMap(([action, stopsBefore]): readonly SimulatedAction[] =>
      typeof action === "object" && "prompt" in action
        ? [{ ...action, stopsBefore }]
        : [action, { prompt: "Go on.", stopsBefore }]
    )
  );

Deno.test("ledger: the estimated saving is real in random sessions (invariant 11)", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...SIMULATED_AGENTS),
      session,
      fc.boolean(),
      async (agent, actions, rereads) => {
        const facts = { 2: "alder", 7: "birch", 13: "cedar" };
        const steps = readingSteps(60, facts).map((calls) =>
          calls.map((call) => typeof call === "string" ? call.replace(/ && rm .*/, "") : call)
        );
        const account = await accountOf(agent, {
          name: "random",
          plans: { FIRST: { steps, facts: Object.values(facts), report: "report.txt", rereads } },
          files: readFiles(60, facts),
          ttlMs: 600_000,
          // The ledger doesn't model that a cache with breakpoints looks back 20 blocks only, so it assumes a hit
          // for tools or a model that come back later.
          actions: [
            { prompt: "Follow plan:FIRST and write report.txt.", stopsBefore: 12 },
            ...actions.filter((action) =>
              agent.protocol !== MESSAGES || typeof action === "string" ||
              !("tools" in action || "model" in action)
            ),
            { prompt: "Go on." },
          ],
        });
        assertHonest(account, agent.name);
      },
    ),
    { numRuns: cases(12) },
  );
});
