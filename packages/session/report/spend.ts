import { dayAndModel, dayOf, type Days, FIRST_DAY, LAST_DAY, type Sums, sumsOf } from "./calls.ts";
import type { Store } from "../store/port.ts";

/** A session whose calls have cost something. */
export interface SpendingSession {
  readonly id: string;
  /** Whose loop leads it: ours, or that of somebody else, whose calls pass through. */
  readonly kind: "agent" | "gateway";
  /** What the user said first, in one line. */
  readonly title: string;
  /** The model that was asked last. */
  readonly model: string;
  /** Name of the program whose loop it is: `tare` of our own; null where it isn't known. */
  readonly agent: string | null;
  readonly days: Days;
}

/** What spending may be cut by. */
export const SPEND_BY = ["day", "model", "session", "agent"] as const;

/** How spending is cut. */
export interface SpendOptions {
  readonly by: typeof SPEND_BY[number];
  /** First and last day, by UTC, such as `2026-01-31`. Default: any. */
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  /** Most rows. Default: 100. */
  readonly limit?: number | undefined;
}

/** What one day, model, session or agent came to. */
export interface SpendRow extends Sums {
  /** The day, the model, the agent's name or the session's id; empty where it is unknown. */
  readonly key: string;
  /** The session, of rows by session. */
  readonly session: Omit<SpendingSession, "days" | "id"> | null;
}

/** What sessions have cost. */
export interface SpendingReport {
  /** What all came to, those included that have no row here. */
  readonly all: Sums;
  /** Days the newest first; others the dearest first, by dollars and then by token units. */
  readonly rows: readonly SpendRow[];
  readonly hasMore: boolean;
}

/** Returns what today's cache keep-alive requests have cost in US dollars, as far as a store has kept it. @throws {StoreError} */
export async function pingUsdOfToday(store: Pick<Store, "readSums" | "now">): Promise<number> {
  const day = dayOf(store.now());
  const found = await store.readSums({ from: day, to: day });
  return sumOf(found.map(({ sums }) => sums), "pingUsd");
}

/** Returns what sessions have cost, by day, model, session or agent. */
export function reportSpend(
  sessions: Iterable<SpendingSession>,
  { by, from = FIRST_DAY, to = LAST_DAY, limit = 100 }: SpendOptions,
): SpendingReport {
  type Found = {
    readonly session: Omit<SpendingSession, "days" | "id"> | null;
    readonly days: Partial<Sums>[];
  };
  const found = new Map<string, Found>();
  for (const { days, id, ...session } of sessions) {
    for (const [name, sums] of Object.entries(days)) {
      const { day, model } = dayAndModel(name);
      if (day < from || day > to) continue;
      const key = { day, model, session: id, agent: session.agent ?? "" }[by];
      const row = found.get(key) ?? { session: by === "session" ? session : null, days: [] };
      row.days.push(sums);
      found.set(key, row);
    }
  }
  const rows = Array.from(found, ([key, { session, days }]) => ({
    ...{ key, session, days },
    usd: sumOf(days, "usd"),
    tokenUnits: sumOf(days, "tokenUnits"),
  }));
  if (by === "day") rows.sort((a, b) => a.key < b.key ? 1 : -1);
  else rows.sort(dearest);
  return {
    all: sumsOf.all(rows.flatMap(({ days }) => days)),
    rows: rows.slice(0, limit).map(({ key, session, days }) => ({ ...sumsOf.all(days), key, session })),
    hasMore: rows.length > limit,
  };
}

function sumOf(all: readonly Partial<Sums>[], name: keyof Sums): number {
  return all.reduce((sum, sums) => sum + (sums[name] ?? 0), 0);
}

/** Sorts the dearest first, by dollars and then by token units. */
export function dearest(
  a: Pick<Sums, "usd" | "tokenUnits">,
  b: Pick<Sums, "usd" | "tokenUnits">,
): number {
  return b.usd - a.usd || b.tokenUnits - a.tokenUnits;
}
