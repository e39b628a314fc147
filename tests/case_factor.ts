/** Multiplier of generated cases, rounds and sessions, from the variable `TARE_TEST_CASES`. Default: 1. */
export const CASE_FACTOR: number = Number(Deno.env.get("TARE_TEST_CASES") || 1);

/** Seed of what is drawn at random, from the variable `TARE_TEST_SEED`. Default: 1. */
export const TEST_SEED: number = Number(Deno.env.get("TARE_TEST_SEED") || 1);
