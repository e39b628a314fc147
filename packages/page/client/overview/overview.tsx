import type { Overview as Report, Sums } from "@tare/session/internal/report";
import type { MissesReport, SpendReport } from "../../../server/client.ts";
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { api } from "../api/api.ts";
import type { Subject } from "../api/reports.ts";
import { Choice } from "../parts/choice.tsx";
import { counted, formatCount } from "@tare/server/internal/format";
import { share } from "../parts/format.ts";
import { useLoaded } from "../parts/loaded.ts";
import { NumbersTable } from "../parts/numbers_table.tsx";
import { money, saved, SpentTable, Units, unpriced } from "../parts/spent.tsx";
import { costsOf, overflowOf, programsOf, promptTokensOf, type Sum, SumList } from "../parts/sums.tsx";
import { Trouble } from "../parts/trouble.tsx";
import { addressOf } from "../place.ts";

/** What was saved, how planned sessions do beside those left as they are, and what was warned of. */
export function OverviewView(): JSX.Element {
  const { value, trouble } = useLoaded(async () => ({
    session: await api.json("GET /overview", { query: { kind: "agent" } }),
    gateway: await api.json("GET /overview", { query: { kind: "gateway" } }),
  }));
  return (
    <section class="report">
      <h1>Overview</h1>
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

/** What each of the two servers has told. */
type Reports = Readonly<Record<Subject["kind"], Report>>;

function Saved({ what, report: { today, all } }: { readonly what: string; readonly report: Report }) {
  return (
    <>
      <h2>{what}, today</h2>
      <SumList sums={savedBy(today)} />
      <h2>{what}, in all</h2>
      <SumList sums={savedBy(all)} />
    </>
  );
}

function savedBy(sums: Sums): Sum[] {
  const { calls, outputTokens, savedTokens } = sums;
  return [
    ...costsOf(sums),
    ...overflowOf(sums),
    { name: "Kept out of prompts", value: formatCount(savedTokens), note: "tokens" },
    ...programsOf(sums),
    promptTokensOf(sums),
    { name: "Output tokens", value: formatCount(outputTokens), note: counted(calls, "call") },
  ];
}

function Groups({ session, gateway }: Reports) {
  const rows = [
    ["Agent, planned", session.groups.planned],
    ["Gateway, planned", gateway.groups.planned],
    ["Gateway, control: left as they are", gateway.groups.control],
  ] as const;
  const otherwise = (sums: typeof rows[number][1]) =>
    sums === gateway.groups.control ? sums.projectedTokenUnits : sums.withoutTokenUnits;
  const each = (sum: number, sessions: number) => sessions === 0 ? "–" : formatCount(sum / sessions);
  return (
    <>
      <h2>Planned beside control</h2>
      <p class="note">
        Control: sessions of other agents that are left as they are, to compare with (TARE_CONTROL), or to see
        what Tare would do (TARE_CONTROL=1). A session costs so many token units on average; otherwise: what a
        planned one would have cost without Tare, and one of the control group with it, what reading back is
        expected to cost included.
      </p>
      <NumbersTable
        label="Planned beside control"
        rows={rows}
        columns={[
          ["Group", ([name]) => name],
          ["Sessions", ([, sums]) => formatCount(sums.sessions)],
          ["Calls", ([, sums]) => formatCount(sums.calls)],
          ["Prompt tokens", ([, sums]) => formatCount(sums.promptTokens)],
          ["From cache", ([, sums]) => share(sums.cachedTokens, sums.promptTokens)],
          ["Token units", ([, sums]) => formatCount(sums.tokenUnits)],
          ["A session", ([, sums]) => each(sums.tokenUnits, sums.sessions)],
          ["Otherwise", ([, sums]) => each(otherwise(sums), sums.sessions)],
          ["Cost", ([, sums]) => sums.calls === 0 ? "–" : money(sums)],
          ["Without a price", ([, sums]) => unpriced(sums)],
        ]}
      />
    </>
  );
}

function Warnings({ session, gateway }: Reports) {
  const told = (["session", "gateway"] as const)
    .flatMap((kind) => ({ session, gateway })[kind].warnings.map((warning) => ({ ...warning, kind })))
    .sort((a, b) => a.at < b.at ? 1 : -1);
  return (
    <>
      <h2>Warnings</h2>
      {told.length === 0 && <p>None since the server’s start.</p>}
      <ul class="warnings">
        {told.map(({ at, session: id, message, kind }) => (
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

/** Where the money went: by day, and of a day or of all by session, model and agent, and what it went for. */
function Spend(): JSX.Element {
  const [day, setDay] = useState<string>();
  const [by, setBy] = useState<keyof typeof BY>("session");
  const days = useLoaded(() => api.json("GET /spend", { query: { by: "day", limit: 1_000 } }));
  const sums = day === undefined ? days.value?.all : days.value?.rows.find(({ key }) => key === day);
  return (
    <>
      <h2>Where the money went</h2>
      <Trouble text={days.trouble} />
      {days.value && days.value.rows.length === 0 && <p>No call has been answered yet.</p>}
      {days.value && sums && days.value.rows.length > 0 && (
        <>
          <Rows
            label="By day"
            head="Day, by UTC"
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
          <h3>{dayInWords(day ?? "")}: {money(sums)}</h3>
          <SpentTable sums={sums} />
          <Choice label="Cut by" names={BY} chosen={by} choose={setBy} />
        </>
      )}
      <Cut key={`${by} ${day}`} by={by} day={day} />
      <Misses key={day} day={day} />
      <p class="note">
        Saved: of what clients would have paid without Tare. From cache: of the prompts’ tokens. Missed the
        cache: of the prompts’ cost, what was sent again because the cache didn’t hold it.
      </p>
      <Units />
    </>
  );
}

/** What a day is called: the two newest by their names. */
function dayInWords(day: string): string {
  if (day === "") return "All days";
  const before = (days: number) => new Date(Date.now() - days * 24 * 60 * 60_000).toISOString().slice(0, 10);
  const name = [["Today", before(0)], ["Yesterday", before(1)]].find(([, one]) => one === day)?.[0];
  return name ? `${name}, ${day}` : day;
}

/** A day's money, or all of it, cut by something. */
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
      name={({ key, session }) => session ? linkTo(key, session) : <bdi>{key || "not known"}</bdi>}
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
  /** Key of the row that is chosen. Default: none. */
  readonly chosen?: string;
}) {
  return (
    <NumbersTable
      label={label}
      rows={rows}
      isChosen={({ key }) => key === chosen}
      columns={[
        [head, name, "begins"],
        ["Cost", money],
        ["Without a price", unpriced],
        ["Saved", saved],
        ["Calls", ({ calls }) => formatCount(calls)],
        ["From cache", ({ cachedTokens, promptTokens }) => share(cachedTokens, promptTokens)],
        ["Missed the cache", (row) => share(missed(row), row.tokenUnits)],
      ]}
    />
  );
}

/** What was sent again because the cache didn't hold it, in token units. */
function missed(
  { expiredTokenUnits, ownRewriteTokenUnits, changedTokenUnits, lostTokenUnits }: Sums,
): number {
  return expiredTokenUnits + ownRewriteTokenUnits + changedTokenUnits + lostTokenUnits;
}

/** Why prompts weren't read from the cache, of a day or of all; it is looked for once somebody asks. */
function Misses({ day }: { readonly day: string | undefined }): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  return (
    <details class="misses" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Why the cache was missed, and what would mend it</summary>
      {isOpen && <Found day={day} />}
    </details>
  );
}

function Found({ day }: { readonly day: string | undefined }) {
  const { value, trouble } = useLoaded(() => api.json("GET /misses", { query: { from: day, to: day } }));
  if (trouble !== undefined) return <Trouble text={trouble} />;
  if (!value) return <p role="status">Looking …</p>;
  const { sessions, calls, promptTokens, cachedTokens, misses } = value;
  return (
    <>
      <p class="note">
        {share(cachedTokens, promptTokens)} of the prompts’ tokens came from the cache, in{" "}
        {counted(calls, "call")} of the{" "}
        {counted(sessions, "newest session")}. The rest, what need not have been first:
      </p>
      <NumbersTable
        label="Why the cache was missed"
        rows={misses}
        columns={[
          ["Why", ({ avoidable, name }) => avoidable ? <strong>{name}</strong> : name, "begins"],
          ["Paid for it", money],
          ["Without a price", unpriced],
          ["Tokens", ({ tokens }) => formatCount(tokens)],
          ["Calls", ({ calls }) => formatCount(calls)],
          ["What would mend it", ({ remedy, dearest }) => (
            <>
              {remedy} <Changed dearest={dearest} />
            </>
          ), "words"],
        ]}
      />
    </>
  );
}

/** The bytes that a client had changed for the dearest call. */
function Changed({ dearest: { changed, call } }: Pick<MissesReport["misses"][number], "dearest">) {
  if (!changed || changed.before === "" && changed.after === "") return null;
  return (
    <>
      For call {call}:{" "}
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
