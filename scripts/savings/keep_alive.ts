// deno-lint-ignore-file no-console
import { parseArgs } from "node:util";
import { loadTokenizer } from "@tare/tiktoken";
import { halfOf, readHalf } from "./half_of.ts";
import { loadData } from "./load_data.ts";
import { reportsCacheReads } from "./real_bill.ts";
import type { Recording } from "@tare/simulator/economy";
import { formatTable } from "../format_table.ts";
import { type KeepAliveRow, measureKeepAlive } from "./keep_alive/measure_keep_alive.ts";

export async function benchKeepAlive(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      data: { type: "string" },
      split: { type: "string" },
      planner: { type: "boolean", default: false },
      end: { type: "string" },
    },
  });
  const { data, planner: prunes, end } = values;
  const half = readHalf(values.split);
  if (end !== undefined && end !== "reported") {
    throw new RangeError(`Cannot use --end ${end}: use reported.`);
  }
  if (data === undefined) {
    throw new RangeError("Cannot replay pauses: --data is missing. Set it to a folder of recordings.");
  }
  const sources = loadData(data, { warn: (sentence) => console.error(sentence) })
    .map(({ name, recordings }) => ({
      name,
      recordings: recordings.filter((one) => hasPauses(one) && (!half || halfOf(one.group) === half)),
    }))
    .filter(({ recordings }) => recordings.length > 0);
  const { count: countTokens } = await loadTokenizer();
  const rows = await measureKeepAlive(sources, { countTokens, prunes, reportsEnd: end === "reported" });
  console.log(formatTable([prunes ? [...HEAD, "vs resend"] : HEAD, ...rows.map(cells)]));
}

function hasPauses(recording: Recording): boolean {
  const { times, calls, tools } = recording;
  return reportsCacheReads(recording) && calls.length > 0 && tools.length > 0 &&
    times.some((time) => time !== undefined);
}

const HEAD = ["data", "rule", "sessions", "cost", "worst", "lose over 2%", "requests"];

function cells(
  { data, rule, sessions, cost, vsResend, worst, losing, keepAliveRequests }: KeepAliveRow,
): string[] {
  return [
    data,
    rule,
    String(sessions),
    cost.toFixed(3),
    worst.toFixed(3),
    `${(100 * losing).toFixed(0)}%`,
    keepAliveRequests.toFixed(1),
    ...(vsResend === undefined ? [] : [vsResend.toFixed(3)]),
  ];
}
