import type { Store } from "@tare/session";
import type { OwnedEvents, Sighting, StoredEvent, StoreRecord } from "@tare/session/internal";
import { notFound } from "../http/http_error.ts";
import type { NumberedEvent, SessionEvent, Teller } from "./session_types.ts";

/** How writes of other servers are found. */
type FollowedLog = NonNullable<Parameters<OwnedEvents["follow"]>[0]>;

/** How other programs are notified of a log's events. */
interface ToldLog extends Pick<Teller, "isHeard" | "wake" | "onError"> {
  readonly recordsOf: (committed: Parameters<Teller["recordsOf"]>[1]) => readonly StoreRecord[];
}

/** Events of which other programs may be notified. */
const TOLD: readonly SessionEvent["type"][] = ["turn_end", "approval_asked"];

/** Events that a reader has in memory at a time. */
const PAGE = 256;

/** Most events of other servers that stay in memory for readers. */
const MOST_TOLD = 64;

/**
 * The events of a session in order, numbered from 1, in the store. An event is committed before any reader gets
 * it. Any number of readers follow, each at its own pace: a reader holds one page of events, so a slow one neither
 * delays the turn nor costs memory.
 */
export class EventLog implements OwnedEvents {
  readonly #store: Store;
  readonly #sessionId: string;
  readonly #told: ToldLog | undefined;
  /** The newest turn's id, if it has one. Absent: it isn't read yet. */
  #turn: { readonly id: string | undefined } | undefined;
  #last: number;
  /** Events after the stored ones, which are committed with the next events. */
  #mended: readonly SessionEvent[] = [];
  /** Records that are committed with them. */
  #records: readonly StoreRecord[] = [];
  /** The newest commit, so that readers that keep up with a turn don't read the store. */
  #newest: { readonly after: number; readonly events: readonly SessionEvent[] } = { after: 0, events: [] };
  #live = false;
  #failure: unknown;
  #removed: Promise<void> | undefined;
  #changed = Promise.withResolvers<void>();
  #followed: FollowedLog | undefined;
  /** Readers that wait for events of other servers, or have. */
  #followers = 0;
  #unwatch: (() => void) | undefined;

  constructor(store: Store, { sessionId, last, told }: {
    readonly sessionId: string;
    readonly last: number;
    /** Other programs that are notified. Default: none. */
    readonly told?: ToldLog | undefined;
  }) {
    this.#store = store;
    this.#told = told;
    this.#sessionId = sessionId;
    this.#last = last;
  }

  /** Number of the newest event; 0 if there is none. */
  get last(): number {
    return this.#last;
  }

  /** Whether the log was closed by a failure: its session in memory may differ from what is stored. */
  get failed(): boolean {
    return this.#failure !== undefined;
  }

  /**
   * Adds events that an earlier process did not commit, with other records. They follow from what is stored, so that a
   * reader gets them at once, and they are committed with the next events: reading needs no room on the disk.
   */
  mend(events: readonly SessionEvent[], records: readonly StoreRecord[]): void {
    this.#last += events.length - this.#mended.length;
    this.#mended = events;
    this.#records = records;
  }

  /** Opens the log: readers that reach the end wait for more events. */
  open(): void {
    this.#failure = undefined;
    this.#live = true;
  }

  /** Closes the log for now: readers that reach the end are done. A failure is thrown to them. */
  close(failure?: unknown): void {
    this.#failure = failure;
    this.#live = false;
    this.#stopWatching();
    this.#wake();
  }

  /** Sets how writes of other servers are found; `undefined` if no other server writes now. */
  follow(followed: FollowedLog | undefined): void {
    this.#followed = followed;
    if (!followed) this.#stopWatching();
    this.#wake();
  }

  /** Other servers have written up to this number. `told` are the newest of these events, as far as they are known. */
  reach(last: number, told: readonly StoredEvent[] = []): void {
    if (last === this.#last && this.#mended.length === 0) return;
    const { after, events } = this.#newest;
    const known = after + events.length;
    const news = told.filter(({ number }) => number > known);
    const goesOn = known + news.length === last && events.length + news.length <= MOST_TOLD;
    const added = eventsOf(goesOn ? news : told);
    this.#newest = goesOn
      ? { after, events: [...events, ...added] }
      : { after: last - told.length, events: added };
    if (last !== this.#last) this.#turn = undefined;
    this.#last = last;
    this.#mended = [];
    this.#records = [];
    this.#wake();
  }

  /** Takes what other servers have written, with the newest events unless these are too many. @throws {StoreError} */
  async catchUp({ lastEvent, told = [] }: Sighting): Promise<void> {
    const first = told[0]?.number ?? lastEvent + 1;
    const isRead = first > this.#last + 1 && lastEvent - this.#last <= MOST_TOLD;
    const page = { after: this.#last, limit: lastEvent - this.#last };
    this.reach(lastEvent, isRead ? await this.#store.readEvents(this.#sessionId, page) : told);
  }

  /** The newest event, if it is in memory. */
  get newest(): SessionEvent | undefined {
    const { after, events } = this.#newest;
    return after + events.length === this.#last ? events.at(-1) : undefined;
  }

  /** Deletes the session from the store, and ends its readers. @throws {StoreError} if it stays. */
  remove(): Promise<void> {
    const remove = async () => {
      await this.#store.deleteSession(this.#sessionId);
      this.removed();
    };
    return this.#removed = remove();
  }

  removed(): void {
    this.#last = 0;
    this.close(notFound(`Cannot read on: session ${this.#sessionId} was deleted.`));
  }

  /**
   * Commits events, and with them other records, calls `committed`, and passes the events to readers. Only one call may be
   * in progress at a time.
   *
   * @throws {StoreError} if they can't be committed; no reader gets them then.
   */
  async append(
    events: readonly SessionEvent[],
    { records = [], committed }: {
      readonly records?: readonly StoreRecord[];
      readonly committed?: () => void;
    } = {},
  ): Promise<void> {
    const sessionId = this.#sessionId;
    const after = this.#last - this.#mended.length;
    const all = [...this.#mended, ...events];
    const isTold = all.some(({ type }) => TOLD.includes(type));
    const told = isTold && this.#told?.isHeard() ? this.#told : undefined;
    const turn = told && (this.#turn ??= await this.#findTurn(told));
    const written: StoreRecord[] = [
      ...this.#records,
      ...records,
      ...told?.recordsOf({ events: all, after, turn }) ?? [],
    ];
    if (all.length > 0) written.unshift({ type: "events", sessionId, after, events: all });
    if (written.length > 0) await this.#store.commit(written);
    this.#last += events.length;
    this.#mended = [];
    this.#records = [];
    if (all.length > 0) this.#newest = { after, events: all.length <= PAGE ? all : [] };
    this.#turn = turnBehind(all) ?? this.#turn;
    committed?.();
    if (events.length > 0) this.#wake();
    told?.wake();
  }

  /**
   * Yields the events after number `after`, while the log is open also those to come.
   *
   * @throws {Error} at the end, if the log was closed by a failure.
   */
  async *read(after = 0): AsyncGenerator<NumberedEvent, void> {
    const follows = { isTold: false };
    try {
      yield* this.#read(after, follows);
    } finally {
      if (follows.isTold && --this.#followers === 0) this.#stopWatching();
    }
  }

  async *#read(after: number, follows: { isTold: boolean }): AsyncGenerator<NumberedEvent, void> {
    for (let position = after;;) {
      // Events that are stored after `last` may not be committed yet.
      const limit = Math.min(PAGE, this.#last - position);
      const newest = this.#newest;
      const page = position >= newest.after && limit > 0 ? newest.events.slice(position - newest.after) : [];
      for (const event of page) yield { number: ++position, event };
      if (page.length > 0) continue;
      const stored = limit > 0
        ? await this.#store.readEvents(this.#sessionId, { after: position, limit })
          .catch((error) => this.#explain(error))
        : [];
      for (const event of numbered(stored)) {
        yield event;
        position = event.number;
      }
      if (stored.length > 0) continue;
      const mended = this.#mended.slice(position - (this.#last - this.#mended.length));
      for (const event of mended) yield { number: ++position, event };
      // They may have been committed meanwhile, and others with them.
      if (position < this.#last) continue;
      if (this.#live) {
        if (!follows.isTold) this.#followers += 1;
        follows.isTold = true;
        await this.#wait();
      } else if (this.#failure !== undefined) throw this.#failure;
      else return;
    }
  }

  /** Returns the newest stored turn: another process may have begun it. */
  async #findTurn({ onError }: ToldLog): Promise<{ readonly id: string | undefined }> {
    const starts = await this.#store.readEvents(this.#sessionId, { types: ["turn_start"] }).catch((error) => {
      // A notification without the turn's id is no reason to fail the commit.
      onError(error);
      return [];
    });
    return turnBehind(eventsOf(starts)) ?? { id: undefined };
  }

  /** Throws why the session can't be read: it may have been deleted. */
  async #explain(error: unknown): Promise<never> {
    await this.#removed?.catch(() => {});
    await this.#followed?.look();
    throw this.#failure ?? error;
  }

  /** Waits until something has changed. Other servers are watched as long as a reader follows. */
  #wait(): Promise<void> {
    const followed = this.#followed;
    const changed = this.#changed.promise;
    if (followed) this.#unwatch ??= followed.watch((seen) => void followed.look(seen));
    return changed;
  }

  #stopWatching(): void {
    this.#unwatch?.();
    this.#unwatch = undefined;
  }

  #wake(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers<void>();
  }
}

/** Returns the newest turn that one of these events begins. */
export function turnBehind(
  events: readonly SessionEvent[],
): { readonly id: string | undefined } | undefined {
  const start = events.findLast((event) => event.type === "turn_start");
  return start && { id: start.id };
}

/** Returns stored events as they were appended: a session's log contains nothing else. */
export function numbered(stored: readonly StoredEvent[]): readonly NumberedEvent[] {
  return stored as readonly NumberedEvent[];
}

/** Returns stored events without their numbers. */
export function eventsOf(stored: readonly StoredEvent[]): readonly SessionEvent[] {
  return numbered(stored).map(({ event }) => event);
}
