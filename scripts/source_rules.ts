/** A source file of the repository. */
export interface SourceFile {
  /** Path from the root, with forward slashes. */
  readonly path: string;
  readonly text: string;
}

/** Longest source file, in lines. */
export const MAX_LINES = 400;

/**
 * What is wrong with the repository's TypeScript files: one sentence for each file over {@linkcode MAX_LINES} lines
 * and for each file of a package with behaviour (a function or class, not only types, data and re-exports) that has
 * no test beside it.
 */
export function sourceFaults(files: readonly SourceFile[]): string[] {
  const paths = new Set(files.map((file) => file.path));
  const faults: string[] = [];
  for (const { path, text } of files) {
    const lines = text.split("\n").length - 1;
    if (lines > MAX_LINES) faults.push(`${path} has ${lines} lines: split it, ${MAX_LINES} are the limit.`);
    if (!needsTest(path)) continue;
    const test = path.replace(/\.ts$/, "_test.ts");
    if (hasBehaviour(text) && !paths.has(test)) {
      faults.push(`${path} has behaviour but no ${test} beside it.`);
    }
  }
  return faults;
}

function needsTest(path: string): boolean {
  return /^packages\/.*\.ts$/.test(path) && !/(_test|_bench|\.d)\.ts$/.test(path);
}

function hasBehaviour(text: string): boolean {
  const code = text
    .replaceAll(/\/\*[\s\S]*?\*\//g, "")
    .replaceAll(/^\s*\/\/.*$/gm, "")
    .replaceAll(/^(export )?type [\s\S]*?;$/gm, "")
    .replaceAll(/^(export )?interface [\s\S]*?^}$/gm, "");
  return /\bfunction\b|\bclass\s+\w+|=>/.test(code);
}
