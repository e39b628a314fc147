import type { Sessions } from "../sessions/sessions.ts";
import { HttpError } from "../http/http_error.ts";
import { denials } from "./questions.ts";

/** What the timers need of the sessions. */
export interface TimedSessions {
  readonly sessions: Pick<Sessions, "get">;
  /** The time in milliseconds since the epoch. */
  readonly now: () => number;
  /** Calls back after so many milliseconds, until the function that it returns is called. */
  readonly after: (ms: number, work: () => void) => () => void;
  /** Told when a session can't be told that its time is over; it is tried again. */
  readonly onError: (error: unknown) => void;
}

/** After which time an answer that couldn't be given is tried again, in milliseconds. */
const AGAIN_MS = 10_000;

/** Longest delay of a timer, in milliseconds: more fires at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Says no for those who haven't answered in time: each session that asks has a timer. */
export class ApprovalTimers {
  readonly #options: TimedSessions;
  readonly #timers = new Map<string, { readonly untilMs: number; readonly stop: () => void }>();

  /** No session asks. */
  constructor(options: TimedSessions) {
    this.#options = options;
  }

  /** Until when the session of this id waits for an answer; nothing if it doesn't ask. */
  set(id: string, untilMs: number | undefined): void {
    if (this.#timers.get(id)?.untilMs === untilMs) return;
    this.#timers.get(id)?.stop();
    this.#timers.delete(id);
    if (untilMs === undefined) return;
    const { now, after } = this.#options;
    this.#arm(id, { untilMs, ms: Math.max(0, untilMs - now()), after });
  }

  /** Waits for nothing any more. */
  close(): void {
    for (const { stop } of this.#timers.values()) stop();
    this.#timers.clear();
  }

  #arm(
    id: string,
    { untilMs, ms, after }: Pick<TimedSessions, "after"> & { readonly untilMs: number; readonly ms: number },
  ): void {
    const { sessions, onError } = this.#options;
    const end = async () => {
      const session = await sessions.get(id);
      // A turn that goes on asks nobody again: it would come to an end never, and cost each time.
      await session.answer((questions) => denials(questions, "time", untilMs), { unattended: "deny" });
    };
    const again = (ms: number) => this.#arm(id, { untilMs, ms, after });
    const timer = {
      untilMs,
      stop: after(Math.min(ms, MAX_TIMER_MS), () => {
        if (ms > MAX_TIMER_MS) return again(ms - MAX_TIMER_MS);
        end().catch((error) => {
          if (this.#timers.get(id) !== timer) return;
          this.#timers.delete(id);
          // Of one that was deleted meanwhile nobody waits for an answer.
          if (error instanceof HttpError && error.status === 404) return;
          onError(error);
          again(AGAIN_MS);
        });
      }),
    };
    this.#timers.set(id, timer);
  }
}
