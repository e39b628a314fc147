import type { Hold, HolderRequest, Sighting, Store, StoreRecord } from "./store/port.ts";
import { SessionRecords } from "./store/session_records.ts";
import { StoreError } from "./store/store_error.ts";

/** Runs work one piece after the other, each once those before it have settled. */
export class Queue {
  #last: Promise<unknown> = Promise.resolve();

  /** Settles as the work does. Work must not wait for work that is queued after it. */
  run<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(work);
    this.#last = result.catch(() => {});
    return result;
  }
}

/** The events of a session in memory. */
export interface OwnedEvents {
  /** Number of the newest event. */
  readonly last: number;
  /** Whether memory may differ from what is stored. */
  readonly failed: boolean;
  /** Other servers have written up to this number. */
  reach(last: number): void;
  /** Sets how writes of other servers are found; `undefined` while there are none. */
  follow(
    followed: {
      readonly watch: (changed: (seen?: Sighting) => void) => () => void;
      readonly look: (seen?: Sighting) => Promise<void>;
    } | undefined,
  ): void;
  /** The session was deleted. */
  removed(): void;
}

/** A session whose owner is one server at a time, as this server holds it in memory. */
export interface OwnedSession {
  readonly id: string;
  readonly store: Store;
  readonly events: OwnedEvents;
  /** Returns whether work of several commits is in progress here: until it ends the session stays owned. */
  readonly isBusy: () => boolean;
  /** Reads what is stored, as its owner: work that was left continues here or ends. @throws {StoreError} */
  readonly recover: () => Promise<void>;
  /** Reads what is stored. Returns whether work is in progress on the server that owns it (`isOther`), or was left. @throws {StoreError} */
  readonly read: (isOther: boolean) => Promise<boolean>;
  /** Notes what other servers have done, for readers of the events; returns false if more is to be read. @throws {StoreError} */
  readonly observe: (seen: Sighting) => Promise<boolean>;
  /**
   * Does what another server requests of the work in progress, and commits its answer, if possible in the same commit.
   *
   * @returns False if the answer is due once the work has ended.
   * @throws {StoreError} `fenced` if the session is no longer owned here.
   */
  readonly handle: (request: unknown, answer: (answer: unknown) => StoreRecord) => Promise<boolean>;
  /** Another server may own the session: work in progress stops, and nothing more of it is written. */
  readonly lost: () => void;
  /** The store is too full to recover the session, which is read as it is. */
  readonly stalled: (error: StoreError) => void;
  /** The session is gone. */
  readonly gone: () => void;
  /** Other servers wait for the session, and it could not be released: retry later. */
  readonly unsettled: () => void;
  /** Returns the error for those who use a session that is gone, or was left to another server. */
  readonly refusal: (why: "gone" | "left") => Error;
  readonly onError?: ((error: unknown) => void) | undefined;
}

/** What work of several commits may do with its session: nothing once another server may own it. */
export interface Tenure {
  /** Whether the session is still owned for this work. */
  readonly isOwn: () => boolean;
  /** Throws if another server may own it. Absent where no other server can have the store open. */
  readonly assertOwn: (() => void) | undefined;
  /** Does work when nothing else happens in the session, and releases the session if nothing is in progress then. */
  readonly run: (work: () => Promise<void>) => Promise<void>;
}

/**
 * Which server owns a session, and whether memory is current: whenever the session is changed, memory holds what is
 * stored, and no other server that has the store open changes it at the same time.
 */
export class Ownership {
  readonly #session: OwnedSession;
  readonly #queue = new Queue();
  /** Absent if this server doesn't own the session, or where no other one can have the store open. */
  #hold: Hold | undefined;
  #unhear = () => {};
  /** Number of the newest hold, if memory has everything that was written up to its end. */
  #known: number | undefined;
  /** Requests whose answer is due once the work in progress has ended. */
  #owed: readonly string[] = [];
  /** The newest sighting; absent before the first. */
  #seen: Sighting | undefined;
  #isGone = false;
  #isLeft = false;

  /** The ownership of this session. Nothing is read yet. */
  constructor(session: OwnedSession) {
    this.#session = session;
    this.#follow();
  }

  /** Whether this server owns the session, if others could. */
  get isHeld(): boolean {
    return this.#hold !== undefined;
  }

  get isGone(): boolean {
    return this.#isGone;
  }

  /** Whether the work in progress here is left to another server. */
  get isLeft(): boolean {
    return this.#isLeft;
  }

  /** Leaves the work in progress to another server: nothing more of it is written here. */
  leave(): void {
    this.#isLeft = true;
  }

  /** Lets other servers own what was left, once nothing of it runs here any more. Never rejects. */
  async releaseLeft(): Promise<void> {
    const { id, onError } = this.#session;
    if (this.#isLeft) await this.#shared?.release(id).catch((error) => onError?.(error));
  }

  /** The session was deleted. */
  markDeleted(): void {
    this.#isGone = true;
    this.#drop();
    this.#session.gone();
  }

  /** Settles when memory holds what is stored. @throws the refusal if the session is gone. @throws {StoreError} */
  async ready(): Promise<void> {
    if (this.#shared && !this.#hold) await this.#queue.run(() => this.#refresh());
    else if (this.#session.events.failed) await this.#queue.run(() => this.#here(async () => {}));
  }

  /** Settles when the stored events can be followed. The rest of what is stored is read once it is needed. */
  async followable(): Promise<void> {
    if (this.#shared && !this.#hold) await this.#queue.run(() => this.#see());
    else await this.ready();
  }

  /** Does work when nothing else happens in the session, whichever server owns it. */
  queued<T>(work: () => Promise<T>): Promise<T> {
    return this.#queue.run(work);
  }

  /**
   * Does work when nothing else happens in the session, and memory holds what is stored. If work is in progress on another
   * server, that one receives the request, and `answered` returns the result by its answer.
   */
  async exclusively<T>(
    work: () => Promise<T>,
    { request, answered }: { readonly request: () => unknown; readonly answered: (answer: unknown) => T },
  ): Promise<T> {
    for (;;) {
      const done = await this.#queue.run(() => this.#here(work));
      if (done) return done.value;
      const asked = await this.request(request());
      if (asked) return answered(asked.answer);
    }
  }

  /** Sends a request to the server that owns the session, and reads what results. Returns nothing if none owns it. */
  async request(body: unknown): Promise<{ readonly answer: unknown } | undefined> {
    const asked = await this.#shared?.ask(this.#session.id, body);
    if (asked) await this.ready();
    return asked;
  }

  /** Returns what work that starts now may do. */
  tenure(): Tenure {
    const hold = this.#hold;
    const isOwn = () => this.#hold === hold && !this.#isLeft;
    const lost = () =>
      new StoreError(
        "fenced",
        `Cannot continue session ${this.#session.id}: another server may own it. What that one wrote counts.`,
      );
    return {
      isOwn,
      assertOwn: hold && (() => {
        if (isOwn() && hold.isSure()) return;
        if (isOwn()) this.#lost();
        throw lost();
      }),
      run: (work) =>
        this.#queue.run(async () => {
          if (!isOwn()) throw lost();
          await work().catch((error) => {
            if (hold && isFenced(error)) this.#lost();
            throw error;
          });
          await this.#release();
        }),
    };
  }

  /**
   * Receives a request of another server. If no work is in progress the session is released, and that server does it
   * itself. Never rejects.
   */
  async receive({ id: requestId, body }: HolderRequest): Promise<void> {
    const { isBusy, handle, onError } = this.#session;
    await this.#queue.run(async () => {
      if (!isBusy()) return await (this.#hold ? this.#release() : this.#refresh());
      try {
        const isAnswered = await handle(body, (answer) => ({ type: "answer", requestId, answer }));
        if (!isAnswered) this.#owed = [...this.#owed, requestId];
      } catch (error) {
        if (!isFenced(error)) throw error;
        this.#lost();
      }
    }).catch((error) => onError?.(error));
  }

  get #shared() {
    return this.#session.store.shared;
  }

  /** Does the work if the session can be owned. */
  async #here<T>(work: () => Promise<T>): Promise<{ readonly value: T } | undefined> {
    const { events, recover, refusal } = this.#session;
    if (this.#isGone) throw refusal("gone");
    if (this.#isLeft) throw refusal("left");
    const taken = await this.#take();
    if (!taken) return undefined;
    let isRead = false;
    try {
      if (taken === "stale" || events.failed) await recover();
      isRead = true;
      if (this.#shared) events.follow(undefined);
      return { value: await work() };
    } catch (error) {
      if (!this.#shared || !isFenced(error)) throw error;
      // Nothing was written; the server that owns it now receives the request.
      this.#lost();
      return undefined;
    } finally {
      await this.#release(isRead);
    }
  }

  /** Takes the session. Returns whether memory has all of it; `undefined` if another server owns it. @throws {StoreError} */
  async #take(): Promise<"known" | "stale" | undefined> {
    const shared = this.#shared;
    if (!shared || this.#hold) return "known";
    const hold = await this.#orGone(shared.hold(this.#session.id));
    if (!hold || hold.signal.aborted) return undefined;
    const lost = () => this.#lost();
    hold.signal.addEventListener("abort", lost, { once: true });
    this.#unhear = () => hold.signal.removeEventListener("abort", lost);
    this.#hold = hold;
    return this.#known === hold.fence - 1 ? "known" : "stale";
  }

  /** Releases the session unless work is in progress, and sends the answers that are due. Never rejects. */
  async #release(isRead = true): Promise<void> {
    const { id, store, events, isBusy, unsettled, onError = () => {} } = this.#session;
    const hold = this.#hold;
    if (!hold || isBusy() || this.#isLeft) return;
    const isKnown = isRead && !events.failed;
    const owed = this.#owed;
    this.#owed = [];
    try {
      for (const requestId of owed) {
        await store.commit([{ type: "answer", requestId, answer: {} }]).catch(onError);
      }
      await this.#shared?.release(id);
      this.#seen = { fence: hold.fence, holder: "nobody", lastEvent: events.last };
    } catch (error) {
      // It may be released all the same: from now on the store reports who owns it.
      onError(error);
      unsettled();
    }
    if (this.#hold === hold) this.#drop(isKnown ? hold.fence : undefined);
    this.#follow();
  }

  /** The session isn't owned here any more. Memory is as of the hold of this number. */
  #drop(known?: number): void {
    this.#unhear();
    this.#hold = undefined;
    this.#known = known;
    this.#owed = [];
  }

  #lost(): void {
    this.#drop();
    this.#session.lost();
    this.#follow();
    this.#look();
  }

  #follow(): void {
    const shared = this.#shared;
    if (!shared) return;
    this.#session.events.follow({
      watch: (changed) => shared.watch(this.#session.id, changed),
      look: (seen) => this.#look(seen),
    });
  }

  /** Notes what other servers do, for readers of the events. Never rejects. */
  #look(seen?: Sighting): Promise<void> {
    return this.#queue.run(() => this.#see(seen)).catch((error) => {
      if (this.#isGone) return;
      this.#session.onError?.(error);
      this.#session.unsettled();
    });
  }

  /** Lets readers of the events know the session's state, and reads no more than they need. Default: its state now. */
  async #see(newest?: Sighting): Promise<void> {
    const { id, events, observe, refusal } = this.#session;
    if (this.#isGone) throw refusal("gone");
    if (!this.#shared || this.#hold || newest && this.#seen && isBefore(newest, this.#seen)) return;
    // A hold of this server that it doesn't know of is to be found out.
    const seen = newest && newest.holder !== "this" ? newest : await this.#orGone(this.#shared.look(id));
    const { holder, fence } = seen;
    if (holder === "nobody" && fence === this.#known && !events.failed) return;
    if (holder === "this" || holder === "left") return await this.#refresh(seen);
    if (!await this.#orGone(observe(seen))) return await this.#refresh(seen);
    this.#seen = seen;
  }

  /** Reads from the store what other servers have written. Default: as of now. */
  async #refresh(seen?: Sighting): Promise<void> {
    const { id, events, refusal, stalled } = this.#session;
    if (this.#isGone) throw refusal("gone");
    if (!this.#shared || this.#hold) return;
    const { holder, fence, lastEvent } = this.#seen = seen ?? await this.#orGone(this.#shared.look(id));
    if (holder === "nobody" && fence === this.#known && !events.failed) return;
    const read = async (isOther: boolean) => {
      events.reach(lastEvent);
      const isInProgress = await this.#orGone(this.#session.read(isOther));
      this.#known = isOther || isInProgress ? undefined : fence;
      return isInProgress;
    };
    if (holder === "other") await read(true);
    else if (holder !== "nobody" || await read(false)) {
      this.#known = undefined;
      try {
        if (!await this.#here(async () => {})) await read(true);
      } catch (error) {
        if (!(error instanceof StoreError && error.code === "full")) throw error;
        // It continues once there is room, on any server. Until then it can be read.
        this.#session.onError?.(error);
        await read(true);
        stalled(error);
      }
    }
  }

  /** A session that isn't in the store any more was deleted by another server. */
  async #orGone<T>(work: Promise<T>): Promise<T> {
    const { id, store, events, refusal } = this.#session;
    const done = await new SessionRecords(store, id).ifThere(async () => ({ value: await work }));
    if (done) return done.value;
    events.removed();
    this.markDeleted();
    throw refusal("gone");
  }
}

/** Returns whether a store refuses a commit because the session isn't owned here any more. */
export function isFenced(error: unknown): error is StoreError {
  return error instanceof StoreError && error.code === "fenced";
}

/**
 * Returns whether a sighting is older than another one: notifications may be processed after a look that was newer. The
 * server that releases a session is the last to hold it by that number.
 */
function isBefore({ fence, lastEvent, holder }: Sighting, later: Sighting): boolean {
  if (fence !== later.fence) return fence < later.fence;
  return lastEvent < later.lastEvent || later.holder === "nobody" && holder !== "nobody";
}
