import { play, type Played, type PlayOptions } from "./play.ts";
import type { MakePolicy } from "./policy.ts";
import type { Recording } from "./recording.ts";

/** A session under a policy: with repairs and, to see what forgetting alone saves, without. */
export interface PlayedPair {
  readonly open: Played;
  readonly closed: Played;
}

/** Plays a session without repairs and, if it needed any, with them. */
export async function playPair(
  recording: Recording,
  make: MakePolicy,
  options: Omit<PlayOptions, "repairs">,
): Promise<PlayedPair> {
  const open = await play(recording, make, { ...options, repairs: false });
  const closed = open.repairs === 0 ? open : await play(recording, make, { ...options, repairs: true });
  return { open, closed };
}

/** What a session cost if each repair is paid so many times (κ), in the price of one uncached input token. */
export function pairCost({ closed }: PlayedPair, times: number): number {
  return closed.cost + times * closed.repairCost;
}
