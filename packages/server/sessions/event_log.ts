import type { SessionState, SessionStore, StoredEvent } from "@tare/store";
import { HttpError } from "../http/http_error.ts";
import type { SessionEvent } from "./session_event.ts";

/** An event with its number in the session, from 1. */
export interface NumberedEvent {
  /** Position in the session's log. */
  readonly number: number;
  /** The event. */
  readonly event: SessionEvent;
}

/** Events that a reader holds at a time. */
const PAGE = 256;

/**
 * The events of a session in order, numbered from 1, kept in the store. An event is committed before any reader gets
 * it. Any number of readers follow, each at its own pace: a reader holds one page of events, so a slow one neither
 * delays the turn nor costs memory.
 */
export class EventLog {
  readonly #store: SessionStore;
  readonly #sessionId: string;
  #last: number;
  #live = false;
  #failure: unknown;
  #changed = Promise.withResolvers<void>();

  /** The log of this session. */
  constructor(store: SessionStore, sessionId: string) {
    this.#store = store;
    this.#sessionId = sessionId;
    this.#last = store.lastEvent(sessionId);
  }

  /** Number of the newest event; 0 if there is none. */
  get last(): number {
    return this.#last;
  }

  /** Whether the log was closed by a failure: what its session has in memory may not be what is stored. */
  get failed(): boolean {
    return this.#failure !== undefined;
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
    this.#wake();
  }

  /** Says that the session is gone: readers are told so wherever they are. */
  remove(): void {
    this.#last = 0;
    this.close(
      new HttpError(404, "not_found", `Cannot read on: session ${this.#sessionId} was deleted.`),
    );
  }

  /**
   * Commits events, and with them state of the session, then hands them to everyone who follows.
   *
   * @throws {StoreError} if they can't be committed; then nobody gets them.
   */
  append(events: readonly SessionEvent[], state: SessionState = {}): void {
    this.#last = this.#store.appendEvents(this.#sessionId, events, { state });
    this.#wake();
  }

  /**
   * The events after number `after`, those to come included while the log is open.
   *
   * @throws {Error} at the end, if the log was closed by a failure.
   */
  async *read(after = 0): AsyncGenerator<NumberedEvent, void> {
    for (let position = after;;) {
      const page = position < this.#last
        ? this.#store.readEvents(this.#sessionId, { after: position, limit: PAGE })
        : [];
      for (const { number, event } of page) {
        yield { number, event: asSessionEvent(event) };
        position = number;
      }
      if (page.length > 0) continue;
      if (this.#live) await this.#changed.promise;
      else if (this.#failure !== undefined) throw this.#failure;
      else return;
    }
  }

  #wake(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers<void>();
  }
}

/** An event as it was appended: nothing else is in a session's log. */
export function asSessionEvent(event: StoredEvent["event"]): SessionEvent {
  return event as SessionEvent;
}
