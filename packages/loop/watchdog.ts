/** Time, as far as a turn needs it. Handed in so that a test can move it. */
export interface Clock {
  /** Milliseconds since some fixed moment. Never goes back. */
  now(): number;
  /** Calls `callback` once after so many milliseconds, unless the function that it returns is called first. */
  after(ms: number, callback: () => void): () => void;
}

/** The real time. */
export const systemClock: Clock = {
  now: () => performance.now(),
  after(ms, callback) {
    const timer = setTimeout(callback, ms);
    return () => clearTimeout(timer);
  },
};

/** How long work that was told to stop may take to do so before the turn ends without it, in milliseconds. */
const STOP_GRACE_MS = 2_000;

interface WatchdogOptions {
  /** Aborting it stops the turn. */
  readonly signal?: AbortSignal;
  /** Longest time without a sign of life, in milliseconds. */
  readonly idleTimeoutMs: number;
  readonly clock: Clock;
}

/** Ends a turn's waits when the caller aborts or nothing moves for `idleTimeoutMs`; a slow consumer doesn't count. */
export class Watchdog {
  /** Aborted when the turn shall stop, whatever the cause. */
  readonly signal: AbortSignal;
  readonly #stop = new AbortController();
  readonly #idleTimeoutMs: number;
  readonly #clock: Clock;
  readonly #work = new Set<Promise<unknown>>();
  #lastSign = 0;
  #stalled = false;
  /** What ends each wait early. */
  readonly #waits = new Set<(reason: unknown) => void>();
  #disarm: (() => void) | undefined;

  /** Watches over one turn. */
  constructor({ signal, idleTimeoutMs, clock }: WatchdogOptions) {
    this.signal = AbortSignal.any(signal ? [signal, this.#stop.signal] : [this.#stop.signal]);
    this.#idleTimeoutMs = idleTimeoutMs;
    this.#clock = clock;
    // One listener for all waits: to add and remove one for each piece of a reply costs more than to read it.
    this.signal.addEventListener("abort", () => this.#waits.forEach((end) => end(this.signal.reason)));
  }

  /** True if nothing moved for too long and the turn was stopped therefore. */
  get stalled(): boolean {
    return this.#stalled;
  }

  stop(): void {
    this.#disarm?.();
    this.#stop.abort();
  }

  /** Notes a sign of life. */
  readonly progress = (): void => {
    this.#lastSign = this.#clock.now();
  };

  /** Starts work unless the turn is stopped, and waits for it. Rejects with the signal's reason once it is stopped. */
  async wait<T>(start: () => Promise<T> | T): Promise<T> {
    this.signal.throwIfAborted();
    // Not Promise.try(): Node has it from 24 on.
    const work = new Promise<T>((resolve) => resolve(start()));
    this.track(work);
    const wait = Promise.withResolvers<T>();
    work.then(wait.resolve, wait.reject);
    if (this.signal.aborted) wait.reject(this.signal.reason);
    this.progress();
    this.#waits.add(wait.reject);
    // A turn waits for each piece of a reply: one timer for all of that costs less than one for each.
    if (!this.#disarm) this.#arm(this.#idleTimeoutMs);
    try {
      return await wait.promise;
    } finally {
      this.#waits.delete(wait.reject);
    }
  }

  #arm(ms: number): void {
    this.#disarm = this.#clock.after(ms, () => {
      this.#disarm = undefined;
      if (this.#waits.size === 0) return;
      const rest = this.#lastSign + this.#idleTimeoutMs - this.#clock.now();
      if (rest > 0) return this.#arm(rest);
      this.#stalled = true;
      this.stop();
    });
  }

  /** Remembers work that {@linkcode Watchdog.close} has to see the end of. Its failure is nobody's business then. */
  track(work: Promise<unknown>): void {
    const forget = () => this.#work.delete(settled);
    const settled: Promise<unknown> = work.then(forget, forget);
    this.#work.add(settled);
  }

  /** Stops what still runs and gives it {@linkcode STOP_GRACE_MS} to end. */
  async close(): Promise<void> {
    this.stop();
    const grace = Promise.withResolvers<void>();
    const disarm = this.#clock.after(STOP_GRACE_MS, grace.resolve);
    await Promise.race([grace.promise, Promise.all(this.#work)]);
    disarm();
  }
}
