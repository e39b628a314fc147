/**
 * How often a conversation that is idle is kept warm at most, by the chances that it comes back: as long as
 *
 *     V(k) = max(0, −read + (write − read) · loss · q(k) + (1 − q(k)) · V(k + 1))
 *
 * is above 0. Ping k costs reading the prefix once; if the conversation comes back before it expires again, with the
 * chance q(k), writing is saved of what a lapse would have lost, and if not the next ping may still win. An optimal
 * stopping rule by backward induction (Bellman 1957).
 *
 * @param chances Of each ping in turn, the chance that the conversation comes back within its time; behind the last, none.
 * @param prices Of a token that the cache reads and of one that is written; `loss` is the share of the prefix that a lapse
 * would have to be written again.
 */
export function pingsWorth(
  chances: readonly number[],
  { read, write, loss }: { readonly read: number; readonly write: number; readonly loss: number },
): number {
  let [value, pings] = [0, 0];
  for (let k = chances.length - 1; k >= 0; k--) {
    const chance = chances[k] ?? 0;
    value = Math.max(0, (write - read) * loss * chance - read + (1 - chance) * value);
    // What isn't worth it ends all that would come behind it.
    pings = value > 0 ? pings + 1 : 0;
  }
  return pings;
}
