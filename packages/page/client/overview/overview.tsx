import type { Overview as Report, UsageTotals } from "@tare/session/internal/report";
import type { MissesReport, SpendReport } from "../../../server/client.ts";
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { api } from "../api/api.ts";
import type { Subject } from "../api/reports.ts";
import { type Bar, BarChart } from "../parts/bar_chart.tsx";
import { Choice } from "../parts/choice.tsx";
import { MenuButton } from "../parts/icon.tsx";
import { counted, formatCount } from "@tare/server/internal/format";
import { dollars, share } from "../parts/format.ts";
import { useLoaded } from "../parts/loaded.ts";
import { NumbersTable } from "../parts/numbers_table.tsx";
import { isPriced, money, PARTS, saved, SpentTable, Units, unpriced } from "../parts/spent.tsx";
import { costsOf, overflowOf, programsOf, promptTokensOf, type Sum, SumList } from "../parts/totals.tsx";
import { Trouble } from "../parts/trouble.tsx";
import { addressOf } from "../place.ts";

export function OverviewView(): JSX.Element {
  const { value, trouble } = useLoaded(async () => ({
    session: await api.json("GET /overview", { query: { kind: "agent" } }),
    gateway: await api.json("GET /overview", { query: { kind: "gateway" } }),
  }));
  return (
    <section class="report">
      <header class="view-head">
        <MenuButton />
        <h1>Overview</h1>
      </header>
      <Spend />
      <Trouble text={trouble} />
      {value && (
        <>
          <Saved what="The agent" report={value.session} />
          {value.gateway.all.calls > 0 && <Saved what="The gateway" report={value.gateway} />}
          <Groups {...value} />
          <Warnings {...value} />
        </>
      )}
    </section>
  );
}

type Reports = Readonly<Record<Subject["kind"], Report>>;

function Saved({ what, report: { today, all } }: { readonly what: string; readonly report: Report }) {
  return (
    <>
      <h2>{what}: today</h2>
      <SumList totals={savedBy(today)} />
      <h2>{what}: total</h2>
      <SumList totals={savedBy(all)} />
    </>
  );
}

function savedBy(totals: UsageTotals): Sum[] {
  const { calls, outputTokens, savedTokens } = totals;
  return [
    ...costsOf(totals),
    ...overflowOf(totals),
    { name: "Removed from prompts", value: formatCount(savedTokens), note: "tokens" },
    ...programsOf(totals),
    promptTokensOf(totals),
    { name: "Output tokens", value: formatCount(outputTokens), note: counted(calls, "call") },
  ];
}

function Groups({ session, gateway }: Reports) {
  const rows = [
    ["Agent, optimized", session.groups.planned],
    ["Gateway, optimized", gateway.groups.planned],
    ["Gateway, holdout (unchanged)", gateway.groups.holdout],
  ] as const;
  const otherwise = (totals: typeof rows[number][1]) =>
    totals === gateway.groups.holdout ? totals.projectedCostUnits : totals.baselineCostUnits;
  const each = (sum: number, sessions: number) => sessions === 0 ? "–" : formatCount(sum / sessions);
  return (
    <>
      <h2>Optimized sessions and holdout</h2>
      <p class="note">
        Holdout: sessions of other agents that are forwarded unchanged, for comparison (TARE_HOLDOUT), or as a
        dry run (TARE_HOLDOUT=1). Costs are cost units, on average per session. Alternative: the baseline of
        an optimized session, and the projected cost of a holdout session with Tare, expected refetch costs
        included.
      </p>
      <NumbersTable
        label="Optimized sessions and holdout"
        rows={rows}
        columns={[
          ["Group", ([name]) => name],
          ["Sessions", ([, totals]) => formatCount(totals.sessions)],
          ["Calls", ([, totals]) => formatCount(totals.calls)],
          ["Prompt tokens", ([, totals]) => formatCount(totals.promptTokens)],
          ["From cache", ([, totals]) => share(totals.cachedTokens, totals.promptTokens)],
          ["Cost units", ([, totals]) => formatCount(totals.costUnits)],
          ["Per session", ([, totals]) => each(totals.costUnits, totals.sessions)],
          ["Alternative", ([, totals]) => each(otherwise(totals), totals.sessions)],
          ["Cost", ([, totals]) => totals.calls === 0 ? "–" : money(totals)],
          ["Unpriced calls", ([, totals]) => unpriced(totals)],
        ]}
      />
    </>
  );
}

function Warnings({ session, gateway }: Reports) {
  const warnings = (["session", "gateway"] as const)
    .flatMap((kind) => ({ session, gateway })[kind].warnings.map((warning) => ({ ...warning, kind })))
    .sort((a, b) => a.at < b.at ? 1 : -1);
  return (
    <>
      <h2>Warnings</h2>
      {warnings.length === 0 && <p>None since the server started.</p>}
      <ul class="warnings">
        {warnings.map(({ at, session: id, message, kind }) => (
          <li key={`${id} ${message}`}>
            <time dateTime={at}>{new Date(at).toLocaleTimeString("en-GB")}</time> <bdi>{message}</bdi>{" "}
            <a href={addressOf(kind === "session" ? { view: "talk", id } : { view: "calls", kind, id })}>
              Session
            </a>
          </li>
        ))}
      </ul>
    </>
  );
}

const BY = { session: "By session", model: "By model", agent: "By agent" } as const;

function Spend(): JSX.Element {
  const [day, setDay] = useState<string>();
  const [by, setBy] = useState<keyof typeof BY>("session");
  const days = useLoaded(() => api.json("GET /spend", { query: { by: "day", limit: 1_000 } }));
  const totals = day === undefined ? days.value?.all : days.value?.rows.find(({ key }) => key === day);
  return (
    <>
      <Trouble text={days.trouble} />
      {days.value && days.value.rows.length === 0 && <p>No model calls yet.</p>}
      {days.value && totals && days.value.rows.length > 0 && (
        <>
          <SumList totals={summaryOf(days.value)} />
          <DayChart days={days.value} day={day} choose={setDay} />
          <Rows
            label="By day"
            head="Day (UTC)"
            rows={[{ ...days.value.all, key: "", session: null }, ...days.value.rows]}
            chosen={day ?? ""}
            name={({ key }) => (
              <button
                type="button"
                class="quiet"
                aria-pressed={key === (day ?? "")}
                onClick={() => setDay(key || undefined)}
              >
                {dayInWords(key)}
              </button>
            )}
          />
          <h2>{dayInWords(day ?? "")}: {money(totals)}</h2>
          <SpentTable totals={totals} />
          <Choice label="Group by" names={BY} chosen={by} choose={setBy} />
        </>
      )}
      <Cut key={`${by} ${day}`} by={by} day={day} />
      <Misses key={day} day={day} />
      <p class="note">
        Estimated saving: share of the baseline, which is the cost without Tare. From cache: share of the
        prompts’ tokens. Cache misses: share of the prompts’ cost for content that was read again because it
        was not cached.
      </p>
      <Units pricesDate={days.value?.pricesDate} />
    </>
  );
}

function summaryOf({ all, rows }: SpendReport): Sum[] {
  const today = rows.find(({ key }) => key === new Date().toISOString().slice(0, 10));
  const calls = ({ calls }: UsageTotals) => counted(calls, "call");
  return [
    { name: "Today", value: today ? money(today) : dollars(0), note: today ? calls(today) : "no calls" },
    { name: "All days", value: money(all), note: calls(all) },
    { name: "Estimated saving", value: saved(all), note: "of the cost without Tare" },
    { name: "From cache", value: share(all.cachedTokens, all.promptTokens), note: "of the prompts’ tokens" },
  ];
}

const STACKS = { cause: "Stacked by cause", agent: "Stacked by agent" } as const;

/** Most and least days of the chart. */
const CHART_DAYS = { most: 30, least: 14 };

const AGENT_COLORS = [
  "new",
  "keepAlive",
  "expired",
  "ownRewrite",
  "changed",
  "lost",
  "cacheRead",
  "output",
] as const;

/** Cost of each day, with the baseline; a day is selected in it as in the table. */
function DayChart({ days, day, choose }: {
  readonly days: SpendReport;
  readonly day: string | undefined;
  readonly choose: (day: string) => void;
}) {
  const [stack, setStack] = useState<keyof typeof STACKS>("cause");
  const agents = useLoaded(() => api.json("GET /spend", { query: { by: "day_agent", limit: 1_000 } }));
  const priced = isPriced(days.all);
  const format = priced ? dollars : formatCount;
  const names = chartDays(days.rows.at(-1)?.key);
  const rows = new Map(days.rows.map((row) => [row.key, row]));
  const cost = (row: UsageTotals) => priced ? row.usd : row.costUnits;
  const byAgent = new Map(agents.value?.rows.map((row) => [row.key, cost(row)]));
  const known = [...new Set([...byAgent.keys()].map((key) => key.slice(DAY_LENGTH)))];
  const shown = known.slice(0, AGENT_COLORS.length);
  const causes = PARTS.filter(([part]) => days.all[`${part}${priced ? "Usd" : "CostUnits"}`] > 0);
  const bars = names.map((key): Bar => {
    const row = rows.get(key);
    return {
      name: new Date(key).toLocaleDateString("en-GB", { day: "numeric", month: "short", timeZone: "UTC" }),
      values: !row
        ? []
        : stack === "agent"
        ? shown.map((agent) => byAgent.get(`${key}${agent}`) ?? 0)
        : causes.map(([part]) => row[`${part}${priced ? "Usd" : "CostUnits"}`]),
      baseline: row && (priced ? row.baselineUsd : row.baselineCostUnits),
    };
  });
  const at = day === undefined ? names.length - 1 : Math.max(0, names.indexOf(day));
  const row = rows.get(names[at]!);
  return (
    <>
      <Choice label="Stack" names={STACKS} chosen={stack} choose={setStack} />
      <BarChart
        label="Cost of each day"
        series={stack === "agent"
          ? shown.map((agent, index) => [AGENT_COLORS[index]!, agent.trim() || "unknown"])
          : causes.map(([part, name]) => [part, name])}
        bars={bars}
        at={at}
        isSelected={day !== undefined}
        choose={(at) => choose(names[at]!)}
        text={`${dayInWords(names[at]!)}: ${
          row ? `${money(row)}, ${saved(row)} estimated saving` : "no calls"
        }`}
        format={format}
        baseline="Baseline (estimated cost without Tare)"
      />
    </>
  );
}

const DAY_LENGTH = "2026-01-31".length;

/** Returns the days of the chart in UTC, the newest last. */
function chartDays(first: string | undefined): readonly string[] {
  const dayBefore = (days: number) =>
    new Date(Date.now() - days * 24 * 60 * 60_000).toISOString().slice(0, 10);
  const days = Array.from({ length: CHART_DAYS.most }, (_, before) => dayBefore(before));
  const length = days.findIndex((day) => day <= (first ?? day)) + 1 || CHART_DAYS.most;
  return days.slice(0, Math.max(CHART_DAYS.least, length)).reverse();
}

function dayInWords(day: string): string {
  if (day === "") return "All days";
  const before = (days: number) => new Date(Date.now() - days * 24 * 60 * 60_000).toISOString().slice(0, 10);
  const name = [["Today", before(0)], ["Yesterday", before(1)]].find(([, one]) => one === day)?.[0];
  return name ? `${name}, ${day}` : day;
}

function Cut({ by, day }: { readonly by: keyof typeof BY; readonly day: string | undefined }) {
  const days = day !== undefined && { from: day, to: day };
  const { value, trouble } = useLoaded(() => api.json("GET /spend", { query: { by, limit: 200, ...days } }));
  if (trouble !== undefined) return <Trouble text={trouble} />;
  if (!value || value.rows.length === 0) return null;
  return (
    <Rows
      label={BY[by]}
      head={{ session: "Session", model: "Model", agent: "Agent" }[by]}
      rows={value.rows}
      name={({ key, session }) => session ? linkTo(key, session) : <bdi>{key || "unknown"}</bdi>}
    />
  );
}

function linkTo(id: string, { kind, title, model }: NonNullable<Row["session"]>): JSX.Element {
  return (
    <a href={addressOf({ view: "calls", kind: kind === "agent" ? "session" : "gateway", id })}>
      <bdi>{title || model || id}</bdi>
    </a>
  );
}

type Row = SpendReport["rows"][number];

function Rows({ label, head, rows, name, chosen }: {
  readonly label: string;
  readonly head: string;
  readonly rows: readonly Row[];
  readonly name: (row: Row) => ComponentChildren;
  /** Key of the selected row. Default: none. */
  readonly chosen?: string;
}) {
  return (
    <NumbersTable
      label={label}
      rows={rows}
      isChosen={({ key }) => key === chosen}
      columns={[
        [head, name, "clipped"],
        ["Cost", money],
        ["Unpriced calls", unpriced],
        ["Estimated saving", saved],
        ["Calls", ({ calls }) => formatCount(calls)],
        ["From cache", ({ cachedTokens, promptTokens }) => share(cachedTokens, promptTokens)],
        ["Cache misses", (row) => share(missed(row), row.costUnits)],
      ]}
    />
  );
}

function missed(
  { expiredCostUnits, ownRewriteCostUnits, changedCostUnits, lostCostUnits }: UsageTotals,
): number {
  return expiredCostUnits + ownRewriteCostUnits + changedCostUnits + lostCostUnits;
}

function Misses({ day }: { readonly day: string | undefined }): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  return (
    <details class="misses" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Causes of cache misses and remedies</summary>
      {isOpen && <Found day={day} />}
    </details>
  );
}

function Found({ day }: { readonly day: string | undefined }) {
  const { value, trouble } = useLoaded(() => api.json("GET /misses", { query: { from: day, to: day } }));
  if (trouble !== undefined) return <Trouble text={trouble} />;
  if (!value) return <p role="status">Loading …</p>;
  const { sessions, calls, promptTokens, cachedTokens, misses } = value;
  return (
    <>
      <p class="note">
        {share(cachedTokens, promptTokens)} of the prompts’ tokens came from the cache, in{" "}
        {counted(calls, "call")} of the{" "}
        {counted(sessions, "newest session")}. The rest, without content that was new (avoidable causes are
        bold):
      </p>
      <NumbersTable
        label="Causes of cache misses"
        rows={misses}
        columns={[
          ["Cause", ({ avoidable, name }) => avoidable ? <strong>{name}</strong> : name, "clipped"],
          ["Cost", money],
          ["Unpriced calls", unpriced],
          ["Tokens", ({ tokens }) => formatCount(tokens)],
          ["Calls", ({ calls }) => formatCount(calls)],
          ["Remedy", ({ remedy, dearest }) => (
            <>
              {remedy} <Changed dearest={dearest} />
            </>
          ), "text"],
        ]}
      />
    </>
  );
}

function Changed({ dearest: { changed, call } }: Pick<MissesReport["misses"][number], "dearest">) {
  if (!changed || changed.before === "" && changed.after === "") return null;
  return (
    <>
      In call {call},{" "}
      <q>
        <bdi>{changed.before}</bdi>
      </q>{" "}
      became{" "}
      <q>
        <bdi>{changed.after}</bdi>
      </q>.
    </>
  );
}
