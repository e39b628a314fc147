/** A source file of the repository, or a text whose examples import some. */
export interface SourceFile {
  /** Path from the root, with forward slashes. */
  readonly path: string;
  readonly text: string;
}

/** Longest source file, in lines. */
export const MAX_LINES = 400;

/** A source file under so many lines is no file of its own unless several others import it. */
export const SMALL_LINES = 40;

/** Most source files that stand in one folder. */
export const MAX_FOLDER = 16;

/**
 * What is wrong with the shape of the repository, a sentence for each: a file over {@linkcode MAX_LINES} lines; a file
 * under {@linkcode SMALL_LINES} lines that fewer than two others import; a folder of more than
 * {@linkcode MAX_FOLDER} source files. Tests and benchmarks count as neither, except that what stands beside `packages`
 * may be there for tests alone. Programs are left aside: `entries`, and what is named by a `URL`.
 */
export function sourceFaults(
  files: readonly SourceFile[],
  { entries }: { readonly entries: ReadonlySet<string> },
): string[] {
  const faults: string[] = [];
  const importers = namedBy(files, "import");
  const programs = namedBy(files, "URL");
  const folders = new Map<string, number>();
  for (const { path, text } of files) {
    if (!/\.tsx?$/.test(path)) continue;
    const lines = lineCount(text);
    if (lines > MAX_LINES) faults.push(`${path} has ${lines} lines: split it, ${MAX_LINES} are the limit.`);
    if (!isSource(path)) continue;
    const folder = path.slice(0, path.lastIndexOf("/"));
    folders.set(folder, (folders.get(folder) ?? 0) + 1);
    if (lines >= SMALL_LINES || entries.has(path) || programs.has(path) || path.endsWith("/mod.ts")) continue;
    const users = [...importers.get(path) ?? []].filter((user) =>
      isSource(user) || !path.startsWith("packages/")
    );
    if (users.length > 1) continue;
    const user = users[0] === undefined ? "no source file imports it" : `only ${users[0]} imports it`;
    faults.push(
      `${path} has ${lines} lines and ${user}: a file wants ${SMALL_LINES} lines or two importers.`,
    );
  }
  for (const [folder, count] of folders) {
    if (count > MAX_FOLDER) {
      faults.push(`${folder} has ${count} source files: give it folders, ${MAX_FOLDER} are the limit.`);
    }
  }
  return faults;
}

/** The lines of a text that ends with a line break. */
export function lineCount(text: string): number {
  return text.split("\n").length - 1;
}

/** Whether a file is of the program, of a script or a help of tests: no test, benchmark or declaration. */
export function isSource(path: string): boolean {
  return /^(packages|scripts|tests)\/.*\.tsx?$/.test(path) && !/(_test|_bench|\.d)\.ts$/.test(path);
}

/** Who names each file by a relative path, in an import or re-export or as the `URL` of a program to run. */
function namedBy(files: readonly SourceFile[], how: "import" | "URL"): Map<string, Set<string>> {
  const words = how === "URL"
    ? /\bURL\(\s*"([^":]+\.tsx?)"/g
    : /(?:\bfrom|\bimport|\bimport\()\s*"(\.[^"]*)"/g;
  const users = new Map<string, Set<string>>();
  for (const { path, text } of files) {
    for (const [, specifier = ""] of text.matchAll(words)) {
      const target = new URL(specifier, `file:///${path}`).pathname.slice(1);
      users.set(target, (users.get(target) ?? new Set()).add(path));
    }
  }
  return users;
}
