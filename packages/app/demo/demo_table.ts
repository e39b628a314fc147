import { dollars } from "../event_printer.ts";
import type { Played, Way } from "./play_demo.ts";

/** What the mechanisms take out of prompts, in the table's words. */
const MECHANISMS: Readonly<Record<string, string>> = {
  context: "old turns",
  prune: "old results",
  truncate: "huge results",
  schemas: "prose of tools",
};

/**
 * The table that the demonstration ends with: a column a way. What a session answered is compared with the first one that
 * came to its end.
 */
export function demoTable(
  played: readonly (Played & Pick<Way, "name">)[],
  { model }: { readonly model?: string | undefined },
): string {
  const reference = played.find(({ stopped }) => stopped === undefined)?.answers;
  const row = (label: string, cell: (played: Played) => string) => [label, ...played.map(cell)];
  const left = Object.entries(MECHANISMS).filter(([name]) =>
    played.some(({ ledger }) => (ledger.saved[name] ?? 0) > 0)
  );
  const rows = [
    ["", ...played.map(({ name }) => name)],
    row("model calls", ({ ledger }) => number(ledger.calls)),
    row("prompt tokens", ({ ledger }) => number(ledger.promptTokens)),
    row("  read from the cache", ({ ledger }) => number(ledger.cachedTokens)),
    ...left.map(([name, what]) =>
      row(`  left out: ${what}`, ({ ledger }) => number(ledger.saved[name] ?? 0))
    ),
    row("rewrites of the prompt", ({ rewrites }) => number(rewrites)),
    row("recalls", ({ recalls }) => number(recalls)),
    row(
      "prompts, in token units",
      ({ ledger: { tokenUnits } }) => tokenUnits === undefined ? "–" : number(tokenUnits),
    ),
    ...(model === undefined
      ? []
      : [row("money, prompts and replies", ({ ledger: { usd } }) => usd === undefined ? "–" : dollars(usd))]),
    row(
      "questions answered",
      ({ answers, stopped }) =>
        stopped === undefined ? number(answers.length) : `${answers.length}: window full`,
    ),
    row(
      "  in the same words",
      ({ answers }) => number(answers.filter((text, at) => text === reference?.[at]).length),
    ),
  ];
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => [...row[column]!].length)));
  return rows.map((row) =>
    row.map((cell, column) => column === 0 ? cell.padEnd(widths[0]!) : cell.padStart(widths[column]!)).join(
      "   ",
    )
  ).join("\n");
}

function number(value: number): string {
  return Math.round(value).toLocaleString("en");
}
