import type { Archive } from "@tare/prune";

/** An event of a session: any JSON object that says what it is. */
export interface SessionEvent {
  /** What happened. */
  readonly type: string;
}

/** An event as it was stored. */
export interface StoredEvent {
  /** Position in the session, from 1, without holes. */
  readonly number: number;
  /** The event, as JSON keeps it. */
  readonly event: SessionEvent & Readonly<Record<string, unknown>>;
}

/** What is known of a session without its events. */
export interface SessionRecord {
  /** Name, unique in the store. */
  readonly id: string;
  /** When it was made, in milliseconds since the epoch. */
  readonly createdAtMs: number;
  /** What it was made with: any JSON value. */
  readonly settings: unknown;
}

/** Values of a session by name (edits, ledger, …), each any JSON value. */
export type SessionState = Readonly<Record<string, unknown>>;

/** Which sessions to list. */
export interface ListOptions {
  /** At most so many. Default 100. */
  readonly limit?: number;
  /** Only those made before the session of this id: the last one of the page before. */
  readonly before?: string;
}

/** Which events to read. */
export interface ReadOptions {
  /** Only those with a greater number. Default 0: from the first. */
  readonly after?: number;
  /** Only those of these types. Default: all. */
  readonly types?: readonly string[];
  /** At most so many. Default: all. */
  readonly limit?: number;
}

/** A request that must have its effect once, however often it is sent. */
export interface IdempotencyKey {
  /** What the key is unique in, such as a route. */
  readonly scope: string;
  /** The key that the client chose. */
  readonly key: string;
}

/**
 * What a key stands for. The caller acts on `new`, and on `interrupted` once it has found out what there is of the
 * first attempt; the key is the caller's then, to complete or to release.
 *
 * - `new`: nobody has used the key.
 * - `interrupted`: an earlier process began to act on it and ended before it was done. What it did is unknown.
 * - `running`: this process acts on it now.
 * - `done`: it was acted on, with this response.
 * - `mismatch`: it was used with another body.
 */
export type Claim =
  | { readonly state: "new" }
  | { readonly state: "interrupted" }
  | { readonly state: "running" }
  | { readonly state: "done"; readonly response: unknown }
  | { readonly state: "mismatch" };

/** Keys of requests, each with its response once there is one. A key is forgotten a day after it was last touched. */
export interface IdempotencyKeys {
  /** Takes the key for a request with this body, or says who has it. */
  claim(request: IdempotencyKey & { readonly bodyHash: string }): Claim;
  /**
   * Keeps the response (any JSON value) of a key that was claimed. With a `sessionId` it goes when that session goes.
   *
   * @throws {Error} if the key isn't claimed, or there is no such session.
   */
  complete(key: IdempotencyKey, options: { readonly response: unknown; readonly sessionId?: string }): void;
  /** Forgets a key that was claimed, because its request failed and may be sent again. */
  release(key: IdempotencyKey): void;
}

/** A small JSON document that belongs to a session. */
export interface StoredDocument {
  /** What sort of document it is. */
  readonly kind: string;
  /** Name, unique in its kind. */
  readonly id: string;
  /** The session with which it goes. */
  readonly sessionId: string;
  /** Any JSON value. */
  readonly value: unknown;
}

/** Documents by kind and id. */
export interface SessionDocuments {
  /** Keeps a document, in place of the one of its kind and id. @throws {Error} if there is no such session. */
  put(document: StoredDocument): void;
  /** The document of this kind and id, if there is one. */
  get(kind: string, id: string): StoredDocument | undefined;
}

/**
 * Where sessions are kept. Each method is one transaction: it happens as a whole or throws and changes nothing, and
 * what it wrote survives the process once it has returned.
 *
 * Methods that take a session's id throw an `Error` if there is no such session, `getSession` and `deleteSession`
 * excepted. All throw a {@linkcode StoreError} if the file can't be read or written.
 */
export interface SessionStore {
  /** Adds a session. @throws {Error} if there is one of this id. */
  createSession(session: SessionRecord): void;
  /** The session of this id, if there is one. */
  getSession(id: string): SessionRecord | undefined;
  /** Sessions without their events, the newest first. */
  listSessions(options?: ListOptions): SessionRecord[];
  /** How many sessions there are. */
  countSessions(): number;
  /** Removes a session with all that only it refers to. False if there is none. */
  deleteSession(id: string): boolean;
  /**
   * Adds events behind those that are there, and in the same transaction saves what of the state follows from them.
   * Gives the number of the session's last event.
   */
  appendEvents(
    id: string,
    events: readonly SessionEvent[],
    options?: { readonly state?: SessionState },
  ): number;
  /** Events in order. */
  readEvents(id: string, options?: ReadOptions): StoredEvent[];
  /** Number of the last event; 0 if there is none. */
  lastEvent(id: string): number;
  /** Saves values, each in place of the one of its name; others stay. */
  saveState(id: string, state: SessionState): void;
  /** The value of this name; `undefined` if there is none. */
  readState(id: string, name: string): unknown;
  /**
   * The session's archive. It gives only what this session put into it; a text that several sessions put is stored
   * once. Of a session that doesn't exist it gives nothing, and takes nothing.
   */
  archive(id: string): Archive;
  /** Keys of requests that were sent before. */
  readonly idempotency: IdempotencyKeys;
  /** Documents that belong to sessions. */
  readonly documents: SessionDocuments;
  /** Closes the file and lets others have it. Nothing can be read or written afterwards. */
  close(): void;
}

/** How a store is opened. */
export interface StoreOptions {
  /** Milliseconds since the epoch; idempotency keys expire by it. Default: the system's clock. */
  readonly now?: () => number;
  /**
   * Largest size of the file in bytes, its log not counted; a write that needs more fails as if the disk were full.
   * Default: no limit.
   */
  readonly maxBytes?: number;
}
