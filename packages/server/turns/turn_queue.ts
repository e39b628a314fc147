import type { Content } from "@tare/messages";
import type { Store } from "@tare/session";
import { Coalescer } from "@tare/session/internal";
import { HttpError } from "../http/http_error.ts";
import { queueFull } from "../sessions/session_errors.ts";
import type { TurnRequest } from "../sessions/session_types.ts";

/** A turn that waits for its time: until those before it in its session have ended, and there is room. */
export interface QueuedTurn extends Pick<TurnRequest, "input" | "budget" | "settings" | "unattended"> {
  readonly id: string;
  /** In milliseconds since the epoch. */
  readonly askedAtMs: number;
}

/** A change of the turns that wait in a session. */
export type QueueChange = { readonly add: QueuedTurn } | { readonly remove: string };

/** Most turns that wait in a session. */
const MOST_IN_A_SESSION = 100;

/** Returns the turns that wait in a session after a change. @throws {HttpError} 429 if these are too many. */
export function queueAfter(
  queued: readonly QueuedTurn[],
  { id, change }: { readonly id: string; readonly change: QueueChange },
): readonly QueuedTurn[] {
  if (!("add" in change)) return queued.filter((turn) => turn.id !== change.remove);
  if (queued.length >= MOST_IN_A_SESSION) throw queueFull(id, MOST_IN_A_SESSION);
  return [...queued, change.add];
}

/** The states by which a session's waiting turns are stored, and by which it is found that there are some. */
export function queueStates(queued: readonly QueuedTurn[]): object {
  const [oldest] = queued;
  const queue: QueueRow | null = oldest ? { atMs: oldest.askedAtMs, count: queued.length } : null;
  return { queued, queue };
}

interface QueueRow {
  /** Since when the oldest waits, in milliseconds since the epoch. */
  readonly atMs: number;
  readonly count: number;
}

interface TurnQueueOptions {
  readonly store: Store;
  /** How many more turns may run here now. */
  readonly room: () => number;
  /** Starts the turn that waits longest in the session of this id; false if something runs there or is asked. */
  readonly start: (id: string) => Promise<boolean>;
  readonly most: number;
  readonly onError: (error: unknown) => void;
}

/** Seconds after which a client that was refused may ask again. */
const RETRY_AFTER_S = 30;

/** The turns that wait, in the sessions of a store: whoever has the store open and room starts the one that waits longest. */
export class TurnQueue {
  readonly #options: TurnQueueOptions;
  readonly #looking: Coalescer;

  constructor(options: TurnQueueOptions) {
    this.#options = options;
    this.#looking = new Coalescer(() => this.#lookOnce(), options.onError);
  }

  /** How many turns wait, in all sessions. @throws {StoreError} */
  async length(): Promise<number> {
    return (await this.#rows()).reduce((sum, { value: { count } }) => sum + count, 0);
  }

  /** @throws {HttpError} 429 if no more turns may wait. */
  async admit(): Promise<void> {
    const { most } = this.#options;
    const length = await this.length();
    if (length < most) return;
    throw new HttpError(
      429,
      "too_many_turns",
      `Cannot take the turn: ${length} wait already, and no more may. Try again when some have begun.`,
      { "retry-after": String(RETRY_AFTER_S) },
    );
  }

  /** Starts what can be started now. Settles once all of it has begun; never rejects. */
  look(): Promise<void> {
    return this.#looking.run();
  }

  async #lookOnce(): Promise<void> {
    while (this.#options.room() > 0 && await this.#startSome());
  }

  /** Starts the turns that wait longest, one a session. False if none could be. */
  async #startSome(): Promise<boolean> {
    const { store, room, start } = this.#options;
    const rows = await this.#rows();
    if (rows.length === 0) return false;
    const asking = new Set((await store.sessionsWith("asks")).map(({ id }) => id));
    const due = rows.filter(({ id, isHeld }) => !isHeld && !asking.has(id))
      .sort((one, other) => one.value.atMs - other.value.atMs);
    let isAny = false;
    for (const { id } of due) {
      if (room() <= 0) break;
      isAny = await start(id) || isAny;
    }
    return isAny;
  }

  async #rows() {
    const rows = await this.#options.store.sessionsWith("queue");
    // What was stored is what `queueStates` has made.
    return rows.map(({ value, ...row }) => ({ ...row, value: value as QueueRow }));
  }
}

/** Most inputs that wait for the next model call of a running turn. */
const MAX_WAITING = 100;

/** Most characters of their JSON. */
const MAX_WAITING_CHARS = 16 * 2 ** 20;

/** Checks that so many inputs may wait, which are stored whole each time. @throws {HttpError} 429 if they are too many. */
export function assertMayWait(id: string, waiting: readonly Content[]): void {
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
