/** Multiplier of generated cases, rounds and sessions, from the variable `TARE_TEST_CASES`. Default: 1. */
export const CASE_FACTOR: number = Number(Deno.env.get("TARE_TEST_CASES") || 1);
