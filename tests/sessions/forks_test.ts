import { assertEquals, assertGreaterOrEqual } from "@std/assert";
import { CACHING, measureForks } from "../forks.ts";
import { CASE_FACTOR } from "../cases.ts";

/** Turns of each session: with four, all providers' prompts are rewritten; with two, most. */
const TURNS = CASE_FACTOR > 2 ? 4 : 2;

Deno.test("subagents: a subagent's first call reads 95 % of its parent's newest request from each provider's cache", async () => {
  const rewritten: string[] = [];
  for (const name of CACHING) {
    const { forks, rewrites } = await measureForks(name, { turns: TURNS });
    assertEquals([name, forks.length, forks.filter(({ isWhole }) => !isWhole)], [name, 16 * TURNS, []]);
    for (const { sharedTokens, cachedTokens } of forks) {
      assertGreaterOrEqual(cachedTokens / sharedTokens, 0.95, `${name}: ${cachedTokens} of ${sharedTokens}`);
    }
    if (rewrites > 0) rewritten.push(name);
  }
  // Otherwise forks of rewritten prompts are not covered.
  assertGreaterOrEqual(rewritten.length, TURNS < 4 ? CACHING.length / 2 : CACHING.length - 1, `${rewritten}`);
});
