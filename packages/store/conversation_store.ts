/** A conversation that passed through, as it is kept. */
export interface StoredConversation {
  readonly id: string;
  /** Counts how often it was saved, from 1. */
  readonly version: number;
  /** All that is known of it: any JSON value. */
  readonly value: unknown;
}

/** A conversation that has a name that was asked for. */
export interface FoundConversation extends Omit<StoredConversation, "value"> {
  /** Of the names that were asked for, those that it has. */
  readonly names: readonly string[];
}

/** What is saved of a conversation, in place of what was there. */
export interface SavedConversation extends Omit<StoredConversation, "version"> {
  /** What it can be found by, each at most 200 characters. Several conversations may have the same name. */
  readonly names: readonly string[];
  /** Texts that its archive gets, under their `archiveRef`; those that it has stay. Default: none. */
  readonly texts?: readonly { readonly ref: string; readonly content: string }[];
}

/**
 * Where conversations are kept that others lead and this process only looks after, so that the next process, or another
 * one beside it, goes on with them. Whoever saves last is right: nothing here is worth waiting for.
 */
export interface ConversationStore {
  /** Whether other openings of the store save too, so that what this one remembers may be old. */
  readonly isShared: boolean;
  /** The conversations that have one of these names, those saved last in front. Default limit: 16. */
  find(names: readonly string[], limit?: number): Promise<readonly FoundConversation[]>;
  /** A conversation, if it is there. */
  load(id: string): Promise<StoredConversation | undefined>;
  /** Saves a conversation, and gives its version then. */
  save(conversation: SavedConversation): Promise<number>;
  /** A text of a conversation's archive. */
  text(id: string, ref: string): Promise<string | undefined>;
  /** Forgets those saved last before `beforeMs`, and the oldest beyond `maxBytes` of values and texts. Gives how many. */
  expire(limits: { readonly beforeMs: number; readonly maxBytes: number }): Promise<number>;
}
