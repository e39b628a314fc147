import type { Message } from "@tare/messages";
import type { Edit, Planner } from "@tare/planner";
import type { Archive } from "@tare/prune";
import type { ChainNode } from "./chain_index.ts";

/** A message of the upstream's prompt, and how it is written. */
export interface Piece {
  /** What it is to the planner. */
  readonly message: Message;
  /** Its JSON; nothing for what stands before the list. */
  readonly bytes?: Uint8Array<ArrayBuffer>;
}

/** What the upstream sees at a place of the client's history that the client doesn't know of. */
export interface HiddenPieces {
  /** Length of the client's history when they came. */
  readonly after: number;
  /** Names the message of the client before which they stand. */
  readonly anchor: string;
  /** Whether they stand in its place. */
  readonly replaces: boolean;
  /** They. */
  readonly pieces: readonly Piece[];
}

/** Originals of what left a session's prompts, shared by the sessions that forked from it. */
export interface GatewayArchive extends Archive {
  /** UTF-16 code units that it keeps. */
  readonly chars: number;
}

/** A conversation that passes through the gateway. */
export interface GatewaySession {
  /** Name in headers. */
  readonly id: string;
  /** Whether it is left as it is, to compare with. */
  readonly control: boolean;
  /** Originals of what left. */
  readonly archive: GatewayArchive;
  /** Decides what leaves. */
  planner: Planner;
  /** What has left, at places of the upstream's prompt as it would be without edits. */
  edits: readonly Edit[];
  /** Recalls and the like. */
  hidden: readonly HiddenPieces[];
  /** Whether the recall tool is offered. */
  recall: boolean;
  /** How many times it was rewritten. */
  epoch: number;
  /** Whether the upstream refused what the gateway made of a request, so that the session is left as it is from then on. */
  reverted: boolean;
  /** Requests plan one after the other. */
  planning: Promise<unknown>;
  /** The newest message of the client's history. */
  tip: ChainNode;
}
