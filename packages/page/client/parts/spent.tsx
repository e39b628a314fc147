import type { CallReport, UsageTotals } from "@tare/session/internal/report";
import type { JSX } from "preact";
import { counted, formatCount } from "@tare/server/internal/format";
import { dollars, share } from "./format.ts";
import { NumbersTable } from "./numbers_table.tsx";

/** A cost in cost units, and in dollars for the calls with a known price. */
export type Priced = Pick<UsageTotals, "usd" | "costUnits" | "unpricedCalls">;

export function isPriced({ usd, unpricedCalls }: Priced): boolean {
  return usd > 0 || unpricedCalls === 0;
}

export function money(cost: Priced): string {
  return isPriced(cost) ? dollars(cost.usd) : `${formatCount(cost.costUnits)} cost units`;
}

/** Returns the estimated saving as a share of the baseline, in dollars if known, otherwise in cost units. */
export function saved(cost: Priced & Pick<UsageTotals, "baselineUsd" | "baselineCostUnits">): string {
  const { usd, baselineUsd, costUnits, baselineCostUnits } = cost;
  return isPriced(cost)
    ? share(baselineUsd - usd, baselineUsd)
    : share(baselineCostUnits - costUnits, baselineCostUnits);
}

export function withoutPrice({ unpricedCalls }: Priced): string {
  return unpricedCalls === 0 ? "" : `${counted(unpricedCalls, "unpriced call")}`;
}

export function unpriced({ unpricedCalls }: Pick<Priced, "unpricedCalls">): string {
  return unpricedCalls === 0 ? "" : formatCount(unpricedCalls);
}

/** Causes of cost: key, label and meaning. */
export const PARTS:
  readonly (readonly [part: keyof CallReport["spent"]["costUnits"], name: string, meaning: string])[] = [
    ["cacheRead", "Cache reads", "tokens that the provider’s cache served"],
    ["new", "New content", "tokens that no earlier request contained; includes cache writes"],
    [
      "expired",
      "Expired cache",
      "cache misses: the call came after the cache’s lifetime, so the prompt was read again",
    ],
    ["ownRewrite", "Rewrites by Tare", "cache misses after Tare rewrote the prompt; includes its summaries"],
    ["changed", "Changes by the client", "cache misses after other tools, another model or edited messages"],
    ["lost", "Early cache loss", "cache misses within the cache’s lifetime"],
    ["output", "Output", "generated tokens"],
    ["serverSide", "Server tools", "the provider’s own tools, and model calls inside a call"],
    ["keepAlive", "Cache keep-alive", "requests that renew the provider’s cache during pauses"],
  ];

export function SpentTable({ totals }: { readonly totals: UsageTotals }): JSX.Element {
  const unit = isPriced(totals) ? "Usd" : "CostUnits";
  const whole = isPriced(totals) ? totals.usd : totals.costUnits;
  return (
    <NumbersTable
      label="Cost by cause"
      columns={[
        ["Cause", ([part, name]) => <span class={`swatch ${part}`}>{name}</span>],
        [
          isPriced(totals) ? "US dollars" : "Cost units",
          ([part]) =>
            isPriced(totals) ? dollars(totals[`${part}Usd`]) : formatCount(totals[`${part}CostUnits`]),
        ],
        ["Share", ([part]) => share(totals[`${part}${unit}`], whole)],
        ["Meaning", ([, , meaning]) => meaning, "text"],
      ]}
      rows={PARTS.filter(([part]) => totals[`${part}${unit}`] > 0)}
    />
  );
}

/** Explanation of cost units. */
export const COST_UNIT = "One cost unit is the price of one uncached input token; output isn’t included.";

export function Units({ pricesDate }: { readonly pricesDate?: string | undefined }): JSX.Element {
  return (
    <p class="note">
      {COST_UNIT} Dollars include output, and only calls whose price is known
      {pricesDate === undefined ? "." : `: reported, set, or the list price of ${pricesDate}.`}
    </p>
  );
}
