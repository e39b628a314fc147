import type { UsageTotals as CallTotals } from "@tare/session/internal/report";
import type { JSX } from "preact";
import { counted, formatCount } from "@tare/server/internal/format";
import { dollars, share } from "./format.ts";
import { isPriced, withoutPrice } from "./spent.tsx";

export interface Sum {
  readonly name: string;
  readonly value: string;
  readonly note?: string;
}

export function SumList({ totals }: { readonly totals: readonly Sum[] }): JSX.Element {
  return (
    <dl class="totals">
      {totals.map(({ name, value, note }) => (
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
  { promptTokens, cachedTokens }: Pick<CallTotals, "promptTokens" | "cachedTokens">,
): Sum {
  const note = `${share(cachedTokens, promptTokens)} from cache`;
  return { name: "Prompt tokens", value: formatCount(promptTokens), note };
}

export function costsOf(
  { costUnits, baselineCostUnits, usd, baselineUsd, unpricedCalls }: Pick<
    CallTotals,
    "costUnits" | "baselineCostUnits" | "usd" | "baselineUsd" | "unpricedCalls"
  >,
): Sum[] {
  const withBaseline = (cost: number, baseline: number, format: (cost: number) => string) =>
    `baseline ${format(baseline)}: ${share(baseline - cost, baseline)} estimated saving`;
  const cost = { usd, costUnits, unpricedCalls };
  const note = [isPriced(cost) ? withBaseline(usd, baselineUsd, dollars) : "", withoutPrice(cost)].filter(
    Boolean,
  );
  return [
    { name: "US dollars", value: isPriced(cost) ? dollars(usd) : "–", note: note.join("; ") },
    {
      name: "Cost units",
      value: formatCount(costUnits),
      note: withBaseline(costUnits, baselineCostUnits, formatCount),
    },
  ];
}

/** Returns the saving against resending everything, for calls before the window overflowed; empty if it never did. */
export function overflowOf(
  { calls, fittingCalls, fittingCostUnits, resendCostUnits, baselineCompactions }: CallTotals,
): Sum[] {
  if (baselineCompactions === 0) return [];
  return [{
    name: "Before the window was full",
    value: share(resendCostUnits - fittingCostUnits, resendCostUnits),
    note:
      `estimated saving against resending everything, ${fittingCalls} of ${
        counted(calls, "call")
      }; afterwards the client ` +
      `would have compacted ${counted(baselineCompactions, "time")}`,
  }];
}

export function programsOf(
  { programs, programCalls, failedProgramCalls, programOmittedTokens }: CallTotals,
): Sum[] {
  if (programs === 0) return [];
  return [{
    name: "Withheld by code mode",
    value: formatCount(programOmittedTokens),
    note:
      `tokens, not counted as saving; ${counted(programs, "program")} made ${
        counted(programCalls, "call")
      }, ` +
      `${formatCount(failedProgramCalls)} failed`,
  }];
}
