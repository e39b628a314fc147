// deno-lint-ignore-file no-console
import { parseArgs } from "node:util";
import { loadTokenizer } from "@tare/tiktoken";
import { profileNamed } from "@tare/planner";
import { loadData } from "../../bench/economy/load_data.ts";
import { type EconomyRow, measureEconomy } from "../../bench/economy/measure_economy.ts";
import { policyNamed } from "../../bench/economy/policies/policies.ts";
import type { MakePolicy } from "@tare/simulator/economy";
import { generateWorkload } from "../../bench/economy/workload.ts";
import { formatTable } from "../../bench/format_table.ts";
import { ADAPTERS } from "./adapters.ts";
import { OWN_SETTINGS } from "./own_settings.ts";

/**
 * Plays sessions of about 60 calls and more under each adapter and under each setting of what its framework ships for
 * the same job, and prints the adapter beside two of these settings: the cheapest, and the cheapest of those that lose
 * no more texts of edits than the adapter does. Both are chosen with hindsight, where a repair is paid once.
 */
export async function benchAdapters(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      data: { type: "string" },
      profile: { type: "string", multiple: true, default: ["anthropic-5m", "openai", "deepseek", "none"] },
      calls: { type: "string", default: "55" },
      most: { type: "string", default: "130" },
      bare: { type: "boolean", default: false },
      all: { type: "boolean", default: false },
    },
  });
  const { count: countTokens } = await loadTokenizer();
  const sources = values.data
    ? loadData(values.data, { warn: console.error })
    : [{ name: "generated", recordings: generateWorkload() }];
  const recordings = sources.flatMap(({ recordings }) => recordings)
    .filter(({ calls }) => calls.length >= Number(values.calls) && calls.length <= Number(values.most));
  for (const profile of values.profile.map(profileNamed)) {
    const table: string[][] = [];
    for (const [framework, make] of Object.entries(ADAPTERS)) {
      const own = OWN_SETTINGS[framework] ?? {};
      const rows = await measureEconomy([{ name: framework, recordings }], {
        profile,
        countTokens,
        bare: values.bare,
        policies: ["tare", ...Object.keys(own), "resend"],
        named: (name) => settingNamed(name, { make, own }),
      });
      // Sessions that fit the window and those that don't have rows of their own before that of all.
      const all = rows.slice(-Object.keys(own).length - 2);
      const [ours, ...theirs] = all;
      if (!ours) continue;
      const by = (a: EconomyRow, b: EconomyRow) => a.cost1 - b.cost1;
      const [cheapest] = theirs.toSorted(by);
      const [careful] = theirs.filter(({ editsLostText }) => editsLostText <= ours.editsLostText).toSorted(
        by,
      );
      table.push(cells(`@tare/adapters/${framework}`, ours, ours));
      if (cheapest) table.push(cells("  cheapest of its own", cheapest, ours));
      if (careful) table.push(cells("  and loses no more", careful, ours));
      if (values.all) { for (const row of all) console.log(JSON.stringify(row)); }
    }
    console.log(`\n${profile.name}\n${formatTable([HEAD, ...table])}`);
  }
  console.log(`\n${recordings.length} sessions of ${values.calls} to ${values.most} calls.`);
}

function settingNamed(
  name: string,
  { make, own }: { readonly make: MakePolicy; readonly own: Readonly<Record<string, MakePolicy>> },
): ReturnType<typeof policyNamed> {
  if (name === "tare") return { make, recall: true };
  const setting = own[name];
  return setting ? { make: setting, recall: false } : policyNamed(name);
}

const HEAD = [
  "framework",
  "setting",
  "κ=0",
  "κ=1",
  "κ=3",
  "repairs/100",
  "lost edits",
  "adapter κ=1",
  "adapter κ=3",
];

function cells(name: string, row: EconomyRow, ours: EconomyRow): string[] {
  const percent = (share: number) => `${share > 0 ? "+" : ""}${(100 * share).toFixed(1)}%`;
  return [
    name,
    row === ours ? "" : row.policy === "resend" ? "nothing" : row.policy,
    row.cost0.toFixed(3),
    row.cost1.toFixed(3),
    row.cost3.toFixed(3),
    row.repairsPer100.toFixed(1),
    `${(100 * row.editsLostText).toFixed(1)}%`,
    ...(row === ours ? ["", ""] : [percent(ours.cost1 / row.cost1 - 1), percent(ours.cost3 / row.cost3 - 1)]),
  ];
}
