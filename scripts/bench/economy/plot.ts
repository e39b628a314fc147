import type { EconomyRow } from "./measure_economy.ts";

const WIDTH = 720;
const HEIGHT = 440;
const LEFT = 60;
const BOTTOM = 50;
const MARGIN = 24;

/**
 * The frontier as an SVG: one point a policy, edits with lost text to the right, cost at κ = 3 upwards. The nearer
 * to the lower left corner the better. Rows of several sources are drawn as they are: pass those of one.
 */
export function plot(rows: readonly EconomyRow[]): string {
  const lost = Math.max(0.01, ...rows.map(({ editsLostText }) => editsLostText)) * 1.15;
  const cost = Math.max(1, ...rows.map(({ cost3 }) => cost3)) * 1.05;
  const x = (value: number) => LEFT + (WIDTH - LEFT - 5 * MARGIN) * value / lost;
  const y = (value: number) => HEIGHT - BOTTOM - (HEIGHT - BOTTOM - MARGIN) * value / cost;
  const title = [...new Set(rows.map(({ data, profile }) => `${data}, ${profile}`))].join("; ");
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="12">`,
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="white"/>`,
    text(LEFT, 16, title),
    ...ticks(lost).map((value) =>
      text(x(value), HEIGHT - BOTTOM + 16, `${Math.round(100 * value)}%`, "middle")
    ),
    ...ticks(cost).flatMap((value) => [
      `<path d="M${LEFT} ${round(y(value))}H${WIDTH - MARGIN}" stroke="#ddd"/>`,
      text(LEFT - 6, y(value) + 4, value.toFixed(1), "end"),
    ]),
    text((WIDTH + LEFT) / 2, HEIGHT - 12, "edits whose old text was shown nowhere", "middle"),
    text(LEFT - 44, MARGIN + 8, "cost, κ = 3"),
    ...rows.flatMap(({ policy, editsLostText, cost3 }) => [
      `<circle cx="${round(x(editsLostText))}" cy="${round(y(cost3))}" r="4" fill="${colour(policy)}"/>`,
      text(x(editsLostText) + 7, y(cost3) + 4, policy),
    ]),
    "</svg>",
    "",
  ].join("\n");
}

function colour(policy: string): string {
  return policy.startsWith("planner") ? "#c2410c" : "#334155";
}

/** Round values from 0 up, about five of them. */
function ticks(most: number): number[] {
  const step = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1].find((step) => most / step <= 6) ?? 2;
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, at) => at * step);
}

function text(x: number, y: number, content: string, anchor = "start"): string {
  const escaped = content.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  return `<text x="${round(x)}" y="${round(y)}" text-anchor="${anchor}">${escaped}</text>`;
}

function round(value: number): number {
  return Math.round(10 * value) / 10;
}
