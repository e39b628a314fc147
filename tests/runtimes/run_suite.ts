/** Collects a bundle's tests from `Deno.test`, on any runtime, for `main`. */

import { MARK, type SuiteResult } from "./suite_result.ts";

interface SuiteTest {
  readonly name: string;
  readonly ignore?: boolean;
  readonly fn: () => unknown;
}

const tests: SuiteTest[] = [];

/** Stub of Deno with only its test registration: a package that needs more fails. */
const stand = {
  test: (
    nameOrTest: string | SuiteTest,
    ...rest: readonly [...Partial<SuiteTest>[], SuiteTest["fn"]] | []
  ) => {
    const given = typeof nameOrTest === "string" ? { name: nameOrTest, fn: () => {} } : nameOrTest;
    const [fn = given.fn, options = {}] = rest.toReversed() as [SuiteTest["fn"]?, Partial<SuiteTest>?];
    tests.push({ ...given, ...options, fn });
  },
  /** Rejects as without files: tests of the recordings are ignored. */
  stat: () => Promise.reject(new Error("no files")),
};
// Deno creates it at the first access, with all that Deno has.
void Reflect.get(globalThis, "process");
Object.defineProperty(globalThis, "Deno", { value: stand, configurable: true });

/** Runs the tests one by one and prints their outcomes. */
export async function main(): Promise<void> {
  const passed: string[] = [];
  const failed: { name: string; error: string }[] = [];
  for (const { name, fn } of tests.filter(({ ignore }) => !ignore)) {
    try {
      await fn();
      passed.push(name);
    } catch (error) {
      failed.push({ name, error: String((error as Error)?.stack ?? error) });
    }
  }
  const ignored = tests.filter(({ ignore }) => ignore).map(({ name }) => name);
  const result: SuiteResult = { passed, ignored, failed };
  // deno-lint-ignore no-console -- One line for the parent process.
  console.log(MARK + JSON.stringify(result));
}
