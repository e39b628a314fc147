import type { EconomyRow } from "./measure_economy.ts";

const WIDTH = 720;
const HEIGHT = 440;
const LEFT = 60;
const BOTTOM = 50;
const MARGIN = 24;

/**
 * Returns an SVG with one point per policy: edits with lost text on the x axis, cost with refetches ×3 on the y axis. Pass
 * the rows of one source.
 */
export function plot(rows: readonly EconomyRow[]): string {
  const mostLost = Math.max(0.01, ...rows.map(({ editsLostText }) => editsLostText)) * 1.15;
  const mostCost = Math.max(1, ...rows.map(({ cost3 }) => cost3)) * 1.05;
  const x = (lost: number) => LEFT + (WIDTH - LEFT - 5 * MARGIN) * lost / mostLost;
  const y = (cost: number) => HEIGHT - BOTTOM - (HEIGHT - BOTTOM - MARGIN) * cost / mostCost;
  const drawn = [
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="white" />`,
    text(LEFT, 16, [...new Set(rows.map(({ data, profile }) => `${data}, ${profile}`))].join("; ")),
    ...ticksTo(mostLost).map((lost) =>
      text(x(lost), HEIGHT - BOTTOM + 16, `${Math.round(100 * lost)}%`, "middle")
    ),
    ...ticksTo(mostCost).flatMap((cost) => [
      `<path d="M${LEFT} ${round(y(cost))}H${WIDTH - MARGIN}" stroke="#ddd" />`,
      text(LEFT - 6, y(cost) + 4, cost.toFixed(1), "end"),
    ]),
    text((WIDTH + LEFT) / 2, HEIGHT - 12, "edits whose old text was not visible", "middle"),
    text(LEFT - 44, MARGIN + 8, "cost, refetches ×3"),
    ...rows.flatMap(({ policy, editsLostText, cost3 }) => [
      `<circle cx="${round(x(editsLostText))}" cy="${round(y(cost3))}" r="4" fill="${
        policy.startsWith("planner") ? "#c2410c" : "#334155"
      }" />`,
      text(x(editsLostText) + 7, y(cost3) + 4, policy),
    ]),
  ];
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="12">`,
    ...drawn.map((element) => `  ${element}`),
    "</svg>",
    "",
  ].join("\n");
}

function ticksTo(most: number): readonly number[] {
  const power = 10 ** Math.floor(Math.log10(most / 6));
  const step = [1, 2, 5].map((digit) => digit * power).find((step) => most / step <= 6) ?? 10 * power;
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, at) => at * step);
}

function text(x: number, y: number, content: string, anchor = "start"): string {
  return `<text x="${round(x)}" y="${round(y)}" text-anchor="${anchor}">${
    content.replaceAll("&", "&amp;").replaceAll("<", "&lt;")
  }</text>`;
}

function round(value: number): number {
  return Math.round(10 * value) / 10;
}
