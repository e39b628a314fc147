import { profileNamed } from "@tare/planner";
import type { CallUsage } from "./protocols/protocol.ts";

/** What prompts of a kind of provider cost, in the price of one uncached input token. */
export type Prices = "openai" | "anthropic-5m";

/**
 * What a prompt costs, in the price of one uncached input token. Nothing of it is the ledger's but the prices: an error of
 * the ledger's arithmetic would otherwise stand on both sides of the comparison.
 */
export function billOf({ prompt, cached, written = 0, hourWritten = 0 }: CallUsage, prices: Prices): number {
  const { read, writes = { short: 1, hour: 1 } } = profileNamed(prices);
  return read * cached + writes.hour * hourWritten + writes.short * (written - hourWritten) +
    (prompt - cached - written);
}
