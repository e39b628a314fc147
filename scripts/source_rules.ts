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

/** Smallest share of a package's lines that tests run. */
export const MIN_COVERAGE = 0.95;

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

/**
 * What tests leave out, a sentence for each package of which they run less than {@linkcode MIN_COVERAGE} of the lines.
 * `lcov` is the report of `deno coverage --lcov`, others of the same form behind it, `root` the folder that its paths begin with. A file with code that no
 * test loads isn't in the report: all its lines count as left out, unless it is one of `programs`: tests
 * run these as processes of their own, and one that ends with `Deno.exit` tells nothing.
 */
export function coverageFaults(
  files: readonly SourceFile[],
  { lcov, root, programs }: {
    readonly lcov: string;
    readonly root: string;
    readonly programs: ReadonlySet<string>;
  },
): string[] {
  const packages = new Map<string, { found: number; hit: number; readonly files: [number, string][] }>();
  const report = readLcov(lcov, root);
  for (const { path, text } of files) {
    const name = /^packages\/([^/]+)\//.exec(path)?.[1];
    if (name === undefined || !isSource(path)) continue;
    const isUnseen = hasCode(text) && !programs.has(path);
    const { found, hit } = report.get(path) ?? { found: isUnseen ? lineCount(text) : 0, hit: 0 };
    const sum = packages.get(name) ?? { found: 0, hit: 0, files: [] };
    packages.set(name, sum);
    sum.found += found;
    sum.hit += hit;
    if (hit < found) sum.files.push([found - hit, path]);
  }
  return [...packages].filter(([, { found, hit }]) => hit < found * MIN_COVERAGE).map(([name, sum]) => {
    const worst = sum.files.sort(([a], [b]) => b - a).slice(0, 5).map(([missed, path]) =>
      `${path} ${missed}`
    );
    return `Tests run ${percent(sum)} of the lines of ${name}, less than ${100 * MIN_COVERAGE} %. ` +
      `Left out most: ${worst.join(", ")}.`;
  });
}

/** Rounded down, so that what isn't enough never looks so. */
function percent({ hit, found }: { readonly hit: number; readonly found: number }): string {
  return `${(Math.floor(1000 * hit / found) / 10).toFixed(1)} %`;
}

/** Of each file its lines, and whether any of the reports that tell of it says that they ran. */
function readLcov(lcov: string, root: string): Map<string, { found: number; hit: number }> {
  const files = new Map<string, Map<string, boolean>>();
  let lines = new Map<string, boolean>();
  for (const line of lcov.split("\n")) {
    const [field, value = ""] = line.split(/:(.*)/s);
    if (field === "SF") {
      const path = value.replaceAll("\\", "/").replace(root, "");
      lines = files.get(path) ?? new Map();
      files.set(path, lines);
    } else if (field === "DA") {
      const [number = "", count] = value.split(",");
      lines.set(number, count !== "0" || lines.get(number) === true);
    }
  }
  return new Map(
    [...files].map(([path, lines]) => [
      path,
      { found: lines.size, hit: [...lines.values()].filter(Boolean).length },
    ]),
  );
}

function lineCount(text: string): number {
  return text.split("\n").length - 1;
}

function isSource(path: string): boolean {
  return /^(packages|scripts|tests)\/.*\.tsx?$/.test(path) && !/(_test|_bench|\.d)\.ts$/.test(path);
}

/** Whether anything of a file runs: it holds more than types, data and re-exports. */
function hasCode(text: string): boolean {
  const code = text
    .replaceAll(/\/\*[\s\S]*?\*\//g, "")
    .replaceAll(/^\s*\/\/.*$/gm, "")
    .replaceAll(/^(export )?type [\s\S]*?;$/gm, "")
    .replaceAll(/^(export )?interface [\s\S]*?^}$/gm, "");
  return /\bfunction\b|\bclass\s+\w+|=>/.test(code);
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
