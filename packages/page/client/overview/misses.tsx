import type { Miss } from "@tare/conversation/report";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { readMisses } from "../api/reports.ts";
import { count, counted, share } from "../parts/format.ts";
import { useLoaded } from "../parts/loaded.ts";
import { NumbersTable } from "../parts/numbers_table.tsx";
import { money } from "../parts/spent.tsx";

/** Why prompts weren't read from the cache, of a day or of all; it is looked for once somebody asks. */
export function Misses({ day }: { readonly day: string | undefined }): JSX.Element {
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
function Changed({ dearest: { changed, call } }: Pick<Miss, "dearest">) {
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
