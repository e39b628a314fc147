import type { Store } from "@tare/session";
import type { OwnedEvents, Sighting, StoredEvent, StoreRecord } from "@tare/session/internal";
import { notFound } from "../http/http_error.ts";
import type { NumberedEvent, SessionEvent, Teller } from "./session_types.ts";

/** How writes of other servers are found. */
type FollowedLog = NonNullable<Parameters<OwnedEvents["follow"]>[0]>;

/** How programs outside learn of a log's events. */
interface ToldLog extends Pick<Teller, "isHeard" | "wake" | "onError"> {
  readonly recordsOf: (committed: Parameters<Teller["recordsOf"]>[1]) => readonly StoreRecord[];
}

/** Of which events programs outside may be told. */
const TOLD: readonly SessionEvent["type"][] = ["turn_end", "approval_asked"];

/** Events that a reader holds at a time. */
const PAGE = 256;

/** So many events that others told of are kept for who reads them. */
const MOST_TOLD = 64;

/**
 * The events of a session in order, numbered from 1, kept in the store. An event is committed before any reader gets
 * it. Any number of readers follow, each at its own pace: a reader holds one page of events, so a slow one neither
 * delays the turn nor costs memory.
 */
export class EventLog implements OwnedEvents {
  readonly #store: Store;
  readonly #sessionId: string;
  readonly #told: ToldLog | undefined;
  /** The newest turn's id, if it has one. Absent: nobody has looked yet. */
  #turn: { readonly id: string | undefined } | undefined;
  #last: number;
  /** Events behind the stored ones, which are written with the next that are. */
  #mended: readonly SessionEvent[] = [];
  /** What is written with them. */
  #records: readonly StoreRecord[] = [];
  /** The newest commit, so that whoever keeps up with a turn needs nothing of the store. */
  #newest: { readonly after: number; readonly events: readonly SessionEvent[] } = { after: 0, events: [] };
  #live = false;
  #failure: unknown;
  #removed: Promise<void> | undefined;
  #changed = Promise.withResolvers<void>();
  #followed: FollowedLog | undefined;
  /** Readers that wait for what others write, or have. */
  #followers = 0;
  #unwatch: (() => void) | undefined;

  constructor(store: Store, { sessionId, last, told }: {
    readonly sessionId: string;
    readonly last: number;
    /** Who else is told. Default: nobody. */
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

  /** Whether the log was closed by a failure: what its session has in memory may not be what is stored. */
  get failed(): boolean {
    return this.#failure !== undefined;
  }

  /**
   * Lets events follow that an earlier process owes, with other records. They follow from what is stored, so that a
   * reader gets them at once, and they are written with the next events: reading needs no room on the disk.
   */
  mend(events: readonly SessionEvent[], records: readonly StoreRecord[]): void {
    this.#last += events.length - this.#mended.length;
    this.#mended = events;
    this.#records = records;
  }

  /** Says that events will follow: readers that reach the end wait. */
  open(): void {
    this.#failure = undefined;
    this.#live = true;
  }

  /** Says that nothing follows for now: readers that reach the end are done. A failure is thrown to them. */
  close(failure?: unknown): void {
    this.#failure = failure;
    this.#live = false;
    this.#stopWatching();
    this.#wake();
  }

  /** Says how what others write is learned; nothing if nobody else writes now. */
  follow(followed: FollowedLog | undefined): void {
    this.#followed = followed;
    if (!followed) this.#stopWatching();
    this.#wake();
  }

  /** Others have written up to this number, and nothing is owed. `told` are the newest of these, as far as they are known. */
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

  /** Removes the session from the store and tells readers so wherever they are. @throws {StoreError} if it stays. */
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
   * Commits events, and with them other records, calls `committed`, and hands the events to everyone who follows. Only
   * one call may be under way at a time.
   *
   * @throws {StoreError} if they can't be committed; then nobody gets them.
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
   * The events after number `after`, those to come included while the log is open.
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
      // What is stored behind `last` isn't known to be committed yet.
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
      // They may have been written meanwhile, and others with them.
      if (position < this.#last) continue;
      if (this.#live) {
        if (!follows.isTold) this.#followers += 1;
        follows.isTold = true;
        await this.#wait();
      } else if (this.#failure !== undefined) throw this.#failure;
      else return;
    }
  }

  /** The newest turn that is stored: another process may have begun it. */
  async #findTurn({ onError }: ToldLog): Promise<{ readonly id: string | undefined }> {
    const starts = await this.#store.readEvents(this.#sessionId, { types: ["turn_start"] }).catch((error) => {
      // A notification without the turn's id is no reason to fail the commit.
      onError(error);
      return [];
    });
    return turnBehind(eventsOf(starts)) ?? { id: undefined };
  }

  /** A session that is being removed can't be read for a moment before its readers are told. */
  async #explain(error: unknown): Promise<never> {
    await this.#removed?.catch(() => {});
    await this.#followed?.look();
    throw this.#failure ?? error;
  }

  /** Waits until something has changed. What others write is watched as long as somebody follows. */
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

/** The turn that goes on behind these events, if one of them begins it. */
export function turnBehind(
  events: readonly SessionEvent[],
): { readonly id: string | undefined } | undefined {
  const start = events.findLast((event) => event.type === "turn_start");
  return start && { id: start.id };
}

/** Returns stored events as they were appended: nothing else is in a session's log. */
export function numbered(stored: readonly StoredEvent[]): readonly NumberedEvent[] {
  return stored as readonly NumberedEvent[];
}

/** Returns stored events without their numbers. */
export function eventsOf(stored: readonly StoredEvent[]): readonly SessionEvent[] {
  return numbered(stored).map(({ event }) => event);
}
