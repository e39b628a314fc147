import type { Content } from "@tare/messages";
import { HttpError } from "../http/http_error.ts";

/** What the user said in the middle of a turn and no event tells yet. It is stored, so that it is never lost. */
export class Steering {
  #waiting: readonly Content[] = [];
  /** Of these, how many the loop has taken. */
  #taken = 0;

  /** All that waits. */
  get waiting(): readonly Content[] {
    return this.#waiting;
  }

  /** What the loop hasn't taken yet: it has then. */
  take(): readonly Content[] {
    const fresh = this.#waiting.slice(this.#taken);
    this.#taken = this.#waiting.length;
    return fresh;
  }

  /** What waits once this is said too, in the session of this id. @throws {HttpError} 429 if that is too much. */
  with(id: string, input: Content): readonly Content[] {
    const waiting = [...this.#waiting, input];
    assertMayWait(id, waiting);
    return waiting;
  }

  /** More waits than before. */
  grow(waiting: readonly Content[]): void {
    this.#waiting = waiting;
  }

  /** So many are told by events now. */
  told(count: number): void {
    this.#waiting = this.#waiting.slice(count);
    this.#taken -= count;
  }

  /** Nothing runs any more; what waits enters the next turn. */
  reset(waiting: readonly Content[]): void {
    this.#waiting = waiting;
    this.#taken = 0;
  }
}

/** Most inputs that wait for a running turn's next model call. */
const MAX_WAITING = 100;

/** Most characters of their JSON. */
const MAX_WAITING_CHARS = 16 * 2 ** 20;

/** What the user says to a running turn is stored whole each time. @throws {HttpError} 429 if it is too much. */
function assertMayWait(id: string, waiting: readonly Content[]): void {
  if (waiting.length <= MAX_WAITING && JSON.stringify(waiting).length <= MAX_WAITING_CHARS) return;
  throw new HttpError(
    429,
    "too_much_steering",
    `Cannot steer the turn in session ${id}: ${
      waiting.length - 1
    } inputs wait for its next model call, and at most ` +
      `${MAX_WAITING} of ${MAX_WAITING_CHARS} characters may. Wait for a user_message event, or cancel the turn.`,
  );
}
