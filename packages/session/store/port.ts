import type { Archive } from "@tare/prune";

/** The immutable record of a session. */
export interface SessionRecord {
  readonly id: string;
  /** Owner of its loop: Tare's agent, or a gateway's client. */
  readonly kind: "agent" | "gateway";
  readonly createdAtMs: number;
  readonly settings: unknown;
  /** The session that it was forked from. Default: none. */
  readonly parent?: string;
  /** Name of its key. Default: the owner's. */
  readonly by?: string | undefined;
}

/** A session in a list, complete for one query. */
export interface ListedSession extends SessionRecord {
  readonly lastEvent: number;
  readonly totals?: unknown;
  readonly title?: unknown;
  /** Default: no. */
  readonly isHeld?: boolean;
}

/** An event: any JSON object with a type. */
export interface TypedEvent extends Readonly<Record<string, unknown>> {
  readonly type: string;
}

/** A numbered event. */
export interface StoredEvent {
  /** Position in the session, from 1, without gaps. */
  readonly number: number;
  readonly event: TypedEvent;
}

/** A small JSON document. */
export interface StoredDocument {
  readonly kind: string;
  readonly id: string;
  /** The session with which it is deleted. Absent: none. */
  readonly sessionId?: string;
  readonly value: unknown;
}

/** A message to an external receiver. Times are by the clock of {@linkcode Store.now}. */
export interface StoredDelivery {
  readonly id: string;
  readonly receiver: string;
  readonly sessionId?: string;
  /** Content and outcome so far: any JSON value. */
  readonly value: unknown;
  readonly createdAtMs: number;
  /** Time of the next attempt, or of the claim's expiry. Absent: it isn't due. */
  readonly dueAtMs?: number;
  readonly claims: number;
}

/** Totals of the sessions of a kind and key. */
export interface StoredTotalsRow {
  readonly kind: SessionRecord["kind"];
  readonly by?: string | undefined;
  /** UTC day, such as `2026-01-31`; empty for totals of all days. */
  readonly day: string;
  /** Further grouping, such as a model, of few values. */
  readonly about: string;
  /** By name. Missing totals are zero. */
  readonly totals: Readonly<Record<string, number>>;
}

/** The name of an idempotency key. */
export interface KeyName {
  readonly scope: string;
  readonly key: string;
}

/** A request with an idempotency key. */
export interface KeyRequest extends KeyName {
  readonly bodyHash: string;
  /** Whether effect and response are committed together. Default: no. */
  readonly isAtomic?: boolean;
}

/**
 * State of an idempotency key. The caller acts on `new`, and on `interrupted` after checking for earlier effects; then
 * it owns the key, to complete or to release.
 *
 * - `new`: unused, or an earlier process ended without effect (`isAtomic`).
 * - `interrupted`: an earlier process ended with unknown effect.
 * - `running`: this process is acting on it.
 * - `done`: completed with this response.
 * - `mismatch`: used with another body.
 */
export type KeyClaim =
  | { readonly state: "new" | "interrupted" | "running" | "mismatch" }
  | { readonly state: "done"; readonly response: unknown };

/** Filter of listed sessions, the newest first. */
export interface SessionListing {
  readonly kind?: SessionRecord["kind"] | undefined;
  /** Default: 100. */
  readonly limit?: number;
  /** Start of the list. Default: from the newest. */
  readonly after?: string | undefined;
  /** Text in the title, case-insensitive. Default: any title. */
  readonly search?: string | undefined;
  /** Default: every key. */
  readonly by?: string | undefined;
  /** Whether sessions with an existing parent are listed. Default: yes. */
  readonly forks?: boolean | undefined;
}

/** Filter of totals: days `from` to `to`, inclusive. */
export interface TotalsQuery {
  readonly from: string;
  readonly to: string;
  readonly kind?: SessionRecord["kind"];
  readonly by?: string | undefined;
}

/** Filter of idle sessions. */
export interface IdleQuery {
  readonly kind: SessionRecord["kind"];
  readonly beforeMs: number;
  readonly limit: number;
}

/** A session found by a name. */
export interface NamedSession {
  readonly id: string;
  /** Fencing number of its newest hold; 0 if the store isn't shared. */
  readonly fence: number;
}

/** Limits beyond which sessions expire. */
export interface SessionLimits {
  readonly kind: SessionRecord["kind"];
  /** Sessions without activity since this time expire, to a minute. */
  readonly beforeMs: number;
  /** Most bytes of sessions: those idle longest expire. Shared texts count for each. */
  readonly maxBytes: number;
}

/** Filter of events. */
export interface EventsQuery {
  /** Number of the event after which they begin. Default: 0. */
  readonly after?: number | undefined;
  readonly types?: readonly string[] | undefined;
  readonly limit?: number | undefined;
}

/** A session with work to do. */
export interface WaitingSession {
  readonly id: string;
  readonly value: unknown;
  /** Default: no. */
  readonly isHeld?: boolean;
}

/** Most deliveries per receiver. */
export interface ReceiverLimit {
  readonly receiver: string;
  readonly limit: number;
}

/** Options of a claim. */
export interface DeliveryRequest {
  readonly receivers: readonly ReceiverLimit[];
  readonly limit: number;
  readonly forMs: number;
}

/** Claimed deliveries. */
export interface DeliveryClaim {
  readonly claimed: readonly StoredDelivery[];
  /** Milliseconds until another delivery to these receivers is due, 0 if one is. Absent: none. */
  readonly nextInMs?: number;
}

/** Range of listed deliveries, the newest first. */
export interface DeliveryListing {
  /** Default: 100. */
  readonly limit?: number | undefined;
  /** End of the list. Default: from the newest. */
  readonly before?: string | undefined;
}

/** Limits beyond which a receiver's deliveries are deleted. */
export interface DeliveryLimits {
  readonly receiver: string;
  readonly olderThanMs: number;
  readonly keep: number;
}

/** A copy of a store. */
export interface StoreCopy {
  readonly bytes: number;
  /** To be read completely or cancelled: until then the copy takes disk space. */
  readonly stream: ReadableStream<Uint8Array<ArrayBuffer>>;
}

/** A change in a commit. */
export type StoreRecord =
  /**
   * A new session. Its archive includes that of its parent, or else of `archiveOf`.
   *
   * @throws if the id is taken or the parent missing.
   */
  | ({ readonly type: "session"; readonly archiveOf?: string } & SessionRecord)
  /**
   * Events after the session's last, which must have the number `after`.
   *
   * @throws {StoreError} `conflict` if it has another number.
   */
  | {
    readonly type: "events";
    readonly sessionId: string;
    readonly after: number;
    readonly events: readonly { readonly type: string }[];
  }
  | { readonly type: "state"; readonly sessionId: string; readonly name: string; readonly value: unknown }
  /** Replaces the session's names, each at most 200 characters, which need not be unique. */
  | { readonly type: "names"; readonly sessionId: string; readonly names: readonly string[] }
  /** Adds to the totals of the session's kind and key. */
  | {
    readonly type: "totals";
    readonly sessionId: string;
    readonly added: readonly Pick<StoredTotalsRow, "day" | "about" | "totals">[];
  }
  | { readonly type: "archive"; readonly sessionId: string; readonly ref: string; readonly content: string }
  /**
   * Sets the document of its kind and id.
   *
   * @throws {StoreError} `conflict` if the stored one is neither `replaces` nor equal to this one.
   */
  | ({
    readonly type: "document";
    /** The stored document as it was read; `null` if there is none. Default: any or none. */
    readonly replaces?: StoredDocument | null;
  } & StoredDocument)
  | { readonly type: "delete_document"; readonly kind: string; readonly id: string }
  /**
   * Completes a claimed key. With a `sessionId` the response is deleted with the session.
   *
   * @throws if the key isn't claimed.
   */
  | (
    & { readonly type: "response"; readonly response: unknown; readonly sessionId?: string }
    & KeyName
  )
  /** Sets the delivery of its id, due after a delay in milliseconds, and voids claims of an earlier one. */
  | (
    & { readonly type: "delivery"; readonly dueInMs: number }
    & Pick<StoredDelivery, "id" | "receiver" | "sessionId" | "value">
  )
  /**
   * The outcome of a claimed delivery, and the delay until it is due again. Default: it isn't. Ignored if it was
   * deleted or claimed again.
   */
  | {
    readonly type: "delivery_attempt";
    readonly id: string;
    /** {@linkcode StoredDelivery.claims} as of the claim. */
    readonly claim: number;
    readonly value: unknown;
    readonly dueInMs?: number;
  }
  | { readonly type: "delete_deliveries"; readonly receiver: string }
  /** Answers a request to the holder of a session. @throws if the request was withdrawn or answered. */
  | { readonly type: "answer"; readonly requestId: string; readonly answer: unknown };

/**
 * A store of sessions. A write survives the process once its promise resolves; if it rejects, nothing was written.
 * Calls reject with a `StoreError` if the store fails, and with an `Error` if the session doesn't exist, except
 * `getSession` and `deleteSession`.
 */
export interface Store {
  /** Sharing with other openings. Absent: only this process can open it. */
  readonly shared?: SharedStore;
  /** Known data loss as a sentence. Absent: none. */
  readonly damage?: string | undefined;
  /** Returns the time in milliseconds since the epoch, by the clock that all openings share. */
  now(): number;
  /** Writes all records in order, atomically. */
  commit(records: readonly StoreRecord[]): Promise<void>;
  getSession(id: string): Promise<SessionRecord | undefined>;
  listSessions(listing?: SessionListing): Promise<ListedSession[]>;
  /** Returns totals of these days, including deleted sessions. Items of the same day and grouping must be added. */
  readTotals(which: TotalsQuery): Promise<StoredTotalsRow[]>;
  countSessions(kind?: SessionRecord["kind"]): Promise<number>;
  /** Returns ids of sessions without commits since `beforeMs`, to a minute; the longest idle first. */
  idleSessions(which: IdleQuery): Promise<string[]>;
  /**
   * Returns the sessions that have one of these names, ordered by name, then by the time of naming, newest
   * first. Default limit: 16.
   */
  findByName(names: readonly string[], limit?: number): Promise<NamedSession[]>;
  /**
   * Deletes a session and everything that only it references; false if there is none. Resolves once its space is free.
   */
  deleteSession(id: string): Promise<boolean>;
  /** Deletes sessions beyond these limits in batches, except held ones. Returns their number. */
  expireSessions(limits: SessionLimits): Promise<number>;
  readEvents(id: string, which?: EventsQuery): Promise<StoredEvent[]>;
  lastEvent(id: string): Promise<number>;
  readState(id: string, name: string): Promise<unknown>;
  /** Returns the sessions whose state of this name exists and isn't `null`, in any order. */
  sessionsWith(name: "turn" | "pendingApproval" | "queue"): Promise<WaitingSession[]>;
  getDocument(kind: string, id: string): Promise<StoredDocument | undefined>;
  /**
   * Returns all documents of a kind, ordered by id. Damaged ones are passed to `damaged`. Default: the first error is
   * thrown.
   */
  listDocuments(kind: string, damaged?: (id: string, error: unknown) => void): Promise<StoredDocument[]>;
  /** Returns the session's archive, empty and read-only if the session doesn't exist. */
  archive(id: string): Archive;
  /** Returns the available texts of a session's archive by reference. */
  readTexts(id: string, refs: readonly string[]): Promise<ReadonlyMap<string, string>>;
  /** Claims an idempotency key, or returns its state. Keys expire a day after their last use. */
  claimKey(request: KeyRequest): Promise<KeyClaim>;
  /** Releases a claimed key without a response. */
  releaseKey(key: KeyName): Promise<void>;
  /** Claims due deliveries, the longest waiting first: at most `limit`, and at most each receiver's limit. */
  claimDeliveries(wanted: DeliveryRequest): Promise<DeliveryClaim>;
  listDeliveries(receiver: string, listing?: DeliveryListing): Promise<StoredDelivery[]>;
  getDelivery(id: string): Promise<StoredDelivery | undefined>;
  expireDeliveries(limits: DeliveryLimits): Promise<void>;
  /**
   * Returns a consistent copy of the store, while it is in use; incomplete before the stream ends. Absent: it isn't one
   * file.
   *
   * @throws {StoreError} `locked` during another copy, `full` without room for one.
   */
  copy?(): Promise<StoreCopy>;
  /** Idempotent. */
  close(): Promise<void>;
}

/** The exclusive right of an opening to change a session. */
export interface Hold {
  /** Fencing number: that of the session's previous hold plus 1, from 1. */
  readonly fence: number;
  /** Aborted once another opening may hold the session. */
  readonly signal: AbortSignal;
  /**
   * Returns whether no other opening can hold the session, by this machine's clock. To be checked right before
   * exclusive effects.
   */
  readonly isSure: () => boolean;
}

/** A session's state as seen by an opening. */
export interface SessionSnapshot {
  /** Fencing number of its newest hold, or 0. The holder that released it knows all its writes. */
  readonly fence: number;
  /** The holder: this opening, another live one, a dead one, or none. */
  readonly holder: "this" | "other" | "expired" | "none";
  readonly lastEvent: number;
  /** Its last events, if the notification contained them. Default: none. */
  readonly events?: readonly StoredEvent[];
}

/** A request to a holder. */
export interface HolderRequest {
  readonly id: string;
  readonly sessionId: string;
  readonly body: unknown;
}

/** Answer of a holder. */
export interface HolderAnswer {
  readonly answer: unknown;
}

/** A commit that holds its session only while it is written. */
export interface HoldingCommit {
  readonly sessionId: string;
  /** Fencing number of the newest hold that the caller knows; 0 if these records create the session. */
  readonly fence: number;
  readonly records: readonly StoreRecord[];
}

/** Metrics of a connection pool. */
export interface ConnectionMetrics {
  readonly most: number;
  readonly open: number;
  readonly idle: number;
  readonly waiting: number;
}

/** Metrics of an opening of a store. */
export interface OpeningMetrics {
  /** Remaining time of its lease in milliseconds; 0: it may have expired. */
  readonly leaseMs: number;
  readonly lostLeases: number;
  readonly held: number;
  /** Sessions taken over from openings that were gone. */
  readonly takenOver: number;
  /** Absent: there are no connections. */
  readonly connections?: ConnectionMetrics;
}

/** Callbacks for events of other openings. */
export interface OpeningListener {
  /**
   * Called with a request for a held session, to be answered by a record of type `answer`, preferably in the commit
   * with the effect.
   */
  readonly onRequest: (request: HolderRequest) => void;
  /** Called when another opening is gone: see {@linkcode SharedStore.abandonedSessions}. */
  readonly onExpired: () => void;
}

/**
 * Sharing of sessions between openings of a store, such as servers on one database. Changes of an existing session need
 * a hold: without it, or after a takeover, a commit fails with a `StoreError` of code `fenced`. New sessions, documents
 * and responses need no hold.
 */
export interface SharedStore {
  /**
   * Holds a session, also one of an opening that is gone. Returns the existing hold if there is one.
   *
   * @returns `undefined` if another opening holds it.
   * @throws {Error} if the session doesn't exist.
   */
  hold(sessionId: string): Promise<Hold | undefined>;
  /**
   * Holds a session for one commit, in one round trip. If the caller knew all writes up to `fence`, it still
   * does afterwards.
   *
   * @returns The fencing number of this hold. `undefined`, without a write, if the session is held or has a newer hold.
   * @throws what a commit throws.
   */
  holdAndCommit(commit: HoldingCommit): Promise<number | undefined>;
  release(sessionId: string): Promise<void>;
  inspect(sessionId: string): Promise<SessionSnapshot>;
  abandonedSessions(): Promise<readonly string[]>;
  /**
   * Reports a session's state, initially and after each write or change of holder, in commit order: at once with short
   * events, within two seconds at the latest. Without `seen` the store must be queried. Returns a function that ends
   * it.
   */
  watch(sessionId: string, changed: (seen?: SessionSnapshot) => void): () => void;
  /**
   * Sends a request to a session's holder.
   *
   * @returns The answer; `undefined` if there is no holder, or it lost the session first: then the request has no
   * effect.
   */
  request(sessionId: string, body: unknown): Promise<HolderAnswer | undefined>;
  metrics(): OpeningMetrics;
  /** To be called once, before sessions are held. */
  listen(listener: OpeningListener): void;
}
