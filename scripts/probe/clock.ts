export interface Clock {
  /** Milliseconds since 1970. */
  readonly now: () => number;
  readonly wait: (ms: number) => Promise<void>;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  wait: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
};

export function simulatedClock(startMs: number): Clock {
  let nowMs = startMs;
  return {
    now: () => nowMs,
    wait(ms) {
      nowMs += ms;
      return Promise.resolve();
    },
  };
}

const UNITS = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1_000 } as const;

/**
 * Parses a duration such as `30s`, `5m`, `2h` or `1d` into milliseconds.
 *
 * @throws {RangeError} with flag, text and valid values.
 */
export function readDuration(flag: string, text: string): number {
  const [, number, unit] = /^(\d+)([smhd])$/.exec(text) ?? [];
  const ms = Number(number) * UNITS[unit as keyof typeof UNITS];
  if (ms > 0) return ms;
  throw new RangeError(
    `Cannot start: ${flag} is ${JSON.stringify(text)}, but it must be a time such as 30s, 5m, 2h or 1d.`,
  );
}

export function formatDuration(ms: number): string {
  let left = Math.round(ms / 1_000) * 1_000;
  const parts: string[] = [];
  for (const [unit, unitMs] of Object.entries(UNITS)) {
    const number = Math.floor(left / unitMs);
    left -= number * unitMs;
    if (number > 0) parts.push(`${number}${unit}`);
  }
  return parts.slice(0, 2).join(" ") || "0s";
}
