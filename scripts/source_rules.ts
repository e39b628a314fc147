/** A source file of the repository, or a text whose examples import some. */
export interface SourceFile {
  /** Path from the root, with forward slashes. */
  readonly path: string;
  readonly text: string;
}

/** Most files that a type circle may have. */
export const MAX_CIRCLE = 3;

/** Where code of a package begins for those who name the package: paths of files by specifier. */
export type EntryPoints = ReadonlyMap<string, string>;

/**
 * What is wrong with the shape of the packages, a sentence for each: a type circle of over {@linkcode MAX_CIRCLE}
 * files; a name that several files export, each with a meaning of its own; a
 * public field that other files assign. Tests and benchmarks are left aside.
 */
export function sourceFaults(
  files: readonly SourceFile[],
  entryPoints: EntryPoints,
): string[] {
  const faults: string[] = [];
  for (const circle of typeCircles(files, entryPoints)) {
    if (circle.length <= MAX_CIRCLE) continue;
    faults.push(
      `${circle.length} files import each other in a circle, more than ${MAX_CIRCLE}: ${circle.join(", ")}.`,
    );
  }
  for (const [name, paths] of twofoldNames(files)) {
    faults.push(
      `${name} is exported with a meaning of its own by each of ${paths.join(", ")}: give each its name.`,
    );
  }
  for (const [owner, fields] of assignedFields(files, entryPoints)) {
    for (const { path, name, assignedBy } of fields) {
      faults.push(
        `${owner}.${name} of ${path} is assigned in ${assignedBy.join(", ")}: ` +
          "make it #private or readonly, and what changes it a method.",
      );
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
  return /^(packages|scripts|tests)\/.*\.tsx?$/.test(path) && !/(_test|_bench|\.d)\.tsx?$/.test(path);
}

/** The source files of the packages. */
export function packageSources(files: readonly SourceFile[]): SourceFile[] {
  return files.filter(({ path }) => path.startsWith("packages/") && isSource(path));
}

/**
 * What each source file of the packages imports of the others, for its types or more, re-exports and dynamic imports
 * included.
 */
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

/** The files that reach each other by their imports: the circles of two files and more, the largest first. */
export function typeCircles(files: readonly SourceFile[], entryPoints: EntryPoints): string[][] {
  const graph = importGraph(files, entryPoints);
  // Tarjan: the strongly connected components of the graph.
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

/** The names that several files of the packages define and export, with the files. Overloads count once. */
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

/** A field that isn't readonly. */
export interface AssignedField {
  /** The file that declares it. */
  readonly path: string;
  readonly name: string;
  /** Other files that import it, by itself or from a package, and assign a field of this name. */
  readonly assignedBy: readonly string[];
}

/** A class or an exported interface, as `deno fmt` lays it out. */
const BODY = /^(?:export )?(?:abstract )?class (\w+)(?:.*\{\}$|[^]*?^})|^export interface (\w+)[^]*?^}/gm;

/** A member that is public, no method, and not readonly. */
const FIELD =
  /^ {2}(?:override |declare )?(?!static |get |set |readonly |private |protected )(\w+)[?!]?(?: =|[:;])/gm;

/** The name of what is assigned, unless it is the object's own. */
const ASSIGNMENT =
  /(?<!\bthis)[?!]?\.(\w+)(?: (?:\*\*|<<|>>>?|&&|\|\||\?\?|[-+*/%&|^])?=(?![=>])|\+\+|--)|(?:\+\+|--|\bdelete )[\w.]+\.(\w+)/g;

/**
 * The public fields of classes and exported interfaces of the packages that other files assign, by the class or
 * interface. What is assigned is known by its name alone: a field that merely shares it is best readonly, and then the
 * compiler says the same.
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
  /** Whether a file imports another one, or an entry point that does. */
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

/** A text without the comments that have lines of their own. */
function code(text: string): string {
  return text.replaceAll(/^\s*\/\*[^]*?\*\//gm, "").replaceAll(/^\s*\/\/.*$/gm, "");
}
