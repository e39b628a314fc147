export interface SuiteResult {
  readonly passed: readonly string[];
  readonly ignored: readonly string[];
  readonly failed: readonly { readonly name: string; readonly error: string }[];
}

export const MARK = "suite:";
