import type { Overview as Report, Sums as CallSums } from "@tare/planner";
import type { JSX } from "preact";
import { readOverview } from "../api/reports.ts";
import { count, counted, dollars, share } from "../parts/format.ts";
import { useLoaded } from "../parts/loaded.ts";
import { costsOf, Sums } from "../parts/sums.tsx";
import { addressOf } from "../place.ts";

/** What was saved, how planned sessions do beside those left as they are, and what was warned of. */
export function Overview(): JSX.Element {
  const { value, trouble } = useLoaded(readOverview);
  return (
    <section class="report">
      <h1>Overview</h1>
      {trouble !== undefined && <p class="trouble" role="alert">{trouble}</p>}
      {value && (
        <>
          <h2>Today</h2>
          <Saved sums={value.today} />
          <h2>In all</h2>
          <Saved sums={value.all} />
          <Groups groups={value.groups} />
          <Warnings warnings={value.warnings} />
        </>
      )}
    </section>
  );
}

function Saved({ sums }: { readonly sums: CallSums }) {
  const { calls, promptTokens, cachedTokens, outputTokens, savedTokens } = sums;
  return (
    <Sums
      sums={[
        ...costsOf(sums),
        { name: "Kept out of prompts", value: count(savedTokens), note: "tokens" },
        {
          name: "Prompt tokens",
          value: count(promptTokens),
          note: `${share(cachedTokens, promptTokens)} from cache`,
        },
        { name: "Output tokens", value: count(outputTokens), note: counted(calls, "call") },
      ]}
    />
  );
}

function Groups({ groups }: Pick<Report, "groups">) {
  const rows = [["Planned", groups.planned], ["Control, left as they are", groups.control]] as const;
  const each = (sum: number, sessions: number) => sessions === 0 ? "–" : count(sum / sessions);
  return (
    <>
      <h2>Planned beside control</h2>
      <div class="scroll" tabIndex={0} role="group" aria-label="Planned beside control">
        <table class="numbers">
          <thead>
            <tr>
              <th scope="col">Group</th>
              <th scope="col">Sessions</th>
              <th scope="col">Calls</th>
              <th scope="col">Prompt tokens</th>
              <th scope="col">From cache</th>
              <th scope="col">Token units</th>
              <th scope="col">A session</th>
              <th scope="col">US dollars</th>
            </tr>
          </thead>
          <tbody>
            {rows.map(([name, sums]) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td>{count(sums.sessions)}</td>
                <td>{count(sums.calls)}</td>
                <td>{count(sums.promptTokens)}</td>
                <td>{share(sums.cachedTokens, sums.promptTokens)}</td>
                <td>{count(sums.tokenUnits)}</td>
                <td>{each(sums.tokenUnits, sums.sessions)}</td>
                <td>{sums.calls === 0 || sums.unpricedCalls > 0 ? "–" : dollars(sums.usd)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {groups.control.sessions === 0 && (
        <p>
          No session is left as it is, to compare with: TARE_CONTROL says which share of the gateway’s
          sessions shall be.
        </p>
      )}
    </>
  );
}

function Warnings({ warnings }: Pick<Report, "warnings">) {
  return (
    <>
      <h2>Warnings</h2>
      {warnings.length === 0 && <p>None since the server’s start.</p>}
      <ul class="warnings">
        {warnings.map(({ at, session, message }) => (
          <li key={`${session} ${message}`}>
            <time dateTime={at}>{new Date(at).toLocaleTimeString("en-GB")}</time> <bdi>{message}</bdi>{" "}
            <a href={addressOf({ view: "talk", id: session })}>Session</a>
          </li>
        ))}
      </ul>
    </>
  );
}
