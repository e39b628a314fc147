import type { Content } from "@tare/messages";

/** Stores what is still waiting. @throws if it can't. */
export type SaveWaiting = (waiting: readonly Content[]) => void;

/**
 * What the user says in the middle of a turn, in order. It waits in the store until it is an event, so that what was
 * accepted is never lost, whatever becomes of the turn.
 */
export class SteeringQueue {
  readonly #save: SaveWaiting;
  #waiting: readonly Content[] = [];
  #taken = 0;

  /** A queue in which nothing waits. */
  constructor(save: SaveWaiting) {
    this.#save = save;
  }

  /** What is no event yet, taken or not. */
  get waiting(): readonly Content[] {
    return this.#waiting;
  }

  /** Accepts what the user said. @throws if it can't be stored; then it isn't accepted. */
  add(input: Content): void {
    const waiting = [...this.#waiting, input];
    this.#save(waiting);
    this.#waiting = waiting;
  }

  /** What was added since it was last asked for. */
  take(): readonly Content[] {
    const fresh = this.#waiting.slice(this.#taken);
    this.#taken = this.#waiting.length;
    return fresh;
  }

  /** Says that the first that waits is an event now. */
  shift(): void {
    this.#waiting = this.#waiting.slice(1);
    this.#taken -= 1;
  }
}
