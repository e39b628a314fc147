import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "@std/path";

const CLOCK_FILE = "clock.json";

const DAY_MS = 24 * 60 * 60_000;

/** Largest believed advance of the clock between two readings, in days. */
const MAX_STEP_DAYS = 7;

interface Reading {
  /** Milliseconds since the epoch. */
  readonly seenMs: number;
  /** Part of the reading that isn't believed, in milliseconds. */
  readonly lagMs: number;
}

/**
 * Returns a function that returns how far sessions' ages lag behind the clock, in milliseconds, so that a wrong clock
 * deletes no sessions. An advance of more than a week between two readings counts as a week. The lag shrinks while a
 * server runs, and when the clock is set back.
 *
 * @param options `newestMs`: creation time of the newest stored session, in milliseconds since the epoch.
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
        `The clock is ${Math.floor(stepMs / DAY_MS)} days ahead of its last reading, ${day(last.seenMs)}: ` +
          `sessions expire as if ${MAX_STEP_DAYS} days had passed, the others as the server runs. If the clock ` +
          "is wrong, correct it.",
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

function read(path: string): Reading | undefined {
  try {
    const { seenMs, lagMs } = JSON.parse(readFileSync(path, "utf8"));
    return Number.isFinite(seenMs) && lagMs >= 0 ? { seenMs, lagMs } : undefined;
  } catch {
    return undefined;
  }
}

function write(path: string, seen: Reading): void {
  try {
    writeFileSync(`${path}.new`, JSON.stringify(seen), { mode: 0o600 });
    renameSync(`${path}.new`, path);
  } catch {
    // Without the new reading the next step is longer, which deletes less.
  }
}
