/**
 * Measures how long a provider's prefix cache keeps what it was sent: prefixes that nobody has sent before are sent
 * twice, some time apart, and the cached tokens that it reports are read back. Writes a profile's file for
 * `deno task start --profile`.
 *
 *     OPENAI_API_KEY=… TARE_MODEL=… deno task bench cache --price-in USD --price-out USD --budget USD
 *                             [--idle 1m,5m,10m,30m,1h,2h] [--repeats 3] [--tokens 18000] [--name NAME] [--upgrade]
 *
 * With `--upgrade`, and a key in `ANTHROPIC_API_KEY`, it measures instead in four requests and 70 minutes what the planner's
 * clock relies on: that a request which reads a warm prefix and puts an hour's mark behind a reply makes all of it last an
 * hour, what that is billed, and whether a read within the hour keeps it for another. The prefix has at least 20,000 tokens.
 *
 * Prices are for a million tokens. Results are kept in `.tare/measured`, and the same command goes on where it was
 * stopped. Without a provider the simulator answers, and no time passes.
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
import { type CacheSample, type CacheSettings, cacheTable, probe, summarise } from "./cache.ts";
import { readDuration } from "./clock.ts";
import { probeUpgrade, summariseUpgrade, type UpgradeSample, upgradeTable } from "./upgrade.ts";

const NOTHING_CACHED =
  "Nothing was ever served from a cache: the provider has none, doesn't report it, or answers from machines that don't share one.";

/** Runs the experiment as its flags say. */
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
    // Idle times and prefixes may be added later on.
    settings: { prefixTokens: settings.prefixTokens },
    simulated: () => ({ content: "ok" }),
  }, surroundings);
  const stopped = await withinBudget(() => probe(bench, settings));
  const { lines, profileFile } = summarise(bench, settings);
  bench.results.summarise({ lines, profileFile });
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

/** Fewer tokens would show little: an upgrade is asked for from there on. */
const LEAST_UPGRADE_TOKENS = 20_000;

async function upgrade(
  values: FlagValues & { readonly tokens: string },
  surroundings: Surroundings,
): Promise<Report> {
  const prefixTokens = Math.max(LEAST_UPGRADE_TOKENS, readCount("--tokens", values.tokens));
  const settings = { prefixTokens, upgrade: true };
  const bench = await openBench<UpgradeSample>({
    task: "probe:upgrade",
    values,
    settings,
    simulated: () => ({ content: "yes" }),
    inMessages: true,
  }, surroundings);
  const stopped = await withinBudget(() => probeUpgrade(bench, settings));
  const summary = summariseUpgrade(bench);
  bench.results.summarise(summary);
  return { text: upgradeTable(bench, summary), stopped };
}

if (import.meta.main) await runBench(probeCache);
