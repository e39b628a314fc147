import { MODELS_DATE } from "@tare/planner/internal";
import {
  dayAndModel,
  dayOf,
  type Days,
  FIRST_DAY,
  LAST_DAY,
  type UsageTotals,
  usageTotals,
} from "./calls.ts";
import type { Store } from "../store/port.ts";

/** A session with costs. */
export interface SpendingSession {
  readonly id: string;
  /** Owner of its loop: Tare's agent, or a client of the gateway. */
  readonly kind: "agent" | "gateway";
  /** First line of the user's first message. */
  readonly title: string;
  readonly model: string;
  /** Name of the client program, `tare` of Tare's agent; null if unknown. */
  readonly agent: string | null;
  readonly days: Days;
}

/** Groupings of spending. */
export const SPEND_BY = ["day", "model", "session", "agent", "day_agent"] as const;

/** Options of a spending report. */
export interface SpendOptions {
  readonly by: typeof SPEND_BY[number];
  /** First and last UTC day, such as `2026-01-31`. Default: unlimited. */
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  /** Most rows. Default: 100. */
  readonly limit?: number | undefined;
}

/** Totals of a group. */
export interface SpendRow extends UsageTotals {
  /** The day, model, agent or session id, empty if unknown; of `day_agent`, such as `2026-01-31 tare`. */
  readonly key: string;
  readonly session: Omit<SpendingSession, "days" | "id"> | null;
}

/** A spending report. */
export interface SpendingReport {
  readonly all: UsageTotals;
  /** Days the newest first; others the most expensive first, by dollars, then cost units. */
  readonly rows: readonly SpendRow[];
  readonly hasMore: boolean;
  /** Date of the list prices, such as `2026-01-31`. */
  readonly pricesDate: string;
}

/** Returns today's stored cost of keep-alive requests in US dollars. @throws {StoreError} */
export async function keepAliveUsdOfToday(store: Pick<Store, "readTotals" | "now">): Promise<number> {
  const day = dayOf(store.now());
  const found = await store.readTotals({ from: day, to: day });
  return sumOf(found.map(({ totals }) => totals), "keepAliveUsd");
}

/** Returns the costs of sessions by day, model, session or agent. */
export function reportSpend(
  sessions: Iterable<SpendingSession>,
  { by, from = FIRST_DAY, to = LAST_DAY, limit = 100 }: SpendOptions,
): SpendingReport {
  type Found = {
    readonly session: Omit<SpendingSession, "days" | "id"> | null;
    readonly days: Partial<UsageTotals>[];
  };
  const found = new Map<string, Found>();
  for (const { days, id, ...session } of sessions) {
    for (const [name, totals] of Object.entries(days)) {
      const { day, model } = dayAndModel(name);
      if (day < from || day > to) continue;
      const agent = session.agent ?? "";
      const key = { day, model, session: id, agent, day_agent: `${day} ${agent}`.trimEnd() }[by];
      const row = found.get(key) ?? { session: by === "session" ? session : null, days: [] };
      row.days.push(totals);
      found.set(key, row);
    }
  }
  const rows = Array.from(found, ([key, { session, days }]) => ({
    ...{ key, session, days },
    usd: sumOf(days, "usd"),
    costUnits: sumOf(days, "costUnits"),
  }));
  if (by === "day" || by === "day_agent") rows.sort((a, b) => a.key < b.key ? 1 : -1);
  else rows.sort(byCostDescending);
  return {
    all: usageTotals.all(rows.flatMap(({ days }) => days)),
    rows: rows.slice(0, limit).map(({ key, session, days }) => ({ ...usageTotals.all(days), key, session })),
    hasMore: rows.length > limit,
    pricesDate: MODELS_DATE,
  };
}

function sumOf(all: readonly Partial<UsageTotals>[], name: keyof UsageTotals): number {
  return all.reduce((sum, totals) => sum + (totals[name] ?? 0), 0);
}

/** Compares rows, the most expensive first, by dollars, then cost units. */
export function byCostDescending(
  a: Pick<UsageTotals, "usd" | "costUnits">,
  b: Pick<UsageTotals, "usd" | "costUnits">,
): number {
  return b.usd - a.usd || b.costUnits - a.costUnits;
}
