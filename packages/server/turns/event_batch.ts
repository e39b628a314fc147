import type { Clock } from "@tare/loop";
import type { SessionEvent } from "../sessions/event_log.ts";

/** How long what has happened waits for more, so that it is committed together, in milliseconds. */
const GATHER_MS = 100;

/**
 * Commits events. `settled` says that nothing goes on until it is done: with them goes all that has changed beside them.
 * Otherwise the turn goes on, and what changes meanwhile belongs to events that are yet to come.
 */
export type CommitEvents = (
  events: readonly SessionEvent[],
  options: { readonly settled: boolean },
) => Promise<void>;

/** What events are gathered with. */
export interface EventBatchOptions {
  readonly commit: CommitEvents;
  readonly clock: Clock;
  /** Told that a commit failed which nobody waits for: nothing can be added any more. */
  readonly failed: () => void;
}

/**
 * Gathers the events of a turn, so that a step takes few commits. The first delta of a step is committed at once, those
 * behind it at most every 100 ms, those in a row as one; whatever else happens waits as long, unless who adds it waits for
 * the commit. Events are committed in the order in which they were added.
 */
export class EventBatch {
  readonly #options: EventBatchOptions;
  #gathered: SessionEvent[] = [];
  /** Settles once all is committed that was to be. */
  #committed: Promise<void> = Promise.resolve();
  #failure: { readonly error: unknown } | undefined;
  #deltasFromMs = -Infinity;
  /** How often all was taken that had gathered. */
  #taken = 0;
  #disarm: (() => void) | undefined;

  /** Nothing has happened. */
  constructor(options: EventBatchOptions) {
    this.#options = options;
  }

  /** Commits an event soon. @throws what a commit failed with. */
  add(event: SessionEvent): void {
    if (this.#failure) throw this.#failure.error;
    this.#gather(event);
    if (event.type === "step_start") this.#deltasFromMs = -Infinity;
    const waitMs = isDelta(event) ? this.#deltasFromMs - this.#options.clock.now() : GATHER_MS;
    if (waitMs <= 0) this.#commitSoon();
    else this.#disarm ??= this.#options.clock.after(waitMs, () => this.#commitSoon());
  }

  /** Commits all that was added, and what has changed beside it. @throws what a commit failed with. */
  settle(): Promise<void> {
    // Taken now: no commit that is under way for others may take an event without what belongs to it.
    const events = this.take();
    return this.#next(() => this.#options.commit(events, { settled: true }));
  }

  /** Takes what isn't being committed, for somebody else to commit. */
  take(): readonly SessionEvent[] {
    this.#rest();
    this.#taken++;
    return this.#gathered.splice(0);
  }

  /** A reply that is complete has changed the prompt's state: it waits for who commits that with it. */
  #takeUnsettled(): readonly SessionEvent[] {
    this.#rest();
    const reply = this.#gathered.findIndex(({ type }) => type === "assistant_message");
    return this.#gathered.splice(0, reply < 0 ? this.#gathered.length : reply);
  }

  /** Settles once nothing is being committed. @throws what a commit failed with. */
  get committed(): Promise<void> {
    return this.#committed;
  }

  #gather(event: SessionEvent): void {
    const last = this.#gathered.at(-1);
    if (last && isDelta(event) && last.type === event.type && last.step === event.step) {
      this.#gathered[this.#gathered.length - 1] = { ...last, text: last.text + event.text };
    } else this.#gathered.push(event);
  }

  #commitSoon(): void {
    this.#rest();
    if (this.#gathered.some(isDelta)) this.#deltasFromMs = this.#options.clock.now() + GATHER_MS;
    const taken = this.#taken;
    // While the store is slow it takes all that has gathered meanwhile, but nothing that stands behind what was taken.
    const commit = async () => {
      const events = taken === this.#taken ? this.#takeUnsettled() : [];
      if (events.length > 0) await this.#options.commit(events, { settled: false });
    };
    this.#next(commit).catch(() => this.#options.failed());
  }

  #next(commit: () => Promise<void>): Promise<void> {
    this.#committed = this.#committed.then(commit);
    this.#committed.catch((error) => this.#failure ??= { error });
    return this.#committed;
  }

  #rest(): void {
    this.#disarm?.();
    this.#disarm = undefined;
  }
}

function isDelta(event: SessionEvent): event is Extract<SessionEvent, { readonly type: `${string}_delta` }> {
  return event.type === "text_delta" || event.type === "reasoning_delta";
}
