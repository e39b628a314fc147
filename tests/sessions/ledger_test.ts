import { MESSAGES } from "../agents/protocols/messages.ts";
import { readFiles, readingSteps } from "../agents/scenarios.ts";
import { accountOf, type SimulatedAction } from "../agents/simulated_play.ts";
import { SIMULATED_AGENTS, SIMULATED_SCENARIOS } from "../agents/simulated_scenarios.ts";
import fc, { cases } from "../cases.ts";
import { assertHonest, IN_FAST_SUITE, testLedger } from "../ledger.ts";

for (const scenario of SIMULATED_SCENARIOS) {
  if (!IN_FAST_SUITE.includes(scenario.name)) testLedger(scenario);
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
