import type { Store } from "@tare/session";
import type { OwnedEvents, SessionSnapshot, StoredEvent, StoreRecord } from "@tare/session/internal";
import { notFound } from "../http/http_error.ts";
import type { Notifier, NumberedEvent, SessionEvent } from "./session_types.ts";

type FollowedLog = NonNullable<Parameters<OwnedEvents["follow"]>[0]>;

interface ReportedLog extends Pick<Notifier, "hasWebhooks" | "wake" | "onError"> {
  readonly recordsOf: (committed: Parameters<Notifier["recordsOf"]>[1]) => readonly StoreRecord[];
}

const REPORTED_EVENTS: readonly SessionEvent["type"][] = ["turn_end", "approval_requested"];

const PAGE = 256;

const MAX_REPORTED = 64;

/**
 * The events of a session in order, numbered from 1, committed before any reader gets them. A reader holds one page
 * of events, so a slow reader neither delays the turn nor costs memory.
 */
export class EventLog implements OwnedEvents {
  readonly #store: Store;
  readonly #sessionId: string;
  readonly #reporter: ReportedLog | undefined;
  #turn: { readonly id: string | undefined } | undefined;
  #last: number;
  #recovered: readonly SessionEvent[] = [];
  #records: readonly StoreRecord[] = [];
  /** The newest commit, which readers get without the store. */
  #newest: { readonly after: number; readonly events: readonly SessionEvent[] } = { after: 0, events: [] };
  #live = false;
  #failure: unknown;
  #removed: Promise<void> | undefined;
  #changed = Promise.withResolvers<void>();
  #followed: FollowedLog | undefined;
  #followers = 0;
  #unwatch: (() => void) | undefined;

  constructor(store: Store, { sessionId, last, reporter }: {
    readonly sessionId: string;
    readonly last: number;
    readonly reporter?: ReportedLog | undefined;
  }) {
    this.#store = store;
    this.#reporter = reporter;
    this.#sessionId = sessionId;
    this.#last = last;
  }

  get last(): number {
    return this.#last;
  }

  /** Whether a failure closed the log: its session in memory may differ from the store. */
  get failed(): boolean {
    return this.#failure !== undefined;
  }

  /**
   * Adds events that an earlier process did not commit. They are committed with the next events, so that reading
   * works on a full disk.
   */
  addRecovered(events: readonly SessionEvent[], records: readonly StoreRecord[]): void {
    this.#last += events.length - this.#recovered.length;
    this.#recovered = events;
    this.#records = records;
  }

  open(): void {
    this.#failure = undefined;
    this.#live = true;
  }

  close(failure?: unknown): void {
    this.#failure = failure;
    this.#live = false;
    this.#stopWatching();
    this.#wake();
  }

  follow(followed: FollowedLog | undefined): void {
    this.#followed = followed;
    if (!followed) this.#stopWatching();
    this.#wake();
  }

  reach(last: number, reported: readonly StoredEvent[] = []): void {
    if (last === this.#last && this.#recovered.length === 0) return;
    const { after, events } = this.#newest;
    const known = after + events.length;
    const news = reported.filter(({ number }) => number > known);
    const continues = known + news.length === last && events.length + news.length <= MAX_REPORTED;
    const added = eventsOf(continues ? news : reported);
    this.#newest = continues
      ? { after, events: [...events, ...added] }
      : { after: last - reported.length, events: added };
    if (last !== this.#last) this.#turn = undefined;
    this.#last = last;
    this.#recovered = [];
    this.#records = [];
    this.#wake();
  }

  async catchUp({ lastEvent, events = [] }: SessionSnapshot): Promise<void> {
    const first = events[0]?.number ?? lastEvent + 1;
    const isRead = first > this.#last + 1 && lastEvent - this.#last <= MAX_REPORTED;
    const page = { after: this.#last, limit: lastEvent - this.#last };
    this.reach(lastEvent, isRead ? await this.#store.readEvents(this.#sessionId, page) : events);
  }

  get newest(): SessionEvent | undefined {
    const { after, events } = this.#newest;
    return after + events.length === this.#last ? events.at(-1) : undefined;
  }

  /** Ends its readers too. @throws {StoreError} if it can't be deleted. */
  remove(): Promise<void> {
    const remove = async () => {
      await this.#store.deleteSession(this.#sessionId);
      this.removed();
    };
    return this.#removed = remove();
  }

  removed(): void {
    this.#last = 0;
    this.close(notFound(`Cannot read more events: session ${this.#sessionId} was deleted.`));
  }

  /**
   * Commits events and other records, calls `committed`, and passes the events to readers. Only one call may be in
   * progress at a time.
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
    const after = this.#last - this.#recovered.length;
    const all = [...this.#recovered, ...events];
    const isReported = all.some(({ type }) => REPORTED_EVENTS.includes(type));
    const reporter = isReported && this.#reporter?.hasWebhooks() ? this.#reporter : undefined;
    const turn = reporter && (this.#turn ??= await this.#findTurn(reporter));
    const written: StoreRecord[] = [
      ...this.#records,
      ...records,
      ...reporter?.recordsOf({ events: all, after, turn }) ?? [],
    ];
    if (all.length > 0) written.unshift({ type: "events", sessionId, after, events: all });
    if (written.length > 0) await this.#store.commit(written);
    this.#last += events.length;
    this.#recovered = [];
    this.#records = [];
    if (all.length > 0) this.#newest = { after, events: all.length <= PAGE ? all : [] };
    this.#turn = newestTurnIn(all) ?? this.#turn;
    committed?.();
    if (events.length > 0) this.#wake();
    reporter?.wake();
  }

  /**
   * Yields the events after number `after`, and new events while the log is open.
   *
   * @throws {Error} at the end, if a failure closed the log.
   */
  async *read(after = 0): AsyncGenerator<NumberedEvent, void> {
    const follows = { isReported: false };
    try {
      yield* this.#read(after, follows);
    } finally {
      if (follows.isReported && --this.#followers === 0) this.#stopWatching();
    }
  }

  async *#read(after: number, follows: { isReported: boolean }): AsyncGenerator<NumberedEvent, void> {
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
      const mended = this.#recovered.slice(position - (this.#last - this.#recovered.length));
      for (const event of mended) yield { number: ++position, event };
      if (position < this.#last) continue;
      if (this.#live) {
        if (!follows.isReported) this.#followers += 1;
        follows.isReported = true;
        await this.#wait();
      } else if (this.#failure !== undefined) throw this.#failure;
      else return;
    }
  }

  async #findTurn({ onError }: ReportedLog): Promise<{ readonly id: string | undefined }> {
    const starts = await this.#store.readEvents(this.#sessionId, { types: ["turn_start"] }).catch((error) => {
      // The commit doesn't fail because a notification lacks the turn's id.
      onError(error);
      return [];
    });
    return newestTurnIn(eventsOf(starts)) ?? { id: undefined };
  }

  async #explain(error: unknown): Promise<never> {
    await this.#removed?.catch(() => {});
    await this.#followed?.inspect();
    throw this.#failure ?? error;
  }

  #wait(): Promise<void> {
    const followed = this.#followed;
    const changed = this.#changed.promise;
    if (followed) this.#unwatch ??= followed.watch((seen) => void followed.inspect(seen));
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

export function newestTurnIn(
  events: readonly SessionEvent[],
): { readonly id: string | undefined } | undefined {
  const start = events.findLast((event) => event.type === "turn_start");
  return start && { id: start.id };
}

export function numbered(stored: readonly StoredEvent[]): readonly NumberedEvent[] {
  return stored as readonly NumberedEvent[];
}

export function eventsOf(stored: readonly StoredEvent[]): readonly SessionEvent[] {
  return numbered(stored).map(({ event }) => event);
}
