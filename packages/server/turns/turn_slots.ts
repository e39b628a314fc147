import { HttpError } from "../http/http_error.ts";

/** Seconds after which a client that was refused a turn may ask again. */
const RETRY_AFTER_S = 5;

/** How long a request waits for a slot before it is refused, in milliseconds: its client has heard nothing yet. */
const WAIT_MS = 30_000;

interface TurnSlotsOptions {
  /** Told when one was given back that nobody has waited for. */
  readonly freed: () => void;
  /** Calls back after so many milliseconds, until the function that it returns is called. */
  readonly after: (ms: number, work: () => void) => () => void;
}

/** Limits how many turns run at the same time, over all sessions and routes. */
export class TurnSlots {
  readonly limit: number;
  #taken = 0;
  #isClosed = false;
  readonly #options: TurnSlotsOptions;
  /** Who waits for a slot, the longest first. */
  readonly #waiting = new Set<(isGiven: boolean) => void>();

  constructor(limit: number, options: TurnSlotsOptions) {
    this.limit = limit;
    this.#options = options;
  }

  get taken(): number {
    return this.#taken;
  }

  get room(): number {
    return this.#isClosed ? 0 : Math.max(0, this.limit - this.#taken);
  }

  /**
   * Takes a slot; if all are taken, the next one that is given back and that nobody waits for who came before.
   *
   * @throws {HttpError} 429 as {@linkcode TurnSlots.take} does, where that takes too long or too many wait; and 503.
   */
  async wait(signal: AbortSignal): Promise<() => void> {
    if (this.room > 0 || this.#isClosed || this.#waiting.size >= this.limit) return this.take();
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const late = () => resolve(false);
    const disarm = this.#options.after(WAIT_MS, late);
    signal.addEventListener("abort", late);
    this.#waiting.add(resolve);
    const isGiven = await promise;
    disarm();
    signal.removeEventListener("abort", late);
    this.#waiting.delete(resolve);
    return isGiven ? this.#slot() : this.take();
  }

  close(): void {
    this.#isClosed = true;
    for (const give of this.#waiting) give(false);
  }

  /**
   * Takes a slot; a turn that runs already gets one in any case. The function that it returns gives the slot back; calling
   * it again does nothing.
   *
   * @throws {HttpError} 429 with `retry-after` if all are taken, 503 if the server ends.
   */
  take(of?: "running"): () => void {
    if (this.#isClosed) throw endingServer();
    if (of === undefined && this.#taken >= this.limit) {
      throw new HttpError(
        429,
        "too_many_turns",
        `Cannot start a turn: ${this.#taken} run at the moment, and no more may. Try again when one has ended.`,
        { "retry-after": String(RETRY_AFTER_S) },
      );
    }
    this.#taken += 1;
    return this.#slot();
  }

  #slot(): () => void {
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      const [next] = this.#waiting;
      if (next) {
        this.#waiting.delete(next);
        return next(true);
      }
      this.#taken -= 1;
      this.#options.freed();
    };
  }
}

function endingServer(): HttpError {
  const state = "the server is ending. Ask again: another one, or its next start, takes it";
  return new HttpError(503, "server_ending", `Cannot start a turn: ${state}.`, { "retry-after": "1" });
}
