import { PROFILES } from "@tare/planner/internal";
import { inventedTools } from "./invented_tools.ts";
import { assertWorthwhile } from "./worthwhile_tools.ts";

Deno.test("many tools: a session with 117 generated tools costs two thirds at most, with under 3,000 prompt tokens of tools", async () => {
  for (const name of ["anthropic-5m", "none"]) await assertWorthwhile(inventedTools(117), PROFILES[name]!);
});
