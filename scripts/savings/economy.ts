// deno-lint-ignore-file no-console
import { parseArgs } from "node:util";
import { profileNamed } from "@tare/planner";
import type { VisibleNames } from "@tare/simulator/economy";
import { loadTokenizer } from "@tare/tiktoken";
import { ProgressBar } from "../../packages/cli/terminal/progress_bar.ts";
import { halfOf, readHalf } from "./half_of.ts";
import { type Data, loadData } from "./load_data.ts";
import { type EconomyRow, measureEconomy } from "./measure_economy.ts";
import type { policyNamed } from "./policies/policies.ts";
import { generateWorkload } from "../../tests/workload.ts";
import { formatTable } from "../format_table.ts";

const DEFAULT_PROFILES = ["anthropic-5m", "openai", "deepseek", "none"];

export interface Choice {
  readonly names: readonly string[];
  readonly named: typeof policyNamed;
}

export async function benchPolicies(args: readonly string[], { names, named }: Choice): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      data: { type: "string" },
      profile: { type: "string", multiple: true, default: DEFAULT_PROFILES },
      policy: { type: "string", multiple: true, default: [...names] },
      split: { type: "string" },
      window: { type: "string" },
      limit: { type: "string", default: "Infinity" },
      bare: { type: "boolean", default: false },
      names: { type: "string", default: "parts" },
      json: { type: "boolean", default: false },
    },
  });
  const profiles = values.profile.map(profileNamed);
  for (const policy of values.policy) named(policy);
  const limit = positive("--limit", values.limit);
  const window = values.window === undefined ? {} : { windowTokens: positive("--window", values.window) };
  const namesVisible = readNamesVisible(values.names);
  const data = readData(values.data, { limit, split: values.split });

  const { count: countTokens } = await loadTokenizer();
  const sessions = data.reduce((sum, { recordings }) => sum + recordings.length, 0);
  const bar = new ProgressBar(sessions * profiles.length);
  for (const profile of profiles) {
    const rows = await measureEconomy(data, {
      profile,
      policies: values.policy,
      named,
      countTokens,
      bare: values.bare,
      namesVisible,
      onSession: () => bar.step(),
      ...window,
    });
    bar.clear();
    if (values.json) { for (const row of rows) console.log(JSON.stringify(row)); }
    else {console.log(`\n${profile.name}\n${
        formatTable([
          COLUMNS.map(([head]) => head),
          ...rows.map((row) =>
            COLUMNS.map(([, cell]) => cell(row))
          ),
        ])
      }`);}
  }
  const skipped = data.reduce((sum, source) => sum + source.skipped, 0);
  if (!values.json) console.log(`\n${sessions} sessions replayed, ${skipped} lines skipped.`);
}

function positive(option: string, value: string): number {
  const number = Number(value);
  if (number > 0) return number;
  throw new RangeError(`Cannot use ${option} ${value}: use a number above 0.`);
}

function readNamesVisible(value: string): VisibleNames {
  if (value === "parts" || value === "whole") return value;
  throw new RangeError(`Cannot use --names ${value}: use parts or whole.`);
}

function readData(
  folder: string | undefined,
  { limit, split }: { readonly limit: number; readonly split: string | undefined },
): Data[] {
  const half = readHalf(split);
  const warn = (sentence: string) => console.error(sentence);
  const data = folder
    ? loadData(folder, { limit, warn })
    : [{ name: "generated", recordings: generateWorkload().slice(0, limit), skipped: 0 }];
  return data
    .map((source) => ({
      ...source,
      recordings: source.recordings.filter(({ group }) => half === undefined || halfOf(group) === half),
    }))
    .filter(({ recordings }) => recordings.length > 0);
}

export const percent = (share: number) => `${(100 * share).toFixed(1)}%`;
const optional = (cost: number | undefined) => cost?.toFixed(3) ?? "–";

const COLUMNS: readonly (readonly [head: string, cell: (row: EconomyRow) => string])[] = [
  ["data", ({ data }) => data],
  ["policy", ({ policy }) => policy],
  ["sessions", ({ sessions }) => String(sessions)],
  ["calls", ({ calls }) => String(calls)],
  ["no refetch", ({ cost0 }) => cost0.toFixed(3)],
  ["refetch ×1", ({ cost1 }) => cost1.toFixed(3)],
  ["refetch ×3", ({ cost3 }) => cost3.toFixed(3)],
  ["refetches/100", ({ refetchesPer100 }) => refetchesPer100.toFixed(1)],
  ["lost edits", ({ editsLostText }) => percent(editsLostText)],
  ["no miss", ({ unaffected }) => percent(unaffected)],
  ["user text evicted", ({ userTokensGone }) => percent(userTokensGone)],
  ["worst session", ({ worst }) => worst.toFixed(3)],
  ["prompt tokens", ({ promptVsResend }) => promptVsResend.toFixed(3)],
  ["cache hits", ({ hitRate }) => percent(hitRate)],
  ["epochs", ({ epochs }) => String(epochs)],
  ["rejected", ({ refused }) => percent(refused)],
  ["of bill", ({ bill }) => optional(bill?.cost0)],
  ["of bill ×3", ({ bill }) => optional(bill?.cost3)],
];
