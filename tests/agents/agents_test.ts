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
          // What a call took that broke off nobody tells.
          assertAlmostEquals(booked, through, 0.01 * through);
        });
        // A share of the bill: of what was saved, which may be nothing, no error would be small enough.
        await test.step(`claimed ${whole(claimed)} for ${whole(direct - through)} of ${whole(direct)}`, () => {
          // What is saved because the gateway marks the conversation, or mends it, nobody claims; nor does anybody know
          // what two at the same time serve each other.
          const isWhole = caches && scenario.needs !== "parallel";
          if (isWhole) assertAlmostEquals(claimed, direct - through, 0.05 * direct);
          else assertLess(claimed, direct - through + 0.05 * direct);
        });
        // Of a call that failed nobody knows whether it is cached, nor what another conversation has left.
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
