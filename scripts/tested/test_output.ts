export interface Result {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: ReadonlyMap<string, number>;
}

export const NONE: Result = { passed: 0, failed: 0, skipped: new Map() };

export function add(one: Result, other: Result): Result {
  const skipped = new Map(one.skipped);
  for (const [need, count] of other.skipped) skipped.set(need, count + (skipped.get(need) ?? 0));
  return { passed: one.passed + other.passed, failed: one.failed + other.failed, skipped };
}

/**
 * Parses the output of `deno test`: the counts of its last line, and requirements in the names of ignored tests. A command
 * that failed without a failed test, by a type error or early exit, counts as one failure.
 */
export function readTestOutput(output: string, { success }: { readonly success: boolean }): Result {
  // deno-lint-ignore no-control-regex -- Colors.
  const text = output.replaceAll(/\x1b\[[\d;]*m/g, "");
  const counts = [...text.matchAll(/^(?:ok|FAILED) \| (\d+) passed.*? \| (\d+) failed/gm)].at(-1);
  const skipped = new Map<string, number>();
  for (const [, name = ""] of text.matchAll(/^(.*) \.\.\. ignored \(.*\)$/gm)) {
    const need = /\(needs ([^()]+)\)$/.exec(name)?.[1] ?? "something that its name doesn't state";
    skipped.set(need, 1 + (skipped.get(need) ?? 0));
  }
  const failed = Number(counts?.[2] ?? 0);
  return { passed: Number(counts?.[1] ?? 0), failed: success ? failed : Math.max(failed, 1), skipped };
}

export interface Row {
  readonly suite: string;
  readonly result: Result;
  readonly seconds: number;
  readonly reason?: string;
}

export function resultTable(rows: readonly Row[], how: (need: string) => string | undefined): string {
  const total = rows.map(({ result }) => result).reduce(add, NONE);
  const all = [...rows, {
    suite: "total",
    result: total,
    seconds: rows.reduce((sum, row) => sum + row.seconds, 0),
  }];
  const lines = [
    ["suite", "passed", "failed", "skipped", "seconds"],
    ...all.map(({ suite, result, seconds, reason }: Row) =>
      [suite, ...[result.passed, result.failed, skippedOf(result), Math.round(seconds)].map(String)]
        .concat(reason ?? [])
    ),
  ];
  const table = lines.map(([suite = "", ...counts]) => {
    const numbers = counts.slice(0, 4).map((count) => count.padStart(9)).join("");
    return [suite.padEnd(12) + numbers, ...counts.slice(4)].join("  ");
  });
  const reasons = [...total.skipped].sort(([, one], [, other]) => other - one).map(([need, count]) => {
    const text = how(need);
    return `${count} skipped: needs ${need}${text === undefined ? "" : ` (${text})`}`;
  });
  return [...table, ...reasons].join("\n");
}

function skippedOf({ skipped }: Result): number {
  return [...skipped.values()].reduce((sum, count) => sum + count, 0);
}
