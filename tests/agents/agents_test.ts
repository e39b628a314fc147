import { assertLess } from "@std/assert";
import { compare } from "./compare.ts";
import { CLAUDE_CODE } from "./drivers/claude_code.ts";
import { CODEX } from "./drivers/codex.ts";
import { OPENCODE } from "./drivers/opencode.ts";
import { PI } from "./drivers/pi.ts";
import { SCENARIOS, STANDARD } from "./scenarios.ts";

for (const agent of [PI, OPENCODE, CODEX, CLAUDE_CODE]) {
  for (const scenario of SCENARIOS) {
    Deno.test({
      name: `${agent.name}: ${scenario.name}`,
      ignore: scenario.needs !== undefined && !agent.tools[scenario.needs],
      async fn(test) {
        const { cost } = await compare(agent, scenario);
        await test.step(`cost ${cost.toFixed(2)} of what it costs directly`, () => {
          if (scenario === STANDARD) assertLess(cost, 0.75);
        });
      },
    });
  }
}
