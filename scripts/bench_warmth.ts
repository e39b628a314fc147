/**
 * Plays the pauses of recorded sessions at Anthropic's prices: what it comes to when nothing keeps their prefixes warm, when
 * pings do by fixed numbers, when prompts are written for an hour, and when the planner's clock decides; beside what pings by
 * foresight could save. Prompts are as long as their providers reported them; replies are paid.
 *
 *     deno task bench:warmth --data DIR [--split A|B] [--planner] [--end told] [--json]
 *
 * `--planner` has the planner prune the prompts, which are counted here then. Pings behind a session's end are made and paid;
 * with `--end told` nobody makes them, because the client says when a session is over. `--split` takes one half of the
 * recordings: figures in the clock were chosen on A. `--json` prints one object a line.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { parseArgs } from "node:util";
import { loadTokenizer } from "@tare/tiktoken";
import { halfOf } from "./bench/economy/half_of.ts";
import { loadData } from "./bench/economy/load_data.ts";
import type { Recording } from "@tare/simulator/economy";
import { formatTable } from "./bench/format_table.ts";
import { measureWarmth, type WarmthRow } from "./bench/warmth/measure_warmth.ts";

async function main(): Promise<void> {
  const { values } = parseArgs({
    args: Deno.args,
    options: {
      data: { type: "string" },
      split: { type: "string" },
      planner: { type: "boolean", default: false },
      end: { type: "string" },
      json: { type: "boolean", default: false },
    },
  });
  const { data, split, planner: prunes, end, json } = values;
  if (split !== undefined && split !== "A" && split !== "B") {
    throw new RangeError(`Cannot use --split ${split}: it must be A or B`);
  }
  if (end !== undefined && end !== "told") throw new RangeError(`Cannot use --end ${end}: it must be told`);
  if (data === undefined || !isFolder(data)) {
    console.log(
      `Skipped: there is nothing to play without recordings${
        data ? `, and no folder ${data}` : ": say --data DIR"
      }.`,
    );
    return;
  }
  const sources = loadData(data, { warn: (sentence) => console.error(sentence) })
    .map(({ name, recordings }) => ({
      name,
      recordings: recordings.filter((one) => hasPauses(one) && (!split || halfOf(one.group) === split)),
    }))
    .filter(({ recordings }) => recordings.length > 0);
  const { count: countTokens } = await loadTokenizer();
  const rows = await measureWarmth(sources, { countTokens, prunes, tellsEnd: end === "told" });
  if (json) { for (const row of rows) console.log(JSON.stringify(row)); }
  else console.log(formatTable([prunes ? [...HEAD, "vs resend"] : HEAD, ...rows.map(cells)]));
}

/** Whether the recording has what counts: usage that tells of a cache, and somebody who may pause. */
function hasPauses({ usage, times, calls, tools }: Recording): boolean {
  const cached = [...usage.values()].some(({ cache_read }) => cache_read !== undefined);
  return cached && calls.length > 0 && tools.length > 0 && times.some((time) => time !== undefined);
}

function isFolder(path: string): boolean {
  try {
    return Deno.statSync(path).isDirectory;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

const HEAD = ["data", "rule", "sessions", "cost", "worst", "lose over 2%", "pings each"];

function cells({ data, rule, sessions, cost, vsResend, worst, losing, pings }: WarmthRow): string[] {
  return [
    data,
    rule,
    String(sessions),
    cost.toFixed(3),
    worst.toFixed(3),
    `${(100 * losing).toFixed(0)}%`,
    pings.toFixed(1),
    ...(vsResend === undefined ? [] : [vsResend.toFixed(3)]),
  ];
}

if (import.meta.main) {
  try {
    await main();
  } catch (error) {
    console.error((error as Error).message);
    Deno.exitCode = 1;
  }
}
