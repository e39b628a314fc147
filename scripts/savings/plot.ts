import { chart } from "../../packages/cli/history/history_page.ts";
import type { EconomyRow } from "./measure_economy.ts";

/**
 * The frontier as an SVG: one point a policy, edits with lost text to the right, cost at κ = 3 upwards. The nearer
 * to the lower left corner the better. Rows of several sources are drawn as they are: pass those of one.
 */
export function plot(rows: readonly EconomyRow[]): string {
  return chart({
    title: [...new Set(rows.map(({ data, profile }) => `${data}, ${profile}`))].join("; "),
    x: {
      label: "edits whose old text was shown nowhere",
      most: Math.max(0.01, ...rows.map(({ editsLostText }) => editsLostText)) * 1.15,
      format: (value) => `${Math.round(100 * value)}%`,
    },
    y: {
      label: "cost, κ = 3",
      most: Math.max(1, ...rows.map(({ cost3 }) => cost3)) * 1.05,
      format: (value) => value.toFixed(1),
    },
    points: rows.map(({ policy, editsLostText, cost3 }) => ({
      x: editsLostText,
      y: cost3,
      label: policy,
      ours: policy.startsWith("planner"),
    })),
  });
}
