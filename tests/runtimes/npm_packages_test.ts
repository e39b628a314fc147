import { assert, assertEquals } from "@std/assert";
import { join } from "@std/path";
import { PUBLISHED } from "../../scripts/pack_npm.ts";
import { entryPoints, published } from "../../scripts/repository.ts";
import { bundleInProject, npmProject } from "./npm_project.ts";
import { checkTypes, PURE, RUNTIMES } from "./runtimes.ts";

const folder = await Deno.makeTempDir();
globalThis.addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));

let installed:
  | Promise<{ readonly folder: string; readonly scripts: ReadonlyMap<string, readonly string[]> }>
  | undefined;
const project = () =>
  installed ??= (async () => {
    const empty = await Deno.makeTempDir({ dir: folder });
    return { folder: empty, scripts: await npmProject(empty, PUBLISHED) };
  })();

Deno.test("npm packages: TypeScript finds their types", async () => {
  const { folder, scripts } = await project();
  const { ok, output } = await checkTypes(folder, PUBLISHED.flatMap((name) => scripts.get(name) ?? []));
  assert(ok, output);
});

/** Entry points with only types: their modules are empty, unless a bundler adds to them. */
const TYPES_ALONE = ["@tare/adapters/types"];

for (const runtime of RUNTIMES) {
  Deno.test(`${runtime.name}: each entry point of the npm packages can be imported`, async () => {
    const { folder } = await project();
    // Packages that need files or sockets run where these exist.
    const everywhere = [...PURE, "adapters"].map((name) => `@tare/${name}`);
    const entries = published.filter(({ name }) => runtime.runScript || everywhere.includes(name))
      .flatMap((member) => [...entryPoints(member).keys()]);
    const imports = entries.map((entry, at) => `import * as entry${at} from ${JSON.stringify(entry)};\n`);
    const all = entries.map((entry, at) => `${JSON.stringify(entry)}: entry${at}`).join(", ");
    const print = `console.log(Object.entries({ ${all} }).filter(([, one]) => Object.keys(one).length > 0)` +
      `.map(([name]) => name).join("\\n"));`;
    const script = join(folder, `imports_on_${runtime.name}.mjs`);
    await Deno.writeTextFile(script, `${imports.join("")}export const main = () => { ${print} };\n`);
    const { ok, output } = await runtime.runMain(
      runtime.runScript ? script : await bundleInProject(folder, script),
    );
    assert(ok, output);
    const withValues = (names: readonly string[]) => names.filter((name) => !TYPES_ALONE.includes(name));
    const found = output.split("\n").filter((line) => line.startsWith("@tare/"));
    assertEquals(withValues(found), withValues(entries));
  });
}

for (const name of PUBLISHED) {
  for (const { name: runtime, runScript } of RUNTIMES) {
    if (!runScript) continue;
    Deno.test(`${runtime}: the examples of ${name}'s README run with the npm packages`, async () => {
      const scripts = (await project()).scripts.get(name) ?? [];
      assert(scripts.length > 0);
      for (const script of scripts) {
        const { ok, output } = await runScript(script);
        assert(ok, output);
      }
    });
  }
}
