import type { StoreRecord } from "./port.ts";

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

/** Who holds a session: this opening, another one that is there, one that is gone, or nobody. */
export type Holder = "this" | "other" | "left" | "nobody";

/** What is known of who holds a session. */
export interface Holding {
  /**
   * Fencing number of its newest hold; 0 before the first. Who held the session with this number, and has given it
   * back, knows all that was ever written to it.
   */
  readonly fence: number;
  readonly holder: Holder;
  /** Number of the session's last event; 0 if there is none. */
  readonly lastEvent: number;
}

/** A commit for which a session is held. */
export interface BriefHold {
  readonly sessionId: string;
  /** Fencing number of the session's newest hold, as far as the caller knows; 0 of one that these records make. */
  readonly fence: number;
  readonly records: readonly StoreRecord[];
}

/** What somebody asks of the opening that holds a session. */
export interface HolderRequest {
  readonly id: string;
  readonly sessionId: string;
  /** What is asked: any JSON value. */
  readonly body: unknown;
}

/** What an opening is told by the others. */
export interface SharedListener {
  /**
   * Something is asked of this opening for a session that it holds. It is answered by a record of type `answer`, best in
   * the commit that has the effect, so that both are there or neither is.
   */
  readonly asked: (request: HolderRequest) => void;
  /** Another opening is gone. What it held can be taken: see {@linkcode SharedStore.left}. */
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
  commitBriefly(hold: BriefHold): Promise<number | undefined>;
  /** Gives a session back. Nothing happens if this opening doesn't hold it. */
  release(sessionId: string): Promise<void>;
  /** Who holds a session. @throws {Error} if there is no such session. */
  look(sessionId: string): Promise<Holding>;
  /** Sessions that openings held which are gone. */
  left(): Promise<readonly string[]>;
  /**
   * Calls `changed` whenever something may have been written to a session, or somebody else may hold it: at once if all
   * is well, and every second or two in any case. Gives what ends that.
   */
  watch(sessionId: string, changed: () => void): () => void;
  /**
   * Asks something of the opening that holds a session, and waits for the answer.
   *
   * @returns The answer; nothing if nobody holds the session, or no longer before it was answered: then the request has
   * had no effect and never will.
   */
  ask(sessionId: string, body: unknown): Promise<{ readonly answer: unknown } | undefined>;
  /** Says who is told by the others. To be called once, before anything is held. */
  listen(listener: SharedListener): void;
}
