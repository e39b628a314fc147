import { HttpError } from "../http/http_error.ts";

/** Seconds after which a client that was refused a turn may ask again. */
const RETRY_AFTER_S = 5;

/** Limits how many turns run at the same time, over all sessions and routes. */
export class TurnSlots {
  readonly #limit: number;
  #taken = 0;

  /** So many turns may run at once. */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /**
   * Takes a slot. The function that it returns gives the slot back; calling it again does nothing.
   *
   * @throws {HttpError} 429 with `retry-after` if all are taken.
   */
  take(): () => void {
    if (this.#taken >= this.#limit) {
      throw new HttpError(
        429,
        "too_many_turns",
        `Cannot start a turn: ${this.#taken} run at the moment, and no more may. Try again when one has ended.`,
        { "retry-after": String(RETRY_AFTER_S) },
      );
    }
    this.#taken += 1;
    let isHeld = true;
    return () => {
      if (isHeld) this.#taken -= 1;
      isHeld = false;
    };
  }
}
