/** A source file, or a Markdown file whose examples contain imports. */
export interface SourceFile {
  readonly path: string;
  readonly text: string;
}

export const MAX_CYCLE = 3;

/** Paths of entry points by specifier. */
export type EntryPoints = ReadonlyMap<string, string>;

/**
 * Returns faults in the structure of the packages: a type cycle of more than {@linkcode MAX_CYCLE} files, a name exported
 * with several meanings, a public field that other files assign. Tests and benchmarks are ignored.
 */
export function sourceFaults(
  files: readonly SourceFile[],
  entryPoints: EntryPoints,
): string[] {
  const faults: string[] = [];
  for (const circle of typeCycles(files, entryPoints)) {
    if (circle.length <= MAX_CYCLE) continue;
    faults.push(
      `${circle.length} files import each other in a cycle, more than ${MAX_CYCLE}: ${circle.join(", ")}.`,
    );
  }
  for (const [name, paths] of twofoldNames(files)) {
    faults.push(
      `${name} is exported with different meanings by ${paths.join(", ")}: rename all but one.`,
    );
  }
  for (const [owner, fields] of assignedFields(files, entryPoints)) {
    for (const { path, name, assignedBy } of fields) {
      faults.push(
        `${owner}.${name} of ${path} is assigned in ${assignedBy.join(", ")}: ` +
          "make it #private or readonly, and change it by a method.",
      );
    }
  }
  return faults;
}

export function lineCount(text: string): number {
  return text.split("\n").length - 1;
}

/** Returns whether a file is source: no test, benchmark or declaration. */
export function isSource(path: string): boolean {
  return /^(packages|scripts|tests)\/.*\.tsx?$/.test(path) && !/(_test|_bench|\.d)\.tsx?$/.test(path);
}

export function packageSources(files: readonly SourceFile[]): SourceFile[] {
  return files.filter(({ path }) => path.startsWith("packages/") && isSource(path));
}

/** Returns the package source files that each one imports, including type imports, re-exports and dynamic imports. */
export function importGraph(
  files: readonly SourceFile[],
  entryPoints: EntryPoints,
): ReadonlyMap<string, ReadonlySet<string>> {
  const sources = packageSources(files);
  const paths = new Set(sources.map(({ path }) => path));
  return new Map(sources.map(({ path, text }) => {
    const imported = new Set<string>();
    for (const [, specifier = ""] of code(text).matchAll(/(?:\bfrom|\bimport|\bimport\()\s*"([^"]*)"/g)) {
      const target = specifier.startsWith(".")
        ? new URL(specifier, `file:///${path}`).pathname.slice(1)
        : entryPoints.get(specifier);
      if (target !== undefined && target !== path && paths.has(target)) imported.add(target);
    }
    return [path, imported];
  }));
}

export function typeCycles(files: readonly SourceFile[], entryPoints: EntryPoints): string[][] {
  const graph = importGraph(files, entryPoints);
  // Tarjan's algorithm: strongly connected components.
  const indices = new Map<string, number>();
  const open: string[] = [];
  const circles: string[][] = [];
  const visit = (path: string): number => {
    const index = indices.size;
    indices.set(path, index);
    open.push(path);
    let low = index;
    for (const target of graph.get(path) ?? []) {
      if (!indices.has(target)) low = Math.min(low, visit(target));
      else if (open.includes(target)) low = Math.min(low, indices.get(target) ?? low);
    }
    if (low === index) {
      const circle = open.splice(open.indexOf(path));
      if (circle.length > 1) circles.push(circle.sort());
    }
    return low;
  };
  for (const path of graph.keys()) if (!indices.has(path)) visit(path);
  return circles.sort((a, b) => b.length - a.length);
}

const DEFINITION =
  /^export (?:declare )?(?:abstract )?(?:async )?(?:function\*?|class|interface|type|const|let|enum) (\w+)/gm;

/** Returns the names that several package files define and export, with the files. Overloads count once. */
export function twofoldNames(files: readonly SourceFile[]): Map<string, string[]> {
  const definers = new Map<string, Set<string>>();
  for (const { path, text } of packageSources(files)) {
    for (const [, name = ""] of code(text).matchAll(DEFINITION)) {
      definers.set(name, (definers.get(name) ?? new Set()).add(path));
    }
  }
  return new Map(
    [...definers].filter(([, paths]) => paths.size > 1)
      .map(([name, paths]): [string, string[]] => [name, [...paths].sort()])
      .sort(([a], [b]) => a < b ? -1 : 1),
  );
}

export interface AssignedField {
  readonly path: string;
  readonly name: string;
  /** Files that import it, directly or from a package, and assign a field of this name. */
  readonly assignedBy: readonly string[];
}

/** A class or an exported interface in the layout of `deno fmt`. */
const BODY = /^(?:export )?(?:abstract )?class (\w+)(?:.*\{\}$|[^]*?^})|^export interface (\w+)[^]*?^}/gm;

/** A public member that is neither a method nor readonly. */
const FIELD =
  /^ {2}(?:override |declare )?(?!static |get |set |readonly |private |protected )(\w+)[?!]?(?: =|[:;])/gm;

/** Name of an assigned field, except of `this`. */
const ASSIGNMENT =
  /(?<!\bthis)[?!]?\.(\w+)(?: (?:\*\*|<<|>>>?|&&|\|\||\?\?|[-+*/%&|^])?=(?![=>])|\+\+|--)|(?:\+\+|--|\bdelete )[\w.]+\.(\w+)/g;

/**
 * Returns public fields of classes and exported interfaces that other files assign, by owner. Assignments are matched by
 * name only; make a field that merely shares the name readonly.
 */
export function assignedFields(
  files: readonly SourceFile[],
  entryPoints: EntryPoints,
): Map<string, AssignedField[]> {
  const graph = importGraph(files, entryPoints);
  const sources = packageSources(files).map(({ path, text }) => ({ path, text: code(text) }));
  const assigners = new Map<string, Set<string>>();
  for (const { path, text } of sources) {
    for (const [, after, before] of text.matchAll(ASSIGNMENT)) {
      const name = after ?? before ?? "";
      assigners.set(name, (assigners.get(name) ?? new Set()).add(path));
    }
  }
  const begins = new Set(entryPoints.values());
  const imports = (other: string, path: string) =>
    [...graph.get(other) ?? []].some((target) =>
      target === path || (begins.has(target) && graph.get(target)?.has(path))
    );
  const owners = new Map<string, AssignedField[]>();
  for (const { path, text } of sources) {
    for (const [body, ofClass, ofInterface] of text.matchAll(BODY)) {
      const owner = ofClass ?? ofInterface ?? "";
      for (const [, name = ""] of body.matchAll(FIELD)) {
        const assignedBy = [...assigners.get(name) ?? []]
          .filter((other) => imports(other, path))
          .sort();
        if (assignedBy.length > 0) {
          owners.set(owner, [...owners.get(owner) ?? [], { path, name, assignedBy }]);
        }
      }
    }
  }
  return owners;
}

function code(text: string): string {
  return text.replaceAll(/^\s*\/\*[^]*?\*\//gm, "").replaceAll(/^\s*\/\/.*$/gm, "");
}
