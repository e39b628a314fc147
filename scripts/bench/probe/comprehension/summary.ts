import type { TurnLedger } from "@tare/loop";
import { chart } from "../../../../packages/app/history/history_page.ts";
import { formatTable } from "../../format_table.ts";
import type { Bench } from "../bench.ts";
import { money, usd } from "../paid_model.ts";
import type { CaseResult } from "./ask_case.ts";

/** The policy by which everything is shown in full. */
const IN_FULL = "none";

/** What one policy came to. */
export interface PolicyLine
  extends Pick<TurnLedger, "calls" | "promptTokens" | "cachedTokens" | "outputTokens"> {
  readonly policy: string;
  /** Questions that were asked. */
  readonly asked: number;
  /** Of these, answered rightly. */
  readonly passed: number;
  /** Of the right ones, by what the prompt showed; by recalling; by reading or searching again. */
  readonly by: Readonly<Record<CaseResult["by"], number>>;
  /** Edits that failed. */
  readonly failedEdits: number;
  readonly usd: number;
  /** Questions that were answered wrongly. */
  readonly failed: readonly string[];
  /** Of these, those that were answered rightly where everything is shown in full; absent where nobody asked that. */
  readonly lost?: readonly string[];
}

/** Sums up what was asked under each policy: keys of results are `policy: question`, a repeat behind it. */
export function summariseCases(
  { results, prices, profile }: Bench<CaseResult>,
  keys: Readonly<Record<string, readonly string[]>>,
): readonly PolicyLine[] {
  const inFull = keys[IN_FULL];
  const isRightInFull = (name: string) => results.get(`${IN_FULL}: ${name}`)?.passed === true;
  return Object.entries(keys).map(([policy, its]) => {
    const answered = its.flatMap((key) => {
      const result = results.get(key);
      return result ? [{ key, ...result }] : [];
    });
    const right = answered.filter(({ passed }) => passed);
    const sum = (figure: keyof CaseResult["usage"]) =>
      answered.reduce((total, { usage }) => total + usage[figure], 0);
    const by = (way: CaseResult["by"]) => right.filter((result) => result.by === way).length;
    const usage = {
      calls: sum("calls"),
      promptTokens: sum("promptTokens"),
      cachedTokens: sum("cachedTokens"),
      outputTokens: sum("outputTokens"),
    };
    const failed = answered.filter(({ passed }) => !passed).map(({ key }) => key.slice(policy.length + 2));
    return {
      policy,
      asked: answered.length,
      passed: right.length,
      by: { shown: by("shown"), recall: by("recall"), read: by("read") },
      ...usage,
      usd: usd(prices, profile, usage),
      failedEdits: answered.reduce((sum, result) => sum + result.failedEdits, 0),
      failed,
      ...(inFull && policy !== IN_FULL && { lost: failed.filter(isRightInFull) }),
    };
  });
}

/** The lines as a table, and what was answered wrongly. */
export function policyTable(lines: readonly PolicyLine[]): string {
  const table = formatTable([
    [
      "policy",
      "passed",
      "shown",
      "recall",
      "read",
      "failed edits",
      "calls",
      "prompt",
      "cached",
      "output",
      "cost",
    ],
    ...lines.map((line) => [
      line.policy,
      `${line.passed} of ${line.asked}`,
      ...[line.by.shown, line.by.recall, line.by.read, line.failedEdits, line.calls].map(String),
      ...[line.promptTokens, line.cachedTokens, line.outputTokens].map((tokens) =>
        tokens.toLocaleString("en")
      ),
      money(line.usd),
    ]),
  ]);
  const failed = lines.filter((line) => line.failed.length > 0).map((line) =>
    `${line.policy} failed: ${countedNames(line.failed).join("; ")}.`
  );
  const lost = lines.flatMap(({ policy, lost }) =>
    lost ? [`${policy} failed where it passed in full: ${countedNames(lost).join("; ") || "nothing"}.`] : []
  );
  return [table, ...(failed.length + lost.length > 0 ? ["", ...failed, ...lost] : [])].join("\n");
}

/** Each name once, with how often it failed in its repeats. */
function countedNames(failed: readonly string[]): string[] {
  const counts = new Map<string, number>();
  for (const key of failed) {
    const name = key.replace(/ \(\d+\)$/, "");
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return Array.from(counts, ([name, count]) => count > 1 ? `${name} (${count} times)` : name);
}

/** One point a policy as an SVG: what it cost to the right, the share of questions that it passed upwards. */
export function policyChart(lines: readonly PolicyLine[], title: string): string {
  return chart({
    title,
    x: {
      label: "cost, USD",
      most: Math.max(1e-6, ...lines.map((line) => line.usd)) * 1.15,
      format: (value) => String(Number(value.toPrecision(2))),
    },
    y: {
      label: "questions passed",
      most: 1.15,
      ticks: [0, 0.25, 0.5, 0.75, 1],
      format: (value) => `${Math.round(100 * value)}%`,
    },
    points: lines.map(({ policy, passed, asked, usd }) => ({
      x: usd,
      y: passed / Math.max(1, asked),
      label: policy,
      ours: policy === "planner",
    })),
  });
}
