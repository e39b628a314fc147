import type { CallReport, Sums } from "@tare/session/internal/report";
import type { JSX } from "preact";
import { counted, formatCount } from "@tare/server/internal/format";
import { dollars, share } from "./format.ts";
import { NumbersTable } from "./numbers_table.tsx";

/** A cost, as far as prices are known. */
export type Priced = Pick<Sums, "usd" | "tokenUnits" | "unpricedCalls">;

/** Whether a cost is known in dollars, at least of some calls. */
export function isPriced({ usd, unpricedCalls }: Priced): boolean {
  return usd > 0 || unpricedCalls === 0;
}

/** A cost in dollars; where no call has a price that of so many input tokens, which is what a token unit is. */
export function money(cost: Priced): string {
  return isPriced(cost) ? dollars(cost.usd) : `${formatCount(cost.tokenUnits)} units`;
}

/** What was saved, as a share of what clients would have paid without Tare: of the dollars, else of the token units. */
export function saved(cost: Priced & Pick<Sums, "withoutUsd" | "withoutTokenUnits">): string {
  const { usd, withoutUsd, tokenUnits, withoutTokenUnits } = cost;
  return isPriced(cost)
    ? share(withoutUsd - usd, withoutUsd)
    : share(withoutTokenUnits - tokenUnits, withoutTokenUnits);
}

/** How many calls aren't among the dollars; nothing if all are. */
export function withoutPrice({ unpricedCalls }: Priced): string {
  return unpricedCalls === 0 ? "" : `${counted(unpricedCalls, "call")} without a price`;
}

/** Returns a number of calls without a price for a table. */
export function unpriced({ unpricedCalls }: Pick<Priced, "unpricedCalls">): string {
  return unpricedCalls === 0 ? "" : formatCount(unpricedCalls);
}

/** What money goes for: what each part is called, and what it is. */
const PARTS:
  readonly (readonly [part: keyof CallReport["spent"]["tokenUnits"], name: string, meaning: string])[] = [
    ["cacheRead", "Read from the cache", "what the provider’s cache still held"],
    [
      "new",
      "New in the prompt",
      "what no request held before, written to the cache where the provider does that",
    ],
    [
      "expired",
      "Expired",
      "missed the cache: the call came after the cache’s time, so that all was sent anew",
    ],
    ["ownRewrite", "Own rewrites", "missed the cache: Tare had rewritten the prompt; its summaries too"],
    ["changed", "Other tools or model", "missed the cache: it stands behind what had changed"],
    ["lost", "Lost by the provider", "missed the cache, though the cache’s time wasn’t over"],
    ["output", "Output", "the replies"],
    ["ping", "Keeping warm", "requests that kept the provider’s cache from expiring while nothing was asked"],
  ];

/** What calls were paid for, in dollars, or in token units where no price is known; what cost nothing isn't told. */
export function SpentTable({ sums }: { readonly sums: Sums }): JSX.Element {
  const unit = isPriced(sums) ? "Usd" : "TokenUnits";
  const whole = isPriced(sums) ? sums.usd : sums.tokenUnits;
  return (
    <NumbersTable
      label="What it went for"
      columns={[
        ["Went for", ([, name]) => name],
        [
          isPriced(sums) ? "US dollars" : "Token units",
          ([part]) => isPriced(sums) ? dollars(sums[`${part}Usd`]) : formatCount(sums[`${part}TokenUnits`]),
        ],
        ["Share", ([part]) => share(sums[`${part}${unit}`], whole)],
        ["Which is", ([, , meaning]) => meaning, "words"],
      ]}
      rows={PARTS.filter(([part]) => sums[`${part}${unit}`] > 0)}
    />
  );
}

/** What the units mean that a view shows. */
export function Units(): JSX.Element {
  return (
    <p class="note">
      A token unit is the price of one input token that isn’t in the cache. Dollars have the replies in them,
      and are those of the calls whose price is known.
    </p>
  );
}
