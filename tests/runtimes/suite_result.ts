/** Result of a suite, as a runtime prints it in one line. */
export interface SuiteResult {
  /** Names of the passed tests, in order. */
  readonly passed: readonly string[];
  /** Names of the ignored tests. */
  readonly ignored: readonly string[];
  readonly failed: readonly { readonly name: string; readonly error: string }[];
}

/** Prefix of the line with a suite's result. */
export const MARK = "suite:";
