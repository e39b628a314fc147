/** Runs work one run at a time. Requests during a run cause one more run after it. */
export class Coalescer {
  readonly #work: () => Promise<void>;
  readonly #onError: (error: unknown) => void;
  #running: Promise<void> | undefined;
  #isRequested = false;

  constructor(work: () => Promise<void>, onError: (error: unknown) => void) {
    this.#work = work;
    this.#onError = onError;
  }

  /** Settles once all requested runs have ended. */
  run(): Promise<void> {
    this.#isRequested = true;
    return this.#running ??= this.#runAll();
  }

  get isRunning(): boolean {
    return this.#running !== undefined;
  }

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
    // Must follow the last check of the flag synchronously, or a request in between would be lost.
    this.#running = undefined;
  }
}
