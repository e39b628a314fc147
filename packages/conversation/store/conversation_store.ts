/** A conversation that passed through, as it is kept. */
export interface StoredConversation {
  readonly id: string;
  /** Counts how often it was saved, from 1. */
  readonly version: number;
  /** All that is known of it: any JSON value. */
  readonly value: unknown;
}

/** A conversation that has a name that was asked for. */
export type FoundConversation = Omit<StoredConversation, "value">;

/** What is saved of a conversation, in place of what was there. */
export interface SavedConversation extends Omit<StoredConversation, "version"> {
  /** What it can be found by, each at most 200 characters. Several conversations may have the same name. */
  readonly names: readonly string[];
  /** Texts that it gets, under their `archiveRef`; those that it has stay. Default: none. */
  readonly texts?: readonly ConversationText[];
  /** A conversation whose texts it gets too, those that are there now. Default: none. */
  readonly parent?: string;
}

/** A text that belongs to a conversation. */
export interface ConversationText {
  /** Its `archiveRef`. */
  readonly ref: string;
  readonly content: string;
}

/** How long conversations are kept, and how much of them. */
export interface ConversationLimits {
  /** Those saved last before this time go, in milliseconds since the epoch. */
  readonly beforeMs: number;
  /** Those saved longest ago go until values and texts take no more than this together, as they are stored. */
  readonly maxBytes: number;
}

/**
 * Where conversations are kept that others lead and this process only looks after, so that the next process, or another
 * one beside it, goes on with them. Whoever saves last is right: nothing here is worth waiting for. All reject with a
 * `StoreError` if the store fails.
 */
export interface ConversationStore {
  /** Whether other openings of the store save too, so that what this one remembers may be old. */
  readonly isShared: boolean;
  /**
   * The conversations that have one of these names, those with the first of them in front, and of those with the same the
   * one saved last. Default limit: 16.
   */
  find(names: readonly string[], limit?: number): Promise<readonly FoundConversation[]>;
  /** A conversation, if it is there. */
  load(id: string): Promise<StoredConversation | undefined>;
  /** Saves a conversation, all or nothing, and gives its version then: 1 if it wasn't there. */
  save(conversation: SavedConversation): Promise<number>;
  /** Texts of a conversation by their references, as far as it has them. */
  texts(id: string, refs: readonly string[]): Promise<ReadonlyMap<string, string>>;
  /** Forgets conversations beyond these limits, and tells how many. */
  expire(limits: ConversationLimits): Promise<number>;
}
