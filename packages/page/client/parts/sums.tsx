import type { Sums as CallSums } from "@tare/conversation/report";
import type { JSX } from "preact";
import { count, dollars, share } from "./format.ts";

/** A number that a view is about. */
export interface Sum {
  readonly name: string;
  readonly value: string;
  /** What it is a part of, or the like. */
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
  return { name: "Prompt tokens", value: count(promptTokens), note };
}

/** What calls cost beside what clients would have paid without Tare: in token units, and in dollars where the price of all is known. */
export function costsOf(
  { tokenUnits, withoutTokenUnits, usd, withoutUsd, unpricedCalls }: Pick<
    CallSums,
    "tokenUnits" | "withoutTokenUnits" | "usd" | "withoutUsd" | "unpricedCalls"
  >,
): Sum[] {
  const beside = (cost: number, without: number, format: (cost: number) => string) =>
    `of ${format(without)}: ${share(without - cost, without)} saved`;
  return [
    { name: "Token units", value: count(tokenUnits), note: beside(tokenUnits, withoutTokenUnits, count) },
    ...(unpricedCalls === 0 && usd > 0
      ? [{ name: "US dollars", value: dollars(usd), note: beside(usd, withoutUsd, dollars) }]
      : []),
  ];
}
