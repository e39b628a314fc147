import { type Days, sumsOf } from "./report/mod.ts";
import type { Store } from "./store/port.ts";

/** Number of the newest sessions that are read. */
const PINGED_SESSIONS = 1_000;

/** Returns the cost of today's keep-alive requests in US dollars, as far as kept sessions have recorded it. */
export async function pingUsdOfToday(store: Store): Promise<number> {
  const all = (await store.listSessions({ limit: PINGED_SESSIONS })).map(({ totals }) =>
    (totals as { readonly days?: Days } | undefined)?.days ?? {}
  );
  return sumsOf.today(all, store.now()).pingUsd;
}
