import type { Sums as CallSums } from "@tare/session/internal/report";
import type { JSX } from "preact";
import { counted, formatCount } from "@tare/server/internal/format";
import { dollars, share } from "./format.ts";
import { isPriced, withoutPrice } from "./spent.tsx";

/** A number that a view is about. */
export interface Sum {
  readonly name: string;
  readonly value: string;
  readonly note?: string;
}

/** The few numbers that a view is about. */
export function SumList({ sums }: { readonly sums: readonly Sum[] }): JSX.Element {
  return (
    <dl class="sums">
      {sums.map(({ name, value, note }) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            {value}
            {note !== undefined && <small>{note}</small>}
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** The prompts' tokens, and how many of them the cache served. */
export function promptTokensOf(
  { promptTokens, cachedTokens }: Pick<CallSums, "promptTokens" | "cachedTokens">,
): Sum {
  const note = `${share(cachedTokens, promptTokens)} from cache`;
  return { name: "Prompt tokens", value: formatCount(promptTokens), note };
}

/** What calls cost beside what clients would have paid without Tare: in dollars as far as prices are known, and in token units. */
export function costsOf(
  { tokenUnits, withoutTokenUnits, usd, withoutUsd, unpricedCalls }: Pick<
    CallSums,
    "tokenUnits" | "withoutTokenUnits" | "usd" | "withoutUsd" | "unpricedCalls"
  >,
): Sum[] {
  const beside = (cost: number, without: number, format: (cost: number) => string) =>
    `of ${format(without)} without Tare: ${share(without - cost, without)} saved`;
  const cost = { usd, tokenUnits, unpricedCalls };
  const note = [isPriced(cost) ? beside(usd, withoutUsd, dollars) : "", withoutPrice(cost)].filter(Boolean);
  return [
    { name: "US dollars", value: isPriced(cost) ? dollars(usd) : "–", note: note.join("; ") },
    {
      name: "Token units",
      value: formatCount(tokenUnits),
      note: beside(tokenUnits, withoutTokenUnits, formatCount),
    },
  ];
}

/** What was saved beside resending everything, where a window didn't hold all that was said; nothing where all fitted. */
export function overflowOf(
  { calls, fittingCalls, fittingTokenUnits, resendTokenUnits, withoutCompactions }: CallSums,
): Sum[] {
  if (withoutCompactions === 0) return [];
  return [{
    name: "While all fitted the window",
    value: share(resendTokenUnits - fittingTokenUnits, resendTokenUnits),
    note:
      `saved of resending everything, ${fittingCalls} of ${counted(calls, "call")}; then its client would ` +
      `have compacted ${counted(withoutCompactions, "time")}`,
  }];
}

/** What programs kept outside of every prompt; nothing if there were none. */
export function programsOf(
  { programs, programCalls, failedProgramCalls, programKeptTokens }: CallSums,
): Sum[] {
  if (programs === 0) return [];
  return [{
    name: "Kept outside by programs",
    value: formatCount(programKeptTokens),
    note: `tokens, no saving; ${counted(programs, "program")} made ${counted(programCalls, "call")}, ` +
      `${formatCount(failedProgramCalls)} failed`,
  }];
}
