/** What became of a suite, as a runtime prints it in one line. */
export interface SuiteResult {
  /** Names of the tests that passed, in their order. */
  readonly passed: readonly string[];
  /** Names of the tests that are left out. */
  readonly ignored: readonly string[];
  readonly failed: readonly { readonly name: string; readonly error: string }[];
}

/** Begins the line in which a runtime tells what became of a suite. */
export const MARK = "suite:";
