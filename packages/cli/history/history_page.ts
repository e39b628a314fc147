import { inDollars } from "../dollars.ts";
import { historyReport, PART_NAMES, rowsBy, type Section, type TotalsRow } from "./history_report.ts";
import type { LoggedHistory } from "./read_logs.ts";
import type { PlayedHistory } from "./replay_history.ts";
import { PAID_FOR, type PaidFor } from "./spent.ts";

const COLORS: Readonly<Record<PaidFor, string>> = {
  cacheRead: "#94a3b8",
  new: "#2563eb",
  expired: "#c2410c",
  broken: "#f59e0b",
  output: "#0f766e",
  serverSide: "#7c3aed",
};

const STYLE = `:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.4rem}p{white-space:pre-line}
.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.2rem .6rem;text-align:right;border-bottom:1px solid #8884;white-space:nowrap}
th:first-child,td:first-child{text-align:left;white-space:normal;overflow-wrap:anywhere;min-width:12rem}
svg{max-width:100%;height:auto;display:block;margin:1rem 0}figure{margin:0}
figcaption span{margin-right:1rem;white-space:nowrap}figcaption i{display:inline-block;width:.8em;height:.8em;margin-right:.3em}`;

export function historyPage(history: LoggedHistory, played: PlayedHistory): string {
  return `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="content-security-policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Agents' spending</title><style>${STYLE}</style>
<h1>Agents' spending</h1>
${days(rowsBy(history, "day"))}
${historyReport(history, played).map(sectionHtml).join("\n")}
</html>
`;
}

function sectionHtml(section: Section): string {
  if (typeof section === "string") return `<p>${escaped(section)}</p>`;
  const { heads, rows, title } = section;
  const row = (name: "th" | "td", cells: readonly string[]) =>
    `<tr>${cells.map((cell) => `<${name}>${escaped(cell)}</${name}>`).join("")}</tr>`;
  return `${title === undefined ? "" : `<p>${escaped(title)}</p>`}<div class="wide"><table>${
    row("th", heads)
  }${rows.map((cells) => row("td", cells)).join("\n")}</table></div>`;
}

const DAYS_WIDTH = 720;
const DAYS_HEIGHT = 200;
const DAY_MS = 86_400_000;

function days(rows: readonly TotalsRow[]): string {
  const most = Math.max(...rows.map(({ totals }) => totals.usd));
  if (!(most > 0)) return "";
  const dayOf = ({ key }: TotalsRow) => Date.parse(key) / DAY_MS;
  const first = dayOf(rows[0]!);
  const step = DAYS_WIDTH / (1 + dayOf(rows.at(-1)!) - first);
  const bars = rows.map((row) => {
    const { key, totals } = row;
    const x = ((dayOf(row) - first) * step).toFixed(1);
    const width = Math.max(0.5, 0.85 * step).toFixed(1);
    let top = DAYS_HEIGHT;
    const parts = PAID_FOR.map((part) => {
      const height = DAYS_HEIGHT * totals.usdFor[part] / most;
      top -= height;
      return `<rect x="${x}" y="${top.toFixed(1)}" width="${width}" height="${height.toFixed(1)}" fill="${
        COLORS[part]
      }"/>`;
    });
    return `<g><title>${key}: $${inDollars(totals.usd)}</title>${parts.join("")}</g>`;
  });
  const legend = PAID_FOR.map((part) =>
    `<span><i style="background:${COLORS[part]}"></i>${PART_NAMES[part]}</span>`
  );
  return `<figure><svg viewBox="0 0 ${DAYS_WIDTH} ${DAYS_HEIGHT}" role="img" aria-label="Dollars per day">${
    bars.join("\n")
  }</svg><figcaption>${rows[0]?.key} to ${rows.at(-1)?.key}, at most $${inDollars(most)} per day. ${
    legend.join("")
  }</figcaption></figure>`;
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}
