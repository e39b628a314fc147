import { profileNamed } from "@tare/planner";
import type { CallUsage } from "./protocols/protocol.ts";

export type Prices = "openai" | "anthropic-5m";

/**
 * Returns the cost of a prompt, in units of one uncached input token. It shares only the prices with the
 * ledger, so that errors of the ledger's arithmetic show.
 */
export function billOf({ prompt, cached, written = 0, hourWritten = 0 }: CallUsage, prices: Prices): number {
  const { read, writes = { short: 1, hour: 1 } } = profileNamed(prices);
  return read * cached + writes.hour * hourWritten + writes.short * (written - hourWritten) +
    (prompt - cached - written);
}
