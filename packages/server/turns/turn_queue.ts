import type { Content } from "@tare/messages";
import type { Store } from "@tare/session";
import { Coalescer } from "@tare/session/internal";
import { HttpError } from "../http/http_error.ts";
import { queueFull } from "../sessions/session_errors.ts";
import type { TurnRequest } from "../sessions/session_types.ts";

export interface QueuedTurn extends Pick<TurnRequest, "input" | "budget" | "settings" | "unattended"> {
  readonly id: string;
  readonly requestedAtMs: number;
}

export type QueueChange = { readonly add: QueuedTurn } | { readonly remove: string };

const MAX_IN_A_SESSION = 100;

/** Returns a session's queue after a change. @throws {HttpError} 429 if it is too long. */
export function queueAfter(
  queued: readonly QueuedTurn[],
  { id, change }: { readonly id: string; readonly change: QueueChange },
): readonly QueuedTurn[] {
  if (!("add" in change)) return queued.filter((turn) => turn.id !== change.remove);
  if (queued.length >= MAX_IN_A_SESSION) throw queueFull(id, MAX_IN_A_SESSION);
  return [...queued, change.add];
}

/**
 * Returns the stored states of a session's queue; `queue` is the one that sessions with queued turns are found by.
 */
export function queueStates(queued: readonly QueuedTurn[]): object {
  const [oldest] = queued;
  const queue: QueueRow | null = oldest ? { atMs: oldest.requestedAtMs, count: queued.length } : null;
  return { queued, queue };
}

interface QueueRow {
  readonly atMs: number;
  readonly count: number;
}

interface TurnQueueOptions {
  readonly store: Store;
  readonly room: () => number;
  /** Starts the oldest turn of a session; returns false if a turn runs or waits for approval there. */
  readonly start: (id: string) => Promise<boolean>;
  readonly most: number;
  readonly onError: (error: unknown) => void;
}

const RETRY_AFTER_S = 30;

/** The queued turns of a store's sessions: any server with a free slot starts the oldest. */
export class TurnQueue {
  readonly #options: TurnQueueOptions;
  readonly #looking: Coalescer;

  constructor(options: TurnQueueOptions) {
    this.#options = options;
    this.#looking = new Coalescer(() => this.#inspectOnce(), options.onError);
  }

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
      `Cannot queue the turn: the limit of queued turns (${most}) is reached. Retry when some have begun.`,
      { "retry-after": String(RETRY_AFTER_S) },
    );
  }

  inspect(): Promise<void> {
    return this.#looking.run();
  }

  async #inspectOnce(): Promise<void> {
    while (this.#options.room() > 0 && await this.#startSome());
  }

  async #startSome(): Promise<boolean> {
    const { store, room, start } = this.#options;
    const rows = await this.#rows();
    if (rows.length === 0) return false;
    const asking = new Set((await store.sessionsWith("pendingApproval")).map(({ id }) => id));
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
    return rows.map(({ value, ...row }) => ({ ...row, value: value as QueueRow }));
  }
}

/** Most inputs that wait for the next model call of a running turn. */
const MAX_WAITING = 100;

const MAX_WAITING_CHARS = 16 * 2 ** 20;

/** Checks the number and size of waiting inputs, which each commit stores whole. @throws {HttpError} 429 */
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
