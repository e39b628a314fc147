import type { LoopEvent } from "@tare/loop";

/** An event with its number in the session, from 1. */
export interface NumberedEvent {
  /** Position in the session's log. */
  readonly number: number;
  /** The event. */
  readonly event: LoopEvent;
}

/**
 * The events of a session in order, numbered from 1. Any number of readers follow it, each at its own pace: a reader
 * holds nothing but its position, so a slow one neither delays the turn nor costs memory.
 */
export class EventLog {
  readonly #events: LoopEvent[] = [];
  #live = false;
  #changed = Promise.withResolvers<void>();

  /** Number of the newest event; 0 if there is none. */
  get last(): number {
    return this.#events.length;
  }

  /** Says that events will follow: readers that reach the end wait. */
  open(): void {
    this.#live = true;
  }

  /** Says that nothing follows for now: readers that reach the end are done. */
  close(): void {
    this.#live = false;
    this.#wake();
  }

  /** Adds an event and hands it to everyone who follows. */
  append(event: LoopEvent): void {
    this.#events.push(event);
    this.#wake();
  }

  /** The events after number `after`, those to come included while the log is open. */
  async *read(after = 0): AsyncGenerator<NumberedEvent, void> {
    for (let position = after;;) {
      const event = this.#events[position];
      if (event) yield { number: ++position, event };
      else if (this.#live) await this.#changed.promise;
      else return;
    }
  }

  #wake(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers<void>();
  }
}
