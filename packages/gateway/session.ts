import type { ForkableSession } from "@tare/planner";
import type { ChainNode } from "./chain_index.ts";
import type { HiddenPlace } from "./hidden_items.ts";
import type { LayeredArchive } from "./layered_archive.ts";

/** A conversation that passes through the gateway. */
export interface GatewaySession {
  readonly id: string;
  /** The client's name for it, with the scope in which it holds. */
  readonly name: string | undefined;
  /** Whether it is left as it is, to compare with. */
  readonly control: boolean;
  /** Originals of what left. */
  readonly archive: LayeredArchive;
  /** Decides what leaves the upstream's prompt. */
  readonly prompts: ForkableSession;
  /** What only the upstream knows of. */
  hidden: readonly HiddenPlace[];
  /** How many times its prompt was rewritten. */
  epoch: number;
  /** What it has saved so far, in the price of one uncached input token; zero where the policy keeps no ledger. */
  saved: number;
  /** Whether the upstream refused what the gateway made of a request, so that it is left as it is from then on. */
  isReverted: boolean;
  /** The newest item of the client's history. */
  tip: ChainNode;
  /** Bytes of that history: the planner keeps what it was last shown. */
  historyBytes: number;
}

/** What a session takes beside what grows, in bytes. */
const SESSION_BYTES = 4_096;

/** What an item of a history takes: its place in the tree of histories, what was sent of it, what left of it. */
const ITEM_BYTES = 1_024;

/** Most bytes of memory that a session can take; what it shares with others counts for each of them. */
export function bytesOfSession({ archive, hidden, tip, historyBytes }: GatewaySession): number {
  const items = hidden.flatMap(({ items }) => items);
  // As bytes, and as text of the message that was read of them.
  const hiddenBytes = items.reduce((sum, { bytes }) => sum + 3 * (bytes?.length ?? 0), 0);
  const itemBytes = ITEM_BYTES * (tip.depth + items.length);
  return SESSION_BYTES + itemBytes + 2 * historyBytes + hiddenBytes + archive.bytes;
}
