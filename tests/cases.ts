/**
 * How many cases property tests generate, and from which seed. Tests import fast-check from here, so that a run of the
 * suite generates few cases, always the same. `TARE_TEST_CASES=20` generates twenty times as many from a seed of their
 * own, which `TARE_TEST_SEED` repeats. Holds no tests.
 *
 * @module
 */
import fc from "npm:fast-check@^4.10.2";

export default fc;

/** Multiplier of generated cases, rounds and sessions. */
export const CASE_FACTOR: number = read("TARE_TEST_CASES") ?? 1;

/** Seed of everything that tests draw at random. */
export const SEED: number = read("TARE_TEST_SEED") ??
  (CASE_FACTOR === 1 ? 1 : Math.floor(Math.random() * 2 ** 31));

/** Returns how many cases to run where `count` are enough for a quick run. */
export function cases(count: number): number {
  return Math.ceil(count * CASE_FACTOR);
}

/** Cases of a property whose test states no number. */
const DEFAULT_CASES = 100;

fc.configureGlobal({ seed: SEED, numRuns: cases(DEFAULT_CASES) });

function read(name: string): number | undefined {
  // Runtimes other than Deno run some of the tests too.
  const text = globalThis.Deno?.env?.get(name);
  if (!text) return undefined;
  const value = Number(text);
  if (Number.isFinite(value) && value > 0) return value;
  throw new Error(`${name} is "${text}", but it must be a number above 0`);
}
