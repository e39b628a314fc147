import { firstWords, type Message, type Rewrite } from "@tare/messages";
import type { ForkableSession, Pin, SessionView } from "@tare/planner";
import type { CallReport, SeenConversation } from "@tare/conversation/report";
import type { ChainNode } from "./chain_index.ts";
import type { HiddenPlace } from "./hidden_items.ts";
import type { LayeredArchive } from "./layered_archive.ts";
import type { Followed } from "../turn.ts";
import { type Account, NO_CALLS, type Totals } from "../ledger.ts";
import type { WireItem } from "@tare/wire";

/** A call by which the client had the conversation summed up. */
export interface Compaction
  extends Pick<Totals, "promptTokens" | "cachedTokens" | "outputTokens" | "tokenUnits" | "usd"> {
  /** When it was answered, in milliseconds since the epoch. */
  readonly atMs: number;
}

/** A text from which a client may go on with a new history. */
export interface Summary {
  /** The longest pieces of it. */
  readonly pieces: readonly string[];
  /** The compactions that made it and aren't counted yet, because nobody said that they were some. */
  readonly uncounted: readonly Compaction[];
  /** Whether the client said that it is a summary. */
  readonly isSaid: boolean;
}

/** A change of what the model sees, and when it was made in milliseconds since the epoch. */
export interface SessionRewrite extends Rewrite {
  readonly atMs: number;
}

/** What a session's prompts are planned by, as its first request says it. */
export interface SessionBasis {
  /** The model that was asked. */
  readonly model: string;
  /** How long prompts are to be cached, in milliseconds. Absent: that wasn't asked for. */
  readonly ttlMs?: number;
}

/** A response of a session that a client may follow. */
export interface SessionResponse extends Followed {
  /** The id by which the client knows it. */
  readonly id: string;
}

/** What is in the store of a session. */
export interface Kept {
  /** How often it was saved when it was last read or saved here; 0: never. */
  readonly version: number;
  /** References of the texts that are there. */
  readonly refs: Set<string>;
  /** The session of which it is a fork, if it wasn't saved yet. */
  readonly parent?: string;
  /** Names of the ends that its history had when it was saved, the newest first. */
  readonly ends: readonly string[];
}

/** Nothing is there yet. */
export function neverSaved(): Kept {
  return { version: 0, refs: new Set(), ends: [] };
}

/** A conversation that passes through the gateway. */
export interface GatewaySession extends Account {
  readonly id: string;
  /** Counts the sessions of a gateway, forks included. */
  readonly number: number;
  /** What keeps it apart from histories that it must never meet. */
  readonly scope: string;
  /** Who asks, if its conversations may go on under another scope. */
  readonly client: string | undefined;
  /** Name of its protocol. */
  readonly protocol: string;
  readonly basis: SessionBasis;
  kept: Kept;
  /** When its first request came, in milliseconds since the epoch. */
  readonly startedMs: number;
  /** The client's name for it, in its scope. */
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
  /** Token units that it has saved so far; zero where the policy keeps no ledger. */
  savedTokenUnits: number;
  /** How many times in a row the upstream refused what the gateway made of a request, and took the client's own. */
  refusals: number;
  /** Whether it is left as it is from then on. */
  isReverted: boolean;
  /** What the last call that succeeded showed; of a session that was stored the hashes of messages that aren't lines. */
  shown: readonly (Message | number)[];
  /** The newest responses that its client may follow, the oldest first. */
  responses: readonly SessionResponse[];
  /** What the newest turn that was planned shows of what history. */
  seen: Pick<SeenConversation, "history" | "view"> | undefined;
  /** What was asked for of single messages. */
  pins: readonly Pin[];
  /** What the user said first, in one line. */
  title: string;
  /** The newest item of the client's history. */
  tip: ChainNode;
  /** Bytes of that history: the planner keeps what it was last shown. */
  historyBytes: number;
  /** When its newest request came, in milliseconds since the epoch. */
  lastMs: number;
  /** The model that was asked last. */
  model: string;
  /** How many items of instructions its history begins with. */
  heads: number;
  /** A line of what the user said first; nothing of one too short to tell it from others. */
  opening: string | undefined;
  /** Whether its turns have tools. */
  hasTools: boolean;
  /** Whether its history has answers of a model. */
  isAnswered: boolean;
  /** What a model said in answer to what was no turn: the client may go on from it with a new history. */
  summary: Summary | undefined;
  /** The newest changes of what its model sees, the oldest first. */
  rewrites: readonly SessionRewrite[];
  /** Of these, those for a call that hasn't succeeded yet. */
  unsent: readonly Rewrite[];
  /** The newest calls that succeeded, the oldest first. */
  calls: readonly CallReport[];
  /** The newest compactions of its client, the oldest first. */
  compactions: readonly Compaction[];
  /** The newest view, as far as its figures go. */
  figures: Pick<SessionView, "promptTokens" | "saved"> | undefined;
}

/** What a session takes beside what grows, in bytes. */
const SESSION_BYTES = 4_096;

/** What an item of a history takes: its place in the tree of histories, what was sent of it, what left of it. */
const ITEM_BYTES = 1_024;

/** What a call that is remembered takes. */
const CALL_BYTES = 1_024;

/** Most bytes of memory that a session can take; what it shares with others counts for each of them. */
export function bytesOfSession({ archive, calls, hidden, tip, historyBytes }: GatewaySession): number {
  const items = hidden.flatMap(({ items }) => items);
  // As bytes, and as text of the message that was read of them.
  const hiddenBytes = items.reduce((sum, { bytes }) => sum + 3 * (bytes?.length ?? 0), 0);
  const itemBytes = ITEM_BYTES * (tip.depth + items.length);
  return SESSION_BYTES + CALL_BYTES * calls.length + itemBytes + 2 * historyBytes + hiddenBytes +
    archive.bytes;
}

/** What a session has that hasn't made a call yet. */
export const NOTHING_YET: Pick<
  GatewaySession,
  "totals" | "rewrites" | "unsent" | "calls" | "compactions" | "figures" | "seen" | "responses"
> = {
  totals: NO_CALLS,
  rewrites: [],
  unsent: [],
  calls: [],
  compactions: [],
  figures: undefined,
  seen: undefined,
  responses: [],
};

/** What the user said first, in one line, behind what clients put in front of it. */
export function titleOf(items: readonly WireItem[]): string {
  const messages = items.flatMap(({ parts }) => parts.map(({ message }) => message));
  const said = messages.find(({ role }) => role === "user")?.content;
  return firstWords(typeof said === "string" ? said : said?.slice(-1));
}
