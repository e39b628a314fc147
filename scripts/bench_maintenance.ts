/**
 * What pruning a long session costs: four equal sessions are sent and resumed, with old tool results pruned and as they
 * are, while the provider's cache is warm and after it has gone cold; the tokens that it missed are read back.
 *
 *     OPENAI_API_KEY=… TARE_MODEL=… deno task bench:maintenance --price-in USD --price-out USD --budget USD
 *                             [--tokens 88000] [--idle TIME] [--name NAME]
 *
 * Prices are for a million tokens. `--idle` is how long the cold sessions are left alone; default: until the profile
 * says that the cache surely is cold. Results are kept in `.tare/measured`, and the same command goes on where it was
 * stopped. Without a provider the simulator answers, and no time passes.
 *
 * @module
 */
import {
  openBench,
  parseFlags,
  readCount,
  type Report,
  runBench,
  type Surroundings,
  withinBudget,
} from "./bench/probe/bench.ts";
import { readDuration } from "./bench/probe/clock.ts";
import {
  maintain,
  maintenanceChart,
  maintenanceTable,
  type ResumedSession,
  summariseMaintenance,
} from "./bench/probe/maintenance.ts";

/** Runs the experiment as its flags say. */
export async function benchMaintenance(args: readonly string[], surroundings: Surroundings): Promise<Report> {
  const values = parseFlags(args, {
    idle: { type: "string" },
    tokens: { type: "string", default: "88000" },
  });
  const tokens = readCount("--tokens", values.tokens);
  const idle = values.idle === undefined ? {} : { idleMs: readDuration("--idle", values.idle) };
  const bench = await openBench<ResumedSession>({
    task: "bench:maintenance",
    values,
    settings: { tokens, ...idle },
    simulated: () => ({ content: "It was a note." }),
  }, surroundings);
  const { coldAfterMs } = bench.profile;
  const stopped = await withinBudget(() => maintain(bench, { tokens, idleMs: coldAfterMs, ...idle }));
  const summary = summariseMaintenance(bench);
  bench.results.summarise(summary);
  const plot = bench.write(
    ".svg",
    maintenanceChart(summary.lines, `${bench.modelName}: tokens missed when a session is resumed`),
  );
  return { text: `${maintenanceTable(summary)}\nThe same as a plot: ${plot}`, stopped };
}

if (import.meta.main) await runBench(benchMaintenance);
