/**
 * Stands in front of the tests of a package in one bundle: takes them from `Deno.test`, whatever the runtime, and runs
 * them when `main` is called.
 */

import { MARK, type SuiteResult } from "./suite_result.ts";

interface SuiteTest {
  readonly name: string;
  readonly ignore?: boolean;
  readonly fn: () => unknown;
}

const tests: SuiteTest[] = [];

/** Nothing of Deno but its way to name a test: a package that needs more of it shows. */
const stand = {
  test: (
    nameOrTest: string | SuiteTest,
    ...rest: readonly [...Partial<SuiteTest>[], SuiteTest["fn"]] | []
  ) => {
    const given = typeof nameOrTest === "string" ? { name: nameOrTest, fn: () => {} } : nameOrTest;
    const [fn = given.fn, options = {}] = rest.toReversed() as [SuiteTest["fn"]?, Partial<SuiteTest>?];
    tests.push({ ...given, ...options, fn });
  },
  /** There are no files: what wants the recordings is left out, as where they are missing. */
  stat: () => Promise.reject(new Error("no files")),
};
// Deno makes it when it is first asked for, with all that Deno has.
void Reflect.get(globalThis, "process");
Object.defineProperty(globalThis, "Deno", { value: stand, configurable: true });

/** Runs the tests one by one and prints what became of them. */
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
  // deno-lint-ignore no-console -- One line for whoever started this.
  console.log(MARK + JSON.stringify(result));
}
