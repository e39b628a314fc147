import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "@std/path";

/** The file of a data folder that says when its server last looked at the clock. */
const CLOCK_FILE = "clock.json";

const DAY_MS = 24 * 60 * 60_000;

/** So far a clock may have gone on while no server looked at it, in days. */
const MAX_STEP_DAYS = 7;

/** What is known of a clock. */
interface Seen {
  /** What it showed last, in milliseconds since the epoch. */
  readonly seenMs: number;
  /** How much of that isn't believed, in milliseconds. */
  readonly lagMs: number;
}

/**
 * Makes a function that says by how much less than the clock shows sessions have aged, in milliseconds: nobody's sessions
 * shall go because a clock is wrong. Of a step of more than a week while no server looked at it a week counts. The rest
 * is made up for as time goes by that a server has seen, once more as fast; at once where the clock goes back.
 *
 * @param folder The data folder, which keeps what is known from one server to the next.
 * @param options `newestMs`: when the newest of what is stored was made, in milliseconds since the epoch.
 */
export function expiryClock(
  folder: string,
  { newestMs, now, log }: {
    readonly newestMs: number | undefined;
    readonly now: () => number;
    readonly log: (sentence: string) => void;
  },
): () => number {
  const path = join(folder, CLOCK_FILE);
  let last = read(path) ?? { seenMs: newestMs ?? now(), lagMs: 0 };
  return () => {
    const seenMs = now();
    const stepMs = seenMs - last.seenMs;
    const most = MAX_STEP_DAYS * DAY_MS;
    const lagMs = stepMs > most ? last.lagMs + stepMs - most : Math.max(0, last.lagMs - Math.abs(stepMs));
    if (stepMs > most) {
      log(
        `The clock is ${Math.floor(stepMs / DAY_MS)} days ahead of ${
          day(last.seenMs)
        }, the last that is known: ` +
          `sessions expire as if ${MAX_STEP_DAYS} had gone by, and others not before the server has run as long. If it ` +
          "is wrong, set it right.",
      );
    }
    last = { seenMs, lagMs };
    write(path, last);
    return lagMs;
  };
}

function day(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

function read(path: string): Seen | undefined {
  try {
    const { seenMs, lagMs } = JSON.parse(readFileSync(path, "utf8"));
    return Number.isFinite(seenMs) && lagMs >= 0 ? { seenMs, lagMs } : undefined;
  } catch {
    return undefined;
  }
}

function write(path: string, seen: Seen): void {
  try {
    writeFileSync(`${path}.new`, JSON.stringify(seen), { mode: 0o600 });
    renameSync(`${path}.new`, path);
  } catch {
    // What was known before makes the next step longer, which deletes less.
  }
}
