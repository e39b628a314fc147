/**
 * Sets how many cases property tests generate, and their seed. Tests import fast-check from here, so that
 * the suite runs a few, always the same. `TARE_TEST_CASES=20` runs twenty times as many with a random seed,
 * which `TARE_TEST_SEED` repeats.
 *
 * @module
 */
import fc from "npm:fast-check@^4.10.2";

export default fc;

/** Multiplier of generated cases, rounds and sessions. */
export const CASE_FACTOR: number = read("TARE_TEST_CASES") ?? 1;

export const SEED: number = read("TARE_TEST_SEED") ??
  (CASE_FACTOR === 1 ? 1 : Math.floor(Math.random() * 2 ** 31));

/** Returns the number of cases, given the one for a quick run. */
export function cases(count: number): number {
  return Math.ceil(count * CASE_FACTOR);
}

const DEFAULT_CASES = 100;

fc.configureGlobal({ seed: SEED, numRuns: cases(DEFAULT_CASES) });

function read(name: string): number | undefined {
  // Some of the tests also run on other runtimes.
  const text = globalThis.Deno?.env?.get(name);
  if (!text) return undefined;
  const value = Number(text);
  if (Number.isFinite(value) && value > 0) return value;
  throw new Error(`Cannot run tests: ${name} is "${text}", but it must be a number above 0.`);
}
