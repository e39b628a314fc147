/**
 * What programs in place of chains of calls come to: `deno task bench:programs`.
 *
 * First of recorded sessions, an estimate: which of their calls stand in chains that only read, and what a program in
 * place of each would leave of calls and prompts, between two bounds, by what it prints. Then of made tasks, measured
 * through the server: the same task call by call, all calls at once, and by a program.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { parseArgs } from "node:util";
import { loadTokenizer } from "@tare/tiktoken";
import { loadData } from "./bench/economy/load_data.ts";
import { formatTable } from "./bench/format_table.ts";
import { type Chains, chainsOf } from "./bench/programs/chains.ts";
import { measureTask, tasks, WAYS } from "./bench/programs/scripted_tasks.ts";

const PROFILES = ["openai", "anthropic-5m"];

function percent(part: number, of: number): string {
  return `${(100 * part / of).toFixed(1)} %`;
}

async function printChains(folder: string): Promise<void> {
  try {
    Deno.statSync(folder);
  } catch {
    return console.log(`No estimate: there are no recordings in ${folder} (--data FOLDER names others).\n`);
  }
  const { count } = await loadTokenizer();
  const rows = [[
    "recordings",
    "calls",
    "in chains",
    "calls saved",
    "tokens saved: all printed",
    "last printed",
  ]];
  for (const { name, recordings } of loadData(folder, { warn: () => {} })) {
    const chains = recordings.map((recording) => chainsOf(recording, count));
    const sum = (of: keyof Chains) => chains.reduce((all, one) => all + one[of], 0);
    const tokens = sum("promptTokens");
    rows.push([
      ...[name, sum("calls").toLocaleString("en"), percent(sum("inChains"), sum("calls"))],
      percent(sum("savedCalls"), sum("calls")),
      ...[sum("allPrinted"), sum("lastPrinted")].map((left) => percent(tokens - left, tokens)),
    ]);
  }
  console.log("An estimate, and at most: had a program stood for each chain of reads.\n");
  console.log(`${formatTable(rows)}\n`);
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { data: { type: "string", default: "../shared/trajectories" } } });
  await printChains(values.data);
  const rows = [[
    "task",
    "profile",
    "way",
    "calls",
    "prompt tokens",
    "output tokens",
    "token units",
    "kept outside",
  ]];
  for (const profile of PROFILES) {
    for (const task of tasks()) {
      for (const way of WAYS) {
        const measured = await measureTask(task, way, profile);
        const { calls, promptTokens, outputTokens, tokenUnits, keptTokens } = measured;
        const figures = [calls, promptTokens, outputTokens, Math.round(tokenUnits), keptTokens];
        rows.push([task.name, profile, way, ...figures.map((figure) => figure.toLocaleString("en"))]);
      }
    }
  }
  console.log("Measured, through the server, at a simulated provider:\n");
  console.log(formatTable(rows));
}
