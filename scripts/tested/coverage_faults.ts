import { isSource, lineCount, type SourceFile } from "../source_rules.ts";

/** Smallest share of a package's lines that tests must run. */
export const MIN_COVERAGE = 0.95;

/**
 * Returns a sentence for each package with less than {@linkcode MIN_COVERAGE} covered lines. `lcov` is from {@linkcode
 * readCoverage}, `root` the prefix of its paths. Files with code that no test loads count as uncovered, except `programs`:
 * tests run these as processes, and one that ends with `Deno.exit` reports no coverage.
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
      `Most uncovered lines: ${worst.join(", ")}.`;
  });
}

/** Returns a percentage, rounded down so that it never appears sufficient when it isn't. */
function percent({ hit, found }: { readonly hit: number; readonly found: number }): string {
  return `${(Math.floor(1000 * hit / found) / 10).toFixed(1)} %`;
}

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

function hasCode(text: string): boolean {
  const code = text
    .replaceAll(/\/\*[\s\S]*?\*\//g, "")
    .replaceAll(/^\s*\/\/.*$/gm, "")
    .replaceAll(/^(export )?type [\s\S]*?;$/gm, "")
    .replaceAll(/^(export )?interface [\s\S]*?^}$/gm, "");
  return /\bfunction\b|\bclass\s+\w+|=>/.test(code);
}
