/**
 * Runs work one run at a time. However often it is requested during a run, it runs once more after that, so that no
 * request is lost and what was requested last is always seen.
 */
export class Coalescer {
  readonly #work: () => Promise<void>;
  readonly #onError: (error: unknown) => void;
  #running: Promise<void> | undefined;
  #isRequested = false;

  /** Runs nothing yet. `onError` receives what the work throws. */
  constructor(work: () => Promise<void>, onError: (error: unknown) => void) {
    this.#work = work;
    this.#onError = onError;
  }

  /** Requests a run that begins after this call. Settles once that run and all that were requested since have ended. */
  run(): Promise<void> {
    this.#isRequested = true;
    return this.#running ??= this.#runAll();
  }

  get isRunning(): boolean {
    return this.#running !== undefined;
  }

  /** Settles once nothing runs. */
  async settled(): Promise<void> {
    await this.#running;
  }

  async #runAll(): Promise<void> {
    while (this.#isRequested) {
      this.#isRequested = false;
      try {
        await this.#work();
      } catch (error) {
        this.#onError(error);
      }
    }
    // In the same step as the last look at the flag: a request in between would wait for a run that never comes.
    this.#running = undefined;
  }
}
