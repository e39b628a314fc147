import { inDigits, inDollars } from "../in_digits.ts";
import type { LoggedHistory } from "./read_logs.ts";
import { type PlayedHistory, type ReplayedSession, sumSaved } from "./replay_history.ts";
import { PAID_FOR, type PaidFor } from "./spent.ts";
import {
  headline,
  loses,
  PART_NAMES,
  PART_WORDS,
  percent,
  REPLAY_WORDS,
  rowsBy,
  sessionName,
  signed,
  type SumsRow,
  toldOfFaults,
} from "./told.ts";

const COLOURS: Readonly<Record<PaidFor, string>> = {
  cacheRead: "#94a3b8",
  new: "#2563eb",
  expired: "#c2410c",
  broken: "#f59e0b",
  output: "#0f766e",
};

const STYLE = `:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}
.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.2rem .6rem;text-align:right;border-bottom:1px solid #8884;white-space:nowrap}
th:first-child,td:first-child{text-align:left;white-space:normal;overflow-wrap:anywhere;min-width:12rem}
.loses{color:#c2410c}svg{max-width:100%;height:auto;display:block;margin:1rem 0}
figcaption span{margin-right:1rem;white-space:nowrap}figcaption i{display:inline-block;width:.8em;height:.8em;margin-right:.3em}
figure{margin:0}p.small{font-size:.9em}
.plot rect{fill:none}.plot text{fill:currentColor}.plot path{stroke:#8886}.plot circle[fill="#334155"]{fill:#64748b}`;

/** A history as a page that needs nothing beside it. */
export function historyPage(history: LoggedHistory, played: PlayedHistory): string {
  return `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="content-security-policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>What agents have spent</title><style>${STYLE}</style>
<h1>What agents have spent</h1>
<p>${escaped(headline(history))} A subscription costs what it costs, whatever was sent.</p>
${days(rowsBy(history, "day"))}
<p class="small">${escaped(PART_WORDS)}</p>
${replayed(history, played)}
${(["agent", "model", "project", "day"] as const).map((by) => sumsTable(history, by)).join("\n")}
${toldOfFaults(history).map((fault) => `<p class="small">${escaped(fault)}</p>`).join("\n")}
</html>
`;
}

function cells(name: "th" | "td", values: readonly string[]): string {
  return values.map((value) => `<${name}>${escaped(value)}</${name}>`).join("");
}

function sumsTable(history: LoggedHistory, by: keyof LoggedHistory["by"]): string {
  const head = [
    by,
    "dollars",
    "calls",
    ...PAID_FOR.map((part) => PART_NAMES[part]),
    "prompt tokens",
    "no price",
  ];
  const rows = rowsBy(history, by).map(({ key, sums }) =>
    `<tr>${
      cells("td", [
        ...[key, inDollars(sums.usd), inDigits(sums.calls)],
        ...PAID_FOR.map((part) => inDollars(sums.usdFor[part])),
        ...[inDigits(sums.promptTokens), inDigits(sums.unpricedCalls)],
      ])
    }</tr>`
  );
  return `<h2>By ${by}</h2><div class="wide"><table><tr>${cells("th", head)}</tr>${
    rows.join("\n")
  }</table></div>`;
}

const DAYS_WIDTH = 720;
const DAYS_HEIGHT = 200;
const DAY_MS = 86_400_000;

/** What each day was paid for, as bars. */
function days(rows: readonly SumsRow[]): string {
  const most = Math.max(...rows.map(({ sums }) => sums.usd));
  if (!(most > 0)) return "";
  const dayOf = ({ key }: SumsRow) => Date.parse(key) / DAY_MS;
  const first = dayOf(rows[0]!);
  const step = DAYS_WIDTH / (1 + dayOf(rows.at(-1)!) - first);
  const bars = rows.map((row) => {
    const { key, sums } = row;
    const at = dayOf(row) - first;
    let top = DAYS_HEIGHT;
    const parts = PAID_FOR.map((part) => {
      const height = DAYS_HEIGHT * sums.usdFor[part] / most;
      top -= height;
      return `<rect x="${(at * step).toFixed(1)}" y="${top.toFixed(1)}" width="${
        Math.max(0.5, 0.85 * step).toFixed(1)
      }" height="${height.toFixed(1)}" fill="${COLOURS[part]}"/>`;
    });
    return `<g><title>${key}: $${inDollars(sums.usd)}</title>${parts.join("")}</g>`;
  });
  const legend = PAID_FOR.map((part) =>
    `<span><i style="background:${COLOURS[part]}"></i>${PART_NAMES[part]}</span>`
  );
  return `<figure><svg viewBox="0 0 ${DAYS_WIDTH} ${DAYS_HEIGHT}" role="img" aria-label="Dollars a day">${
    bars.join("\n")
  }</svg><figcaption>${rows[0]?.key} to ${rows.at(-1)?.key}, at most $${inDollars(most)} a day. ${
    legend.join("")
  }</figcaption></figure>`;
}

function replayed(history: LoggedHistory, { played, waiting }: PlayedHistory): string {
  if (played.length === 0) return "";
  const usd = played.reduce((sum, { session }) => sum + session.sums.usd, 0);
  const { pruned, warm, warmRefused, both } = sumSaved(played);
  const losing = played.filter(loses).length;
  const head = [
    "session",
    "dollars",
    "calls",
    "warmth",
    "hour refused",
    "pruning",
    "κ = 1",
    "κ = 3",
    "both",
    "repairs",
  ];
  return `<h2>What Tare would have made of it</h2>
<p>${inDigits(played.length)} sessions of $${inDollars(usd)}, of $${
    inDollars(history.all.usd)
  } in all, played again with their
own times and usage${
    waiting > 0 ? `; ${inDigits(waiting)} weren't` : ""
  }. Saved by warmth, which loses nothing:
<b>${signed(warm)}</b> (${signed(warmRefused)} where the provider refuses the hour). Saved by pruning: <b>${
    signed(pruned.k0)
  }</b>, ${signed(pruned.k1)} with repairs paid, ${signed(pruned.k3)} with each paid three times. By both
together: <b>${signed(both.k0)}</b>, ${signed(both.k1)} and ${signed(both.k3)}.
${inDigits(losing)} would have cost more.</p>
<figure class="plot">${plot(played)}</figure>
<div class="wide"><table><tr>${cells("th", [...head, "edits", "lost", "against"])}</tr>
${played.map(sessionRow).join("\n")}</table></div>
<p class="small">${escaped(REPLAY_WORDS)}</p>`;
}

function sessionRow(one: ReplayedSession): string {
  const { session, replay, shares: { pruned, warm, warmRefused, both }, saved } = one;
  const money = (share: number) =>
    saved ? `${signed(share * session.sums.usd)} (${percent(share)})` : percent(share);
  return `<tr${loses(one) ? ' class="loses"' : ""}>${
    cells("td", [
      ...[sessionName(session), inDollars(session.sums.usd), inDigits(session.sums.calls)],
      ...[warm, warmRefused, pruned.k0, pruned.k1, pruned.k3, both.k1].map(money),
      ...[inDigits(replay.repairs), inDigits(replay.edits), inDigits(replay.lostEdits), replay.without],
    ])
  }</tr>`;
}

/** What each session would have cost with repairs paid, as a share of what it cost. */
function plot(played: readonly ReplayedSession[]): string {
  const points = played.map(({ session, shares }) => ({
    x: session.sums.usd,
    y: 1 - shares.pruned.k1,
    label: "",
    ours: shares.pruned.k1 >= 0,
  }));
  return chart({
    title:
      "Cost under pruning, repairs paid, as a share of what each session cost; above 1 it would have cost more",
    x: {
      label: "what the session cost",
      most: Math.max(0.01, ...points.map(({ x }) => x)) * 1.05,
      format: (value) => `$${inDollars(value)}`,
    },
    y: {
      label: "cost",
      most: Math.max(1, ...points.map(({ y }) => y)) * 1.05,
      format: (value) => value.toFixed(1),
    },
    points,
  });
}

const WIDTH = 720;
const HEIGHT = 440;
const LEFT = 60;
const BOTTOM = 50;
const MARGIN = 24;

/** One direction of a {@linkcode chart}, from 0 to `most`. */
interface Axis {
  readonly label: string;
  readonly most: number;
  /** Where values are written. Default: about five round ones. */
  readonly ticks?: readonly number[];
  readonly format: (value: number) => string;
}

/** A point of a {@linkcode chart}. */
interface Point {
  readonly x: number;
  readonly y: number;
  /** Written beside it. */
  readonly label: string;
  /** Whether it is in the colour of what the chart is about. Default: no. */
  readonly ours?: boolean;
}

/** Points between two axes, as an SVG. */
export function chart(
  { title, x: across, y: up, points }: {
    readonly title: string;
    readonly x: Axis;
    readonly y: Axis;
    readonly points: readonly Point[];
  },
): string {
  const x = (value: number) => LEFT + (WIDTH - LEFT - 5 * MARGIN) * value / across.most;
  const y = (value: number) => HEIGHT - BOTTOM - (HEIGHT - BOTTOM - MARGIN) * value / up.most;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="12">`,
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="white"/>`,
    text(LEFT, 16, title),
    ...ticksOf(across).map((value) => text(x(value), HEIGHT - BOTTOM + 16, across.format(value), "middle")),
    ...ticksOf(up).flatMap((value) => [
      `<path d="M${LEFT} ${round(y(value))}H${WIDTH - MARGIN}" stroke="#ddd"/>`,
      text(LEFT - 6, y(value) + 4, up.format(value), "end"),
    ]),
    text((WIDTH + LEFT) / 2, HEIGHT - 12, across.label, "middle"),
    text(LEFT - 44, MARGIN + 8, up.label),
    ...points.flatMap((point) => [
      `<circle cx="${round(x(point.x))}" cy="${round(y(point.y))}" r="4" fill="${
        point.ours ? "#c2410c" : "#334155"
      }"/>`,
      text(x(point.x) + 7, y(point.y) + 4, point.label),
    ]),
    "</svg>",
    "",
  ].join("\n");
}

/** Round values from 0 up, about five of them. */
function ticksOf({ most, ticks }: Axis): readonly number[] {
  if (ticks) return ticks;
  const power = 10 ** Math.floor(Math.log10(most / 6));
  const step = [1, 2, 5].map((digit) => digit * power).find((step) => most / step <= 6) ?? 10 * power;
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, at) => at * step);
}

function text(x: number, y: number, content: string, anchor = "start"): string {
  return `<text x="${round(x)}" y="${round(y)}" text-anchor="${anchor}">${escaped(content)}</text>`;
}

function round(value: number): number {
  return Math.round(10 * value) / 10;
}

/** A text as it stands in SVG and HTML. */
function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
}
