import type { Archive } from "@tare/prune";

/** What is known of a session without its events. None of it ever changes. */
export interface SessionRecord {
  /** Name, unique in the store, whatever the kind. */
  readonly id: string;
  /** Whose loop leads it: ours, or that of somebody else, whose calls pass through. */
  readonly kind: "agent" | "gateway";
  /** When it was made, in milliseconds since the epoch. */
  readonly createdAtMs: number;
  /** What it was made with: any JSON value. */
  readonly settings: unknown;
  /** The session that it was forked from. Default: none. */
  readonly parent?: string;
  /** Name of the key with which it was made: lower case letters, digits, `-` and `_`. Default: the owner's. */
  readonly by?: string | undefined;
}

/** A session in a list: its record, with what is asked for so that a list takes one query. */
export interface ListedSession extends SessionRecord {
  /** Number of its last event; 0 if there is none. */
  readonly lastEvent: number;
  /** The value that {@linkcode Store.commit} was last given under the name `totals`, if there is one. */
  readonly totals?: unknown;
  /** The text that {@linkcode Store.commit} was last given under the name `title`, if there is one. */
  readonly title?: unknown;
  /** Whether an opening of the store holds it: see {@linkcode SharedStore}. Default: no. */
  readonly isHeld?: boolean;
}

/** An event of a session: any JSON object with a type. */
export interface TypedEvent extends Readonly<Record<string, unknown>> {
  readonly type: string;
}

/** An event as it was stored. */
export interface StoredEvent {
  /** Position in the session, from 1, without holes. */
  readonly number: number;
  /** The event, as JSON keeps it. */
  readonly event: TypedEvent;
}

/** A small JSON document. */
export interface StoredDocument {
  /** What sort of document it is. */
  readonly kind: string;
  /** Name, unique in its kind. */
  readonly id: string;
  /** The session with which it goes. Absent: it stays until somebody forgets it. */
  readonly sessionId?: string;
  readonly value: unknown;
}

/**
 * Something that somebody outside is to be told. Times are in milliseconds since the epoch, by the clock that all who have
 * the store open share.
 */
export interface StoredDelivery {
  /** Name, unique in the store. */
  readonly id: string;
  /** Who is told. */
  readonly receiver: string;
  /** The session that it is about: it goes with that. */
  readonly sessionId?: string;
  /** What is told, and what came of it so far: any JSON value. */
  readonly value: unknown;
  readonly madeAtMs: number;
  /** When it is to be attempted, or may be again if whoever has claimed it is never heard of. Absent: it isn't. */
  readonly dueAtMs?: number;
  /** How often somebody has taken it on. */
  readonly claims: number;
}

/** Numbers that sessions of a kind and key have come to, by what tells them from others. */
export interface StoredSums {
  readonly kind: SessionRecord["kind"];
  /** Name of the key with which the sessions were made. Default: the owner's. */
  readonly by?: string | undefined;
  /** The day by UTC, such as `2026-01-31`; empty for what is summed up over all days. */
  readonly day: string;
  /** What else tells them from others, such as a model: there are few of them, however many sessions there are. */
  readonly about: string;
  /** By name. What isn't there is zero. */
  readonly sums: Readonly<Record<string, number>>;
}

/** The name of an idempotency key. */
export interface KeyName {
  /** What the key is unique in, such as a route. */
  readonly scope: string;
  /** The key that the client chose. */
  readonly key: string;
}

/** A request with an idempotency key. */
export interface KeyRequest extends KeyName {
  /** Distinguishes its body from others. */
  readonly bodyHash: string;
  /** Whether its effect and its response come in one commit. Default: no. */
  readonly isAtomic?: boolean;
}

/**
 * What a key stands for. The caller acts on `new`, and on `interrupted` once it has found out what there is of the first
 * attempt; the key is the caller's then, to complete or to release.
 *
 * - `new`: the key is unused, or nothing came of it: an earlier process began to act on it and ended without a response,
 *   though effect and response come in one commit (`isAtomic`).
 * - `interrupted`: an earlier process began to act on it and ended before it was done. What it did is unknown.
 * - `running`: this process acts on it now.
 * - `done`: it was acted on, with this response.
 * - `mismatch`: it was used with another body.
 */
export type KeyClaim =
  | { readonly state: "new" | "interrupted" | "running" | "mismatch" }
  | { readonly state: "done"; readonly response: unknown };

/** Which sessions a list holds, the newest first. */
export interface SessionListing {
  /** Default: every kind. */
  readonly kind?: SessionRecord["kind"] | undefined;
  /** Default: 100. */
  readonly limit?: number;
  /** The session after which the list begins. Default: from the newest. */
  readonly after?: string | undefined;
  /** Text that the title contains, letters in either case. Default: any title. */
  readonly search?: string | undefined;
  /** Name of the key with which they were made. Default: every key. */
  readonly by?: string | undefined;
  /** Whether it holds sessions whose parent exists. Default: yes. */
  readonly forks?: boolean | undefined;
}

/** Which totals are read: those of the days `from` to `to`, both included. */
export interface SumsQuery {
  readonly from: string;
  readonly to: string;
  /** Default: every kind. */
  readonly kind?: SessionRecord["kind"];
  /** Default: every key. */
  readonly by?: string | undefined;
}

/** Sessions of a kind to which nothing happened since a moment in milliseconds since the epoch. */
export interface IdleQuery {
  readonly kind: SessionRecord["kind"];
  readonly beforeMs: number;
  readonly limit: number;
}

/** A session that was found by a name. */
export interface NamedSession {
  readonly id: string;
  /** Fencing number of its newest hold, as of {@linkcode SharedStore.look}; 0 where the store isn't shared. */
  readonly fence: number;
}

/** Limits beyond which sessions expire. */
export interface SessionLimits {
  readonly kind: SessionRecord["kind"];
  /** Those to which nothing happened since then expire, in milliseconds since the epoch, to a minute. */
  readonly beforeMs: number;
  /**
   * Those idle longest expire until what the rest takes, as it is stored, is no more than this. A text that several have
   * counts for each of them.
   */
  readonly maxBytes: number;
}

/** Which events are read. */
export interface EventsQuery {
  /** Number of the event after which they begin. Default: 0, from the first. */
  readonly after?: number | undefined;
  /** Default: all types. */
  readonly types?: readonly string[] | undefined;
  /** Default: all. */
  readonly limit?: number | undefined;
}

/** A session in which something is to be done. */
export interface WaitingSession {
  readonly id: string;
  /** The value of its state. */
  readonly value: unknown;
  /** Whether an opening of the store holds it: see {@linkcode SharedStore}. Default: no. */
  readonly isHeld?: boolean;
}

/** Most deliveries that are taken for a receiver. */
export interface ReceiverLimit {
  readonly receiver: string;
  readonly limit: number;
}

/** Which deliveries are taken. */
export interface DeliveryRequest {
  readonly receivers: readonly ReceiverLimit[];
  readonly limit: number;
  /** How long nobody else gets them, in milliseconds. */
  readonly forMs: number;
}

/** Deliveries that were taken. */
export interface DeliveryClaim {
  /** In the order in which they were made. */
  readonly claimed: readonly StoredDelivery[];
  /** In how many milliseconds something else to one of these is due, 0 if it is now. Absent: nothing is. */
  readonly nextInMs?: number;
}

/** Which deliveries a list holds, the newest first. */
export interface DeliveryListing {
  /** Default: 100. */
  readonly limit?: number | undefined;
  /** The delivery before which they were made. Default: from the newest. */
  readonly before?: string | undefined;
}

/** Limits beyond which deliveries to a receiver are removed, attempted or not. */
export interface DeliveryLimits {
  readonly receiver: string;
  /** Those that are older are removed. */
  readonly olderThanMs: number;
  /** All but this many of the newest are removed. */
  readonly keep: number;
}

/** A copy of a store. */
export interface StoreCopy {
  /** Its length. */
  readonly bytes: number;
  /** To be read to its end, or cancelled: until then the copy takes its room on the disk. */
  readonly stream: ReadableStream<Uint8Array<ArrayBuffer>>;
}

/** One thing that a commit changes. */
export type StoreRecord =
  /**
   * A new session; what its parent has archived so far, or else the session `archiveOf`, is in its archive too.
   * @throws if there is one of this id, or no such parent.
   */
  | ({ readonly type: "session"; readonly archiveOf?: string } & SessionRecord)
  /**
   * Events behind the session's last, which must have the number `after`: nobody else may have written since.
   * @throws {StoreError} `conflict` if somebody has.
   */
  | {
    readonly type: "events";
    readonly sessionId: string;
    readonly after: number;
    readonly events: readonly { readonly type: string }[];
  }
  /** A value of a session by name, in place of the one before. */
  | { readonly type: "state"; readonly sessionId: string; readonly name: string; readonly value: unknown }
  /**
   * What the session can be found by, each at most 200 characters, in place of the names before. Several sessions may
   * have the same.
   */
  | { readonly type: "names"; readonly sessionId: string; readonly names: readonly string[] }
  /** What the session has come to more, added to the sums of its kind and key: see {@linkcode Store.readSums}. */
  | {
    readonly type: "sums";
    readonly sessionId: string;
    readonly added: readonly Pick<StoredSums, "day" | "about" | "sums">[];
  }
  /** A text for the session's archive, under its `archiveRef`. */
  | { readonly type: "archive"; readonly sessionId: string; readonly ref: string; readonly content: string }
  /**
   * A document, in place of the one of its kind and id.
   * @throws {StoreError} `conflict` if that isn't the document that it `replaces`, unless it is this one already.
   */
  | ({
    readonly type: "document";
    /** The stored document, as it was read; `null` if there is none. Default: any or none. */
    readonly replaces?: StoredDocument | null;
  } & StoredDocument)
  /** No document of this kind and id any more, if there was one. */
  | { readonly type: "no_document"; readonly kind: string; readonly id: string }
  /**
   * The response to a key that was claimed. With a `sessionId` it goes when that session goes.
   * @throws if the key isn't claimed.
   */
  | (
    & { readonly type: "response"; readonly response: unknown; readonly sessionId?: string }
    & KeyName
  )
  /** A delivery, in place of the one of its id, due in so many milliseconds. Who has claimed the other one has lost it. */
  | (
    & { readonly type: "delivery"; readonly dueInMs: number }
    & Pick<StoredDelivery, "id" | "receiver" | "sessionId" | "value">
  )
  /**
   * What came of a delivery that was claimed, and in how many milliseconds it is due again. Default: it isn't. Nothing is
   * written if it is gone, or another claim came since.
   */
  | {
    readonly type: "attempted";
    readonly id: string;
    /** The claim: {@linkcode StoredDelivery.claims} as of then. */
    readonly claim: number;
    readonly value: unknown;
    readonly dueInMs?: number;
  }
  /** No deliveries to this receiver any more. */
  | { readonly type: "no_deliveries"; readonly receiver: string }
  /** The answer to what was asked of the holder of a session. @throws if whoever asked has given up, or has one. */
  | { readonly type: "answer"; readonly requestId: string; readonly answer: unknown };

/**
 * Where sessions are kept. A promise that resolves says that what was written survives the process; one that rejects
 * says that nothing of it was written. All reject with a `StoreError` if the store fails, and with an `Error` if there
 * is no such session, `getSession` and `deleteSession` excepted. Who needs two writes in an order awaits the first.
 */
export interface Store {
  /** How it is shared with others that have it open. Absent: nobody else can have it open. */
  readonly shared?: SharedStore;
  /** What of it is lost, as a sentence: found when it was opened, or that its file is gone. Absent: nothing that is known. */
  readonly damage?: string | undefined;
  /**
   * The time in milliseconds since the epoch, by the clock that all who have it open go by, as far as it is known: what one of
   * them writes down the others compare with theirs.
   */
  now(): number;
  /** Writes all of these in their order, or none. */
  commit(records: readonly StoreRecord[]): Promise<void>;
  /** The session of this id, if there is one. */
  getSession(id: string): Promise<SessionRecord | undefined>;
  /** Returns sessions, the newest first. */
  listSessions(listing?: SessionListing): Promise<ListedSession[]>;
  /**
   * Returns all that sessions have come to on these days. What they had come to stays when they are deleted or expire.
   * Several of these may be of the same day and about the same: they are to be added up.
   */
  readSums(which: SumsQuery): Promise<StoredSums[]>;
  /** How many sessions there are of a kind. Default: of every kind. */
  countSessions(kind?: SessionRecord["kind"]): Promise<number>;
  /**
   * Ids of sessions of a kind to which nothing happened since `beforeMs`, to a minute; the longest idle first. Whatever
   * is committed to a session happens to it.
   */
  idleSessions(which: IdleQuery): Promise<string[]>;
  /**
   * Returns the sessions that have one of these names, those with the first of them in front, and of those with the same
   * the one whose names were written last. Default limit: 16.
   */
  findNamed(names: readonly string[], limit?: number): Promise<NamedSession[]>;
  /**
   * Removes a session with all that only it refers to. False if there is none. Nobody finds it any more from the call
   * on; the promise resolves once its room is free.
   */
  deleteSession(id: string): Promise<boolean>;
  /**
   * Removes sessions beyond these limits, some at a time, and returns how many. In a store that is shared none that an
   * opening holds.
   */
  expireSessions(limits: SessionLimits): Promise<number>;
  /** Returns events in order. */
  readEvents(id: string, which?: EventsQuery): Promise<StoredEvent[]>;
  /** Number of the last event; 0 if there is none. */
  lastEvent(id: string): Promise<number>;
  /** The value of this name; `undefined` if there is none. */
  readState(id: string, name: string): Promise<unknown>;
  /**
   * The sessions in which something is to be done: those whose state of this name is there and isn't `null`, in any order,
   * and whether an opening of the store holds them (see {@linkcode SharedStore}; default: none does). However many sessions
   * there are, it looks at these alone.
   */
  sessionsWith(name: "turn" | "asks" | "queue"): Promise<WaitingSession[]>;
  /** The document of this kind and id, if there is one. */
  getDocument(kind: string, id: string): Promise<StoredDocument | undefined>;
  /**
   * All documents of a kind, by their ids: for kinds of which there are few. Those that are damaged are omitted, and the
   * id and error of each are passed to `damaged`. Default: the first error is thrown.
   */
  listDocuments(kind: string, damaged?: (id: string, error: unknown) => void): Promise<StoredDocument[]>;
  /**
   * The session's archive. It gives only what this session put into it. Of a session that doesn't exist it gives
   * nothing, and takes nothing.
   */
  archive(id: string): Archive;
  /** Texts of a session's archive by their references, as far as it has them, all at once. */
  readTexts(id: string, refs: readonly string[]): Promise<ReadonlyMap<string, string>>;
  /** Takes a key for a request, or returns who has it. It is forgotten a day after it was last touched. */
  claimKey(request: KeyRequest): Promise<KeyClaim>;
  /** Forgets a key that was claimed and has no response, because its request failed and may be sent again. */
  releaseKey(key: KeyName): Promise<void>;
  /**
   * Takes deliveries that are due, those that have waited longest first: at most `limit`, and of each receiver at most
   * its limit.
   */
  claimDeliveries(wanted: DeliveryRequest): Promise<DeliveryClaim>;
  /** Returns deliveries to a receiver, the newest first. */
  listDeliveries(receiver: string, listing?: DeliveryListing): Promise<StoredDelivery[]>;
  /** The delivery of this id, if there is one. */
  getDelivery(id: string): Promise<StoredDelivery | undefined>;
  /** Removes deliveries beyond these limits. */
  expireDeliveries(limits: DeliveryLimits): Promise<void>;
  /**
   * Copies the whole store as of now, while it is in use. Absent where it isn't one file. What is read of the copy isn't
   * whole before the stream has ended.
   *
   * @throws {StoreError} `locked` if another copy is being made, `full` if there is no room for one.
   */
  copy?(): Promise<StoreCopy>;
  /** Lets others have the store. Nothing can be read or written afterwards; a second call does nothing. */
  close(): Promise<void>;
}

/** A session that this opening holds: nobody else changes it. */
export interface Hold {
  /** The fencing number: one more than that of the hold of this session before, 1 of the first. */
  readonly fence: number;
  /** Aborted as soon as the opening knows, or has to assume, that another one may hold the session by now. */
  readonly signal: AbortSignal;
  /**
   * Whether nobody else can hold the session yet, by this machine's clock: to be asked right before what two must not
   * both do. A process that was stopped for a while learns it here first.
   */
  readonly isSure: () => boolean;
}

/** A session as an opening of the store sees it at one moment. */
export interface Sighting {
  /**
   * Fencing number of its newest hold; 0 before the first. Who held the session with this number, and has given it back,
   * knows all that was ever written to it.
   */
  readonly fence: number;
  /** Who holds it: this opening, another one that is there, one that is gone, or nobody. */
  readonly holder: "this" | "other" | "left" | "nobody";
  /** Number of the session's last event; 0 if there is none. */
  readonly lastEvent: number;
  /** Its last events, as far as they were told along. Default: none were. */
  readonly told?: readonly StoredEvent[];
}

/** What somebody asks of the opening that holds a session. */
export interface HolderRequest {
  readonly id: string;
  readonly sessionId: string;
  /** What is asked: any JSON value. */
  readonly body: unknown;
}

/** An answer of the opening that holds a session. */
export interface HolderAnswer {
  readonly answer: unknown;
}

/** A commit that holds its session only for itself. */
export interface BriefCommit {
  readonly sessionId: string;
  /** Fencing number of the session's newest hold, as far as the caller knows; 0 of one that these records make. */
  readonly fence: number;
  readonly records: readonly StoreRecord[];
}

/** Connections to where a store is. */
export interface ConnectionFigures {
  /** Most that there may be for reading and writing. */
  readonly most: number;
  readonly open: number;
  /** Those on which nothing is under way. */
  readonly idle: number;
  /** Statements after others on the same connection. */
  readonly waiting: number;
}

/** Metrics of an opening of a store. */
export interface OpeningFigures {
  /** For how long the others can't take it for dead, in milliseconds; 0: they may have. */
  readonly leaseMs: number;
  /** Leases that it has lost. */
  readonly lostLeases: number;
  /** Sessions that it holds. */
  readonly held: number;
  /** Sessions that it has taken from openings that were gone. */
  readonly takenOver: number;
  /** Absent: it has no connections. */
  readonly connections?: ConnectionFigures;
}

/** Receives what other openings of a store report. */
export interface OpeningListener {
  /**
   * Called with a request for a session that this opening holds. It is answered by a record of type `answer`, best in the
   * commit that has the effect, so that both are there or neither is.
   */
  readonly asked: (request: HolderRequest) => void;
  /** Called when another opening is gone. What it held can be taken: see {@linkcode SharedStore.left}. */
  readonly gone: () => void;
}

/**
 * How several openings of one store, such as several servers on one database, share its sessions. Whoever changes a
 * session that is there (events, state, names, archive, deletion) holds it. A commit without the hold fails with a
 * `StoreError` of code `fenced` and writes nothing; so does one whose hold another opening has taken over since. New
 * sessions need no hold in the commit that makes them, and documents and responses never do.
 */
export interface SharedStore {
  /**
   * Takes a session, also from an opening that is gone. The one that has it already gets the same hold.
   *
   * @returns Nothing if another opening holds it.
   * @throws {Error} if there is no such session.
   */
  hold(sessionId: string): Promise<Hold | undefined>;
  /**
   * Holds a session for one commit, in one round trip: takes it, also from an opening that is gone, writes, and gives it
   * back. Who knows all of it as of its newest hold, and finds that no other one came in between, knows all of it still.
   *
   * @returns The fencing number of this hold. Nothing, and nothing is written, if an opening holds the session or its
   * newest hold is another one than the caller knows: look at it, and try again.
   * @throws what a commit throws.
   */
  commitBriefly(commit: BriefCommit): Promise<number | undefined>;
  /** Gives a session back. Nothing happens if this opening doesn't hold it. */
  release(sessionId: string): Promise<void>;
  /** Who holds a session. @throws {Error} if there is no such session. */
  look(sessionId: string): Promise<Sighting>;
  /** Sessions that openings held which are gone. */
  left(): Promise<readonly string[]>;
  /**
   * Tells how a session is, once at the beginning and then whenever something was written to it or somebody else holds
   * it: at once if all is well, with the events if they are short, and within a second or two in any case. It is told
   * once it is committed, in that order. Nothing is told with it if the store is to be asked. Gives what ends that.
   */
  watch(sessionId: string, changed: (seen?: Sighting) => void): () => void;
  /**
   * Asks something of the opening that holds a session, and waits for the answer.
   *
   * @returns The answer; nothing if nobody holds the session, or no longer before it was answered: then the request has
   * had no effect and never will.
   */
  ask(sessionId: string, body: unknown): Promise<HolderAnswer | undefined>;
  /** Returns metrics of this opening. */
  figures(): OpeningFigures;
  /** Says who is told by the others. To be called once, before anything is held. */
  listen(listener: OpeningListener): void;
}
