import { assertEquals } from "@std/assert";
import { compactionOf } from "@tare/planner/internal";

Deno.test("compactionOf() returns the size from which agents compact, in windows of 60,000 and 200,000 tokens", () => {
  const from = (agent: string) =>
    [60_000, 200_000].map((windowTokens) => compactionOf(agent)?.fullFrom?.(windowTokens, 8_000));
  assertEquals(
    ["pi", "opencode", "codex_exec", "claude-cli", "QwenCode"].map(from),
    [[43_616, 183_616], [52_000, 192_000], [54_000, 180_000], [60_000, 167_000], [27_000, 167_000]],
  );
  assertEquals(compactionOf("opencode")?.fullFrom?.(200_000, undefined), 168_000);
  assertEquals(compactionOf("QwenCode")?.fullFrom?.(32_000, undefined), 27_200);
  assertEquals([compactionOf("somebody"), compactionOf("constructor")], [undefined, undefined]);
});
