import { assertEquals, assertGreaterOrEqual } from "@std/assert";
import { CACHING, measureForks } from "../scripts/bench_forks.ts";

Deno.test("a helper's first call reads at least 95 % of its parent's newest request from each provider's cache", async () => {
  for (const name of CACHING) {
    const { forks, rewrites } = await measureForks(name);
    assertEquals([name, forks.length, forks.filter(({ isWhole }) => !isWhole)], [name, 64, []]);
    for (const { sharedTokens, cachedTokens } of forks) {
      assertGreaterOrEqual(cachedTokens / sharedTokens, 0.95, `${name}: ${cachedTokens} of ${sharedTokens}`);
    }
    // Else nothing is said of prompts that were rewritten before.
    if (name !== "local") assertGreaterOrEqual(rewrites, 1, name);
  }
});
