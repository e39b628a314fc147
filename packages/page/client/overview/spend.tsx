import type { MissesReport, SpendReport, Sums } from "@tare/conversation/report";
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { readMisses, readSpend } from "../api/reports.ts";
import { Choice } from "../parts/choice.tsx";
import { count, counted, share } from "../parts/format.ts";
import { useLoaded } from "../parts/loaded.ts";
import { NumbersTable } from "../parts/numbers_table.tsx";
import { money, saved, SpentTable, Units } from "../parts/spent.tsx";
import { addressOf } from "../place.ts";

/** What a day's money may be cut by. */
const BY = { session: "By session", model: "By model", agent: "By agent" } as const;

/** Where the money went: by day, and of a day or of all by session, model and agent, and what it went for. */
export function Spend(): JSX.Element {
  const [day, setDay] = useState<string>();
  const [by, setBy] = useState<keyof typeof BY>("session");
  const days = useLoaded(() => readSpend({ by: "day", limit: 1_000 }));
  const sums = day === undefined ? days.value?.all : days.value?.rows.find(({ key }) => key === day);
  const { trouble } = days;
  return (
    <>
      <h2>Where the money went</h2>
      {trouble !== undefined && <p class="trouble" role="alert">{trouble}</p>}
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
  const { value, trouble } = useLoaded(() => readSpend({ by, limit: 200, ...days }));
  if (trouble !== undefined) return <p class="trouble" role="alert">{trouble}</p>;
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
      heads={[head, "Cost", "Without a price", "Saved", "Calls", "From cache", "Missed the cache"]}
      rows={rows}
      draw={(row) => (
        <tr key={row.key} class={row.key === chosen ? "chosen" : undefined}>
          <th scope="row" class="begins">{name(row)}</th>
          <td>{money(row)}</td>
          <td>{row.unpricedCalls === 0 ? "" : count(row.unpricedCalls)}</td>
          <td>{saved(row)}</td>
          <td>{count(row.calls)}</td>
          <td>{share(row.cachedTokens, row.promptTokens)}</td>
          <td>{share(missed(row), row.tokenUnits)}</td>
        </tr>
      )}
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
  const { value, trouble } = useLoaded(() => readMisses(day === undefined ? {} : { from: day, to: day }));
  if (trouble !== undefined) return <p class="trouble" role="alert">{trouble}</p>;
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
        heads={["Why", "Paid for it", "Without a price", "Tokens", "Calls", "What would mend it"]}
        words={["What would mend it"]}
        rows={misses}
        draw={(miss) => (
          <tr key={miss.cause}>
            <th scope="row" class="begins">{miss.avoidable ? <strong>{miss.name}</strong> : miss.name}</th>
            <td>{money(miss)}</td>
            <td>{miss.unpricedCalls === 0 ? "" : count(miss.unpricedCalls)}</td>
            <td>{count(miss.tokens)}</td>
            <td>{count(miss.calls)}</td>
            <td class="words">
              {miss.remedy} <Changed dearest={miss.dearest} />
            </td>
          </tr>
        )}
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
