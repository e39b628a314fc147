import type { Sums as CallSums } from "@tare/session/internal/report";
import type { JSX } from "preact";
import { counted, formatCount } from "@tare/server/internal/format";
import { dollars, share } from "./format.ts";
import { isPriced, withoutPrice } from "./spent.tsx";

export interface Sum {
  readonly name: string;
  readonly value: string;
  readonly note?: string;
}

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

export function promptTokensOf(
  { promptTokens, cachedTokens }: Pick<CallSums, "promptTokens" | "cachedTokens">,
): Sum {
  const note = `${share(cachedTokens, promptTokens)} from cache`;
  return { name: "Prompt tokens", value: formatCount(promptTokens), note };
}

export function costsOf(
  { tokenUnits, withoutTokenUnits, usd, withoutUsd, unpricedCalls }: Pick<
    CallSums,
    "tokenUnits" | "withoutTokenUnits" | "usd" | "withoutUsd" | "unpricedCalls"
  >,
): Sum[] {
  const beside = (cost: number, without: number, format: (cost: number) => string) =>
    `baseline ${format(without)}: ${share(without - cost, without)} estimated saving`;
  const cost = { usd, tokenUnits, unpricedCalls };
  const note = [isPriced(cost) ? beside(usd, withoutUsd, dollars) : "", withoutPrice(cost)].filter(Boolean);
  return [
    { name: "US dollars", value: isPriced(cost) ? dollars(usd) : "–", note: note.join("; ") },
    {
      name: "Cost units",
      value: formatCount(tokenUnits),
      note: beside(tokenUnits, withoutTokenUnits, formatCount),
    },
  ];
}

/** Returns the saving against resending everything, for calls before the window overflowed; empty if it never did. */
export function overflowOf(
  { calls, fittingCalls, fittingTokenUnits, resendTokenUnits, withoutCompactions }: CallSums,
): Sum[] {
  if (withoutCompactions === 0) return [];
  return [{
    name: "Before the window was full",
    value: share(resendTokenUnits - fittingTokenUnits, resendTokenUnits),
    note:
      `estimated saving against resending everything, ${fittingCalls} of ${
        counted(calls, "call")
      }; afterwards the client ` +
      `would have compacted ${counted(withoutCompactions, "time")}`,
  }];
}

export function programsOf(
  { programs, programCalls, failedProgramCalls, programKeptTokens }: CallSums,
): Sum[] {
  if (programs === 0) return [];
  return [{
    name: "Withheld by code mode",
    value: formatCount(programKeptTokens),
    note:
      `tokens, not counted as saving; ${counted(programs, "program")} made ${
        counted(programCalls, "call")
      }, ` +
      `${formatCount(failedProgramCalls)} failed`,
  }];
}
