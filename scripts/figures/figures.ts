/**
 * Prints metrics of the code: files that a request enters, type cycles, names, packages, lines, and files per commit.
 * `--list` prints the counted items; `--since COMMIT` counts the commits after that one.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { parseArgs } from "node:util";
import { publicApiFaults, readPublicApi } from "../public_api.ts";
import { entryPoints, members, programs, published, root, sourceFiles } from "../repository.ts";
import {
  assignedFields,
  importGraph,
  lineCount,
  packageSources,
  type SourceFile,
  twofoldNames,
  typeCycles,
} from "../source_rules.ts";
import { measureWalks, walkSize } from "./walks.ts";

const { list, since } = parseArgs({
  options: { list: { type: "boolean" }, since: { type: "string" } },
}).values;

const COMMIT_LINES = [60, 200] as const;

const files = await sourceFiles();
const sources = packageSources(files);
const entries = new Map(members.flatMap((member) => [...entryPoints(member)]));
const walks = await measureWalks();
const circles = typeCycles(files, entries);
const names = twofoldNames(files);
const fields = assignedFields(files, entries);

console.log("Per request: files, planner files, functions");
for (const walk of walks) {
  const { files, planner, functions } = walkSize(walk);
  console.log(`  ${walk.kind.padEnd(26)} ${row(files, planner, functions)}`);
  const entered = Map.groupBy(walk.functions, ({ path }) => path);
  detail(
    [...entered].sort().map(([path, inside]) =>
      `${path}: ${inside.map(({ name }) => name).filter(Boolean).join(", ")}`
    ),
  );
}

const lines = new Map(sources.map(({ path, text }) => [path, lineCount(text)]));
const linesOf = (circle: readonly string[]) => circle.reduce((sum, path) => sum + (lines.get(path) ?? 0), 0);
say("Type cycles; files and lines of the largest", [
  circles.length,
  circles[0]?.length ?? 0,
  linesOf(circles[0] ?? []),
]);
detail(circles.map((circle) => `${circle.length} files, ${linesOf(circle)} lines: ${circle.join(", ")}`));

for (const [what, internal] of [["Public", false], ["Internal", true]] as const) {
  const apis = await readPublicApi({ internal });
  say(`${what} names of published packages`, [apis.flatMap(({ symbols }) => symbols).length]);
  detail(
    apis.map(({ name, symbols }) =>
      `${name} ${symbols.length}: ${symbols.map(({ name }) => name).join(", ")}`
    ),
  );
  if (internal) continue;
  const faults = apis.flatMap(publicApiFaults);
  say("Public functions without an example, types without a name", [faults.length]);
  detail(faults);
}

say("Names exported with several meanings", [names.size]);
detail([...names].map(([name, paths]) => `${name}: ${paths.join(", ")}`));

say("Public fields that other files assign", [[...fields.values()].flat().length]);
detail([...fields].map(([owner, own]) => `${owner}: ${own.map(({ name }) => name).join(", ")}`));

const unpublished = members.filter((member) => member.publish === false);
say("Published and unpublished packages", [published.length, unpublished.length]);
detail([published, unpublished].map((some) => some.map(({ name }) => name).join(", ")));

say("Source files of packages/ and their lines", [sources.length, linesOf([...lines.keys()])]);

const lone = filesOfOneImporter(files);
say("Files with one importer, in percent", [Math.round(100 * lone.length / sources.length)]);
detail(lone);

const touched = await filesOfCommits();
say(`Files that a commit of ${COMMIT_LINES.join(" to ")} lines touches, median; such commits`, [
  touched[touched.length >> 1] ?? 0,
  touched.length,
]);

function say(what: string, values: readonly number[]): void {
  console.log(`${what.padEnd(72)} ${row(...values)}`);
}

function row(...values: readonly number[]): string {
  return values.map((figure) => String(figure).padStart(6)).join("");
}

function detail(what: readonly string[]): void {
  if (list) { for (const one of what) console.log(`    ${one}`); }
}

function filesOfOneImporter(files: readonly SourceFile[]): string[] {
  const importers = new Map<string, number>();
  for (const imported of importGraph(files, entries).values()) {
    for (const path of imported) importers.set(path, (importers.get(path) ?? 0) + 1);
  }
  const begins = new Set([...entries.values(), ...programs()]);
  for (const { path, text } of files) {
    for (const [, program = ""] of text.matchAll(/\bURL\(\s*"([^":]+\.tsx?)"/g)) {
      begins.add(new URL(program, `file:///${path}`).pathname.slice(1));
    }
  }
  return [...importers].filter(([path, count]) => count === 1 && !begins.has(path)).map(([path]) => path)
    .sort();
}

async function filesOfCommits(): Promise<number[]> {
  const { stdout } = await new Deno.Command("git", {
    args: [
      "log",
      "--no-merges",
      "--numstat",
      "--format=%x00",
      ...(since ? [`${since}..HEAD`] : []),
      "packages",
    ],
    cwd: root,
  }).output();
  const [least, most] = COMMIT_LINES;
  return new TextDecoder().decode(stdout).split("\0").flatMap((commit) => {
    const changes = [...commit.matchAll(/^(\d+)\t(\d+)\t(.+)$/gm)].filter(([, , , path = ""]) =>
      packageSources([{ path, text: "" }]).length > 0
    );
    const changed = changes.reduce((sum, [, added, removed]) => sum + Number(added) + Number(removed), 0);
    return changed >= least && changed <= most ? [changes.length] : [];
  }).sort((a, b) => a - b);
}
