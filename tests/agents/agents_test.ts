import { assertAlmostEquals, assertLess, assertLessOrEqual } from "@std/assert";
import { AGENTS } from "./agents.ts";
import { compare } from "./compare.ts";
import { SCENARIOS, STANDARD } from "./scenarios.ts";

for (const agent of AGENTS) {
  for (const scenario of SCENARIOS) {
    const lack = scenario.needs && agent.lacks[scenario.needs];
    Deno.test({
      name: `${agent.name}: ${scenario.name}${lack === undefined ? "" : ` (can't: it ${lack})`}`,
      // deno-lint-ignore tare/stated-needs -- Its name states what the agent lacks.
      ignore: lack !== undefined,
      async fn(test) {
        const { direct, through, least, booked, claimed, caches, missed } = await compare(agent, scenario);
        const share = (cost: number) => (cost / direct).toFixed(2);
        await test.step(`cost ${share(through)} of what it costs directly, where ${share(least)} can't be saved`, () => {
          if (scenario === STANDARD) assertLess(through / direct, 0.75);
          if (scenario.compacts) assertLessOrEqual(through / direct, 1.05);
        });
        await test.step(`booked ${whole(booked)} of the ${whole(through)} that it cost`, () => {
          // The usage of an interrupted call is unknown.
          assertAlmostEquals(booked, through, 0.01 * through);
        });
        // Relative to the bill: the saving may be zero.
        await test.step(`claimed ${whole(claimed)} for ${whole(direct - through)} of ${whole(direct)}`, () => {
          // Savings from the gateway's own breakpoints aren't claimed; concurrent requests serve each other
          // unpredictably.
          const isWhole = caches && scenario.needs !== "parallel";
          if (isWhole) assertAlmostEquals(claimed, direct - through, 0.03 * direct);
          else assertLess(claimed, direct - through + 0.03 * direct);
        });
        // Whether a failed call was cached, and what another conversation evicted, is unknown.
        if (scenario.failures || scenario.needs === "parallel") return;
        await test.step(`expected the cache to within ${(100 * missed).toFixed(1)} % of a prompt`, () => {
          assertLessOrEqual(missed, 0.02);
        });
      },
    });
  }
}

function whole(amount: number): string {
  return Math.round(amount).toLocaleString("en");
}
