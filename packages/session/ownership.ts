import type { Hold, HolderRequest, SessionSnapshot, Store, StoreRecord } from "./store/port.ts";
import { SessionRecords } from "./store/session_records.ts";
import { StoreError } from "./store/store_error.ts";

/** Runs work sequentially. */
export class Queue {
  #last: Promise<unknown> = Promise.resolve();

  /** Settles as the work does. Work must not wait for work queued after it. */
  run<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(work);
    this.#last = result.catch(() => {});
    return result;
  }
}

/** Events in memory. */
export interface OwnedEvents {
  readonly last: number;
  /** Whether memory may differ from what is stored. */
  readonly failed: boolean;
  reach(last: number): void;
  follow(
    followed: {
      readonly watch: (changed: (seen?: SessionSnapshot) => void) => () => void;
      readonly inspect: (seen?: SessionSnapshot) => Promise<void>;
    } | undefined,
  ): void;
  removed(): void;
}

/** A session in this server's memory that one server at a time owns. */
export interface OwnedSession {
  readonly id: string;
  readonly store: Store;
  readonly events: OwnedEvents;
  /** Whether work of several commits is in progress, during which the session stays owned. */
  readonly isBusy: () => boolean;
  /** Reads the session as its owner; interrupted work is continued or ended. @throws {StoreError} */
  readonly recover: () => Promise<void>;
  /**
   * Reads the stored session. Returns whether work is in progress on its owner (`isOther`), or was interrupted.
   *
   * @throws {StoreError}
   */
  readonly read: (isOther: boolean) => Promise<boolean>;
  /** Notes writes of other servers. Returns false if more must be read. @throws {StoreError} */
  readonly observe: (seen: SessionSnapshot) => Promise<boolean>;
  /**
   * Handles another server's request and commits the answer, if possible in the same commit.
   *
   * @returns False if the answer is due once the work has ended.
   * @throws {StoreError} `fenced` if the session is no longer owned here.
   */
  readonly handle: (request: unknown, answer: (answer: unknown) => StoreRecord) => Promise<boolean>;
  /** Stops work in progress without further writes: another server may own the session. */
  readonly lost: () => void;
  /** Called if the store is too full to recover the session, which is read as it is. */
  readonly stalled: (error: StoreError) => void;
  readonly gone: () => void;
  /** Schedules a retry: the session could not be released for other servers. */
  readonly unsettled: () => void;
  readonly refusal: (why: "gone" | "left") => Error;
  readonly onError?: ((error: unknown) => void) | undefined;
}

/** The right of work of several commits to write to its session. */
export interface Tenure {
  readonly isOwn: () => boolean;
  /** Throws if another server may own it. Absent if no other server can have the store open. */
  readonly assertOwn: (() => void) | undefined;
  /** Runs work exclusively; afterwards an idle session is released. */
  readonly run: (work: () => Promise<void>) => Promise<void>;
}

/** The owner of a session. When a session is changed, memory equals the store, and no other server changes it. */
export class Ownership {
  readonly #session: OwnedSession;
  readonly #queue = new Queue();
  /** Absent if this server doesn't own the session, or is the only one. */
  #hold: Hold | undefined;
  #unhear = () => {};
  /** Newest hold up to whose end memory is complete. */
  #known: number | undefined;
  /** Requests to be answered once the work in progress has ended. */
  #owed: readonly string[] = [];
  #seen: SessionSnapshot | undefined;
  #isGone = false;
  #isLeft = false;

  constructor(session: OwnedSession) {
    this.#session = session;
    this.#follow();
  }

  get isHeld(): boolean {
    return this.#hold !== undefined;
  }

  get isGone(): boolean {
    return this.#isGone;
  }

  get isLeft(): boolean {
    return this.#isLeft;
  }

  leave(): void {
    this.#isLeft = true;
  }

  /** Releases what was left, once no work of it runs here. Never rejects. */
  async releaseLeft(): Promise<void> {
    const { id, onError } = this.#session;
    if (this.#isLeft) await this.#shared?.release(id).catch((error) => onError?.(error));
  }

  markDeleted(): void {
    this.#isGone = true;
    this.#drop();
    this.#session.gone();
  }

  /**
   * Settles when memory equals the store.
   *
   * @throws the refusal if the session was deleted.
   * @throws {StoreError}
   */
  async ready(): Promise<void> {
    if (this.#shared && !this.#hold) await this.#queue.run(() => this.#refresh());
    else if (this.#session.events.failed) await this.#queue.run(() => this.#here(async () => {}));
  }

  async followable(): Promise<void> {
    if (this.#shared && !this.#hold) await this.#queue.run(() => this.#see());
    else await this.ready();
  }

  /** Runs work exclusively, whichever server owns the session. */
  queued<T>(work: () => Promise<T>): Promise<T> {
    return this.#queue.run(work);
  }

  /**
   * Runs work exclusively when memory equals the store. If another server has work in progress, it receives the
   * request, and `answered` maps its answer to the result.
   */
  async exclusively<T>(
    work: () => Promise<T>,
    { request, answered }: { readonly request: () => unknown; readonly answered: (answer: unknown) => T },
  ): Promise<T> {
    for (;;) {
      const done = await this.#queue.run(() => this.#here(work));
      if (done) return done.value;
      const requested = await this.request(request());
      if (requested) return answered(requested.answer);
    }
  }

  async request(body: unknown): Promise<{ readonly answer: unknown } | undefined> {
    const requested = await this.#shared?.request(this.#session.id, body);
    if (requested) await this.ready();
    return requested;
  }

  tenure(): Tenure {
    const hold = this.#hold;
    const isOwn = () => this.#hold === hold && !this.#isLeft;
    const lost = () =>
      new StoreError(
        "fenced",
        `Cannot continue session ${this.#session.id}: another server may own it. Reload the session.`,
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

  /** Receives another server's request. Without work in progress the session is released. Never rejects. */
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
      this.#lost();
      return undefined;
    } finally {
      await this.#release(isRead);
    }
  }

  /**
   * Holds the session. Returns whether memory is complete; `undefined` if another server owns it.
   *
   * @throws {StoreError}
   */
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
      this.#seen = { fence: hold.fence, holder: "none", lastEvent: events.last };
    } catch (error) {
      // It may be released all the same: the store knows the owner.
      onError(error);
      unsettled();
    }
    if (this.#hold === hold) this.#drop(isKnown ? hold.fence : undefined);
    this.#follow();
  }

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
    this.#inspect();
  }

  #follow(): void {
    const shared = this.#shared;
    if (!shared) return;
    this.#session.events.follow({
      watch: (changed) => shared.watch(this.#session.id, changed),
      inspect: (seen) => this.#inspect(seen),
    });
  }

  /** Notes writes of other servers. Never rejects. */
  #inspect(seen?: SessionSnapshot): Promise<void> {
    return this.#queue.run(() => this.#see(seen)).catch((error) => {
      if (this.#isGone) return;
      this.#session.onError?.(error);
      this.#session.unsettled();
    });
  }

  async #see(newest?: SessionSnapshot): Promise<void> {
    const { id, events, observe, refusal } = this.#session;
    if (this.#isGone) throw refusal("gone");
    if (!this.#shared || this.#hold || newest && this.#seen && isBefore(newest, this.#seen)) return;
    const seen = newest && newest.holder !== "this" ? newest : await this.#orGone(this.#shared.inspect(id));
    const { holder, fence } = seen;
    if (holder === "none" && fence === this.#known && !events.failed) return;
    if (holder === "this" || holder === "expired") return await this.#refresh(seen);
    if (!await this.#orGone(observe(seen))) return await this.#refresh(seen);
    this.#seen = seen;
  }

  async #refresh(seen?: SessionSnapshot): Promise<void> {
    const { id, events, refusal, stalled } = this.#session;
    if (this.#isGone) throw refusal("gone");
    if (!this.#shared || this.#hold) return;
    const { holder, fence, lastEvent } = this.#seen = seen ?? await this.#orGone(this.#shared.inspect(id));
    if (holder === "none" && fence === this.#known && !events.failed) return;
    const read = async (isOther: boolean) => {
      events.reach(lastEvent);
      const isInProgress = await this.#orGone(this.#session.read(isOther));
      this.#known = isOther || isInProgress ? undefined : fence;
      return isInProgress;
    };
    if (holder === "other") await read(true);
    else if (holder !== "none" || await read(false)) {
      this.#known = undefined;
      try {
        if (!await this.#here(async () => {})) await read(true);
      } catch (error) {
        if (!(error instanceof StoreError && error.code === "full")) throw error;
        // It continues once there is room, on any server. Until then it is readable.
        this.#session.onError?.(error);
        await read(true);
        stalled(error);
      }
    }
  }

  async #orGone<T>(work: Promise<T>): Promise<T> {
    const { id, store, events, refusal } = this.#session;
    const done = await new SessionRecords(store, id).ifThere(async () => ({ value: await work }));
    if (done) return done.value;
    events.removed();
    this.markDeleted();
    throw refusal("gone");
  }
}

/** Returns whether a store refused a commit because the session is no longer owned here. */
export function isFenced(error: unknown): error is StoreError {
  return error instanceof StoreError && error.code === "fenced";
}

/**
 * Returns whether a sighting is older than another: notifications may arrive late. The releasing server is the last
 * holder under its number.
 */
function isBefore({ fence, lastEvent, holder }: SessionSnapshot, later: SessionSnapshot): boolean {
  if (fence !== later.fence) return fence < later.fence;
  return lastEvent < later.lastEvent || later.holder === "none" && holder !== "none";
}
