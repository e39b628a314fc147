/**
 * Measures the lifetime of a provider's prefix cache: new prefixes are sent twice, some time apart, and the reported cached
 * tokens are recorded. Writes a profile for `deno task start --profile`.
 *
 *     OPENAI_API_KEY=… TARE_MODEL=… deno task bench cache --price-in USD --price-out USD --budget USD
 *                             [--idle 1m,5m,10m,30m,1h,2h] [--repeats 3] [--tokens 18000] [--name NAME] [--upgrade]
 *
 * With `--upgrade` and `ANTHROPIC_API_KEY` it measures extended keep-alive in four requests and 70 minutes: whether a
 * request that reads a cached prefix, with a one-hour breakpoint after a reply, extends the whole prefix to an hour, its
 * price, and whether a read within the hour renews it. The prefix has at least 20,000 tokens.
 *
 * Prices are per million tokens. Results are stored in `.tare/measured`, and the same command continues an interrupted run.
 * Without a provider the simulator replies, and no time passes.
 *
 * @module
 */
import {
  type FlagValues,
  openBench,
  parseFlags,
  readCount,
  type Report,
  runBench,
  type Surroundings,
  withinBudget,
} from "./experiment.ts";
import { type CacheSample, type CacheSettings, cacheTable, probe, summarize } from "./cache.ts";
import { readDuration } from "./clock.ts";
import { probeUpgrade, summarizeUpgrade, type UpgradeSample, upgradeTable } from "./upgrade.ts";

const NOTHING_CACHED =
  "Nothing was served from a cache: the provider has none, doesn't report it, or uses machines that don't share one.";

export async function probeCache(args: readonly string[], surroundings: Surroundings): Promise<Report> {
  const values = parseFlags(args, {
    idle: { type: "string", default: "1m,5m,10m,30m,1h,2h" },
    repeats: { type: "string", default: "3" },
    tokens: { type: "string", default: "18000" },
    upgrade: { type: "boolean", default: false },
  });
  if (values.upgrade) return await upgrade(values, surroundings);
  const settings: CacheSettings = {
    idleMs: [...new Set(values.idle.split(",").map((text) => readDuration("--idle", text)))].sort((a, b) =>
      a - b
    ),
    repeats: readCount("--repeats", values.repeats),
    prefixTokens: readCount("--tokens", values.tokens),
  };
  const bench = await openBench<CacheSample>({
    task: "bench cache",
    values,
    // Idle times and prefixes may be added later.
    settings: { prefixTokens: settings.prefixTokens },
    simulated: () => ({ content: "ok" }),
  }, surroundings);
  const stopped = await withinBudget(() => probe(bench, settings));
  const { lines, profileFile } = summarize(bench, settings);
  bench.results.summarize({ lines, profileFile });
  const file = profileFile && bench.write(".profile.json", `${JSON.stringify(profileFile, null, 2)}\n`);
  return {
    text: [
      cacheTable(lines),
      "",
      file ? `deno task start --profile ${file}` : NOTHING_CACHED,
    ].join("\n"),
    stopped,
  };
}

const LEAST_UPGRADE_TOKENS = 20_000;

async function upgrade(
  values: FlagValues & { readonly tokens: string },
  surroundings: Surroundings,
): Promise<Report> {
  const prefixTokens = Math.max(LEAST_UPGRADE_TOKENS, readCount("--tokens", values.tokens));
  const settings = { prefixTokens, upgrade: true };
  const bench = await openBench<UpgradeSample>({
    task: "bench cache --upgrade",
    values,
    settings,
    simulated: () => ({ content: "yes" }),
    inMessages: true,
  }, surroundings);
  const stopped = await withinBudget(() => probeUpgrade(bench, settings));
  const summary = summarizeUpgrade(bench);
  bench.results.summarize(summary);
  return { text: upgradeTable(bench, summary), stopped };
}

if (import.meta.main) await runBench(probeCache);
