import { assertAlmostEquals, assertLess } from "@std/assert";
import { type CountTokens, sampledCount } from "@tare/messages";
import { loadTokenizer } from "@tare/tiktoken";
import { plannerSession, profileNamed } from "@tare/planner";
import { PrefixCache, promptCost } from "@tare/planner/internal/parts";
import { memoryArchive } from "@tare/prune";
import type { Recording } from "@tare/simulator/economy";
import { generateWorkload } from "./workload.ts";

const profile = profileNamed("openai");

async function playAll(countTokens: CountTokens, exact: CountTokens) {
  const played = { cost: 0, cachedTokens: 0, missedTokens: 0 };
  for (const recording of generateWorkload()) {
    const { cost, cachedTokens, missedTokens } = await play(recording, { countTokens, exact });
    played.cost += cost;
    played.cachedTokens += cachedTokens;
    played.missedTokens += missedTokens;
  }
  return played;
}

async function play(
  { messages, tools, calls }: Recording,
  { countTokens, exact }: { readonly countTokens: CountTokens; readonly exact: CountTokens },
) {
  const session = plannerSession({ profile, archive: memoryArchive(), countTokens, windowTokens: 200_000 });
  const cache = new PrefixCache(profile);
  const played = { cost: 0, cachedTokens: 0, missedTokens: 0 };
  for (const { messages: length } of calls) {
    const history = messages.slice(0, length);
    const nowMs = 10_000 * length;
    const view = await session.view({ messages: history, tools }, { nowMs, recall: true });
    const units = PrefixCache.unitsOf(view, exact);
    const promptTokens = units.reduce((sum, { tokens }) => sum + tokens, 0);
    const cachedTokens = cache.lookup(units, nowMs);
    cache.store(units, nowMs);
    const entry = session.sent({ promptTokens, cachedTokens, outputTokens: 100 }, view);
    played.cost += promptCost(profile, { promptTokens, cachedTokens });
    played.cachedTokens += cachedTokens;
    played.missedTokens += Math.abs((entry?.predictedCachedTokens ?? 0) - cachedTokens);
  }
  return played;
}

Deno.test("sampled counting: sessions cost what those with exact counts cost, and predict the cache", async () => {
  const { count } = await loadTokenizer();
  const [exact, sampled] = [await playAll(count, count), await playAll(sampledCount(count), count)];
  assertAlmostEquals(sampled.cost / exact.cost, 1, 0.02);
  assertLess(sampled.missedTokens / sampled.cachedTokens, 0.02);
});
