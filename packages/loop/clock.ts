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
