import { assert, assertEquals } from "@std/assert";
import { estimateTokens } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import { type MakePolicy, plannerPolicy, play } from "@tare/simulator/economy";
import { generateWorkload, withHugeResult } from "../../bench/economy/workload.ts";
import { ADAPTERS } from "./adapters.ts";
import { OWN_SETTINGS } from "./own_settings.ts";

const recording = generateWorkload()[1]!;
const options = {
  profile: profileNamed("none"),
  windowTokens: 200_000,
  countTokens: estimateTokens,
  recall: true,
  repairs: true,
};

/** Frameworks whose adapters pass tools on, so that their schemas stay in full. */
const KEEP_TOOLS: ReadonlySet<string> = new Set(["langchain", "mastra"]);

Deno.test("each adapter costs and forgets what the planner does, whoever keeps the session", async () => {
  const huge = withHugeResult(recording);
  const whole = await play(huge, plannerPolicy, options);
  const untouched = await play(
    huge,
    (given) => plannerPolicy(given, { mechanisms: { schemas: false } }),
    options,
  );
  assert(untouched.epochs > 1 && whole.epochs > untouched.epochs);
  for (const [framework, make] of Object.entries(ADAPTERS)) {
    const { cost, epochs, repairs, refused } = KEEP_TOOLS.has(framework) ? untouched : whole;
    const played = await play(huge, make, options);
    assertEquals([framework, played.repairs, played.refused], [framework, repairs, refused]);
    // Items of the Agents SDK hold a reply's text apart from its calls: schemas compact in other rewrites there.
    if (framework === "openai-agents") assert(played.epochs >= untouched.epochs && played.epochs <= epochs);
    else assertEquals([framework, played.epochs], [framework, epochs]);
    assert(Math.abs(played.cost / cost - 1) < 0.02, `${framework}: ${played.cost} in place of ${cost}`);
  }
});

Deno.test("each framework's own settings change what is sent, and no provider refuses it", async () => {
  for (const [framework, settings] of Object.entries(OWN_SETTINGS)) {
    const own = Object.entries(settings);
    if (own.length === 0) continue;
    const played = await Promise.all(own.map(async ([name, make]: [string, MakePolicy]) => {
      const { refused, promptTokens } = await play(recording, make, {
        ...options,
        recall: false,
        repairs: false,
      });
      assertEquals([name, refused], [name, 0]);
      return promptTokens;
    }));
    assert(new Set(played).size > played.length / 4, `${framework}: ${played.join(", ")}`);
  }
});
