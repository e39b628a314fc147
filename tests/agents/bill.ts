import { profileNamed } from "@tare/planner";
import type { CallUsage } from "./protocols/protocol.ts";

export type Prices = "openai" | "anthropic-5m";

/**
 * Returns a prompt's cost in uncached input tokens. It shares only prices with the ledger, to detect errors
 * of its arithmetic.
 */
export function billOf({ prompt, cached, written = 0, hourWritten = 0 }: CallUsage, prices: Prices): number {
  const { read, writes = { short: 1, hour: 1 } } = profileNamed(prices);
  return read * cached + writes.hour * hourWritten + writes.short * (written - hourWritten) +
    (prompt - cached - written);
}
