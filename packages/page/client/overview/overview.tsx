import type { Overview as Report, Sums as CallSums } from "@tare/conversation/report";
import type { JSX } from "preact";
import { readOverview, type Subject } from "../api/reports.ts";
import { count, counted, share } from "../parts/format.ts";
import { useLoaded } from "../parts/loaded.ts";
import { NumbersTable } from "../parts/numbers_table.tsx";
import {
  costsOf,
  overflowOf,
  programsOf,
  promptTokensOf,
  saidOnceOf,
  type Sum,
  SumList,
} from "../parts/sums.tsx";
import { addressOf } from "../place.ts";
import { money } from "../parts/spent.tsx";
import { Spend } from "./spend.tsx";

/** What was saved, how planned sessions do beside those left as they are, and what was warned of. */
export function OverviewView(): JSX.Element {
  const { value, trouble } = useLoaded(async () => ({
    session: await readOverview("session"),
    gateway: await readOverview("gateway"),
  }));
  return (
    <section class="report">
      <h1>Overview</h1>
      <Spend />
      {trouble !== undefined && <p class="trouble" role="alert">{trouble}</p>}
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

function savedBy(sums: CallSums): Sum[] {
  const { calls, outputTokens, savedTokens } = sums;
  return [
    ...costsOf(sums),
    ...overflowOf(sums),
    ...saidOnceOf(sums),
    { name: "Kept out of prompts", value: count(savedTokens), note: "tokens" },
    ...programsOf(sums),
    promptTokensOf(sums),
    { name: "Output tokens", value: count(outputTokens), note: counted(calls, "call") },
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
  const each = (sum: number, sessions: number) => sessions === 0 ? "–" : count(sum / sessions);
  return (
    <>
      <h2>Planned beside control</h2>
      <p class="note">
        Control: sessions of other agents that are left as they are, to compare with (TARE_CONTROL), or to see
        what Tare would do (TARE_OBSERVE). A session costs so many token units on average; otherwise: what a
        planned one would have cost without Tare, and one of the control group with it, what reading back is
        expected to cost included.
      </p>
      <NumbersTable
        label="Planned beside control"
        heads={[
          "Group",
          "Sessions",
          "Calls",
          "Prompt tokens",
          "From cache",
          "Token units",
          "A session",
          "Otherwise",
          "Cost",
          "Without a price",
        ]}
        rows={rows}
        draw={([name, sums]) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            <td>{count(sums.sessions)}</td>
            <td>{count(sums.calls)}</td>
            <td>{count(sums.promptTokens)}</td>
            <td>{share(sums.cachedTokens, sums.promptTokens)}</td>
            <td>{count(sums.tokenUnits)}</td>
            <td>{each(sums.tokenUnits, sums.sessions)}</td>
            <td>{each(otherwise(sums), sums.sessions)}</td>
            <td>{sums.calls === 0 ? "–" : money(sums)}</td>
            <td>{sums.unpricedCalls === 0 ? "" : count(sums.unpricedCalls)}</td>
          </tr>
        )}
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
