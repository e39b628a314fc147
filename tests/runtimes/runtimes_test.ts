import { bundle, bundleSuite, runSuite } from "./suite.ts";
import { assert, assertEquals } from "@std/assert";
import { checkTypes, DENO, type Runtime, RUNTIMES } from "./runtimes.ts";
import type { SuiteResult } from "./suite_result.ts";
import { fromFileUrl, join } from "@std/path";
import { bundleInProject, npmProject } from "./npm_project.ts";
import { entryPoints, published } from "../../scripts/repository.ts";
import { PUBLISHED } from "../../scripts/pack_npm.ts";

const PURE = ["messages", "tiktoken", "context", "prune", "schemas", "planner", "wire"];

/** Test that compares with Ajv, which compiles schemas to code: workerd forbids that. */
const BY_AJV = "compactTool() compiles if the full schema does, and allows every call that it allows";

const folder = await Deno.makeTempDir();
globalThis.addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));

/** Later versions of Node, which differ less from the oldest than other runtimes: they run no package's tests. */
const LATER = ["node24", "node26"];

const TESTED = RUNTIMES.filter(({ name }) => !LATER.includes(name));

/** Runs tests on every runtime, two at a time. */
async function runEverywhere(bundled: string): Promise<ReadonlyMap<string, SuiteResult>> {
  const results = new Map<string, SuiteResult>();
  const waiting = [DENO, ...TESTED];
  const lane = async () => {
    for (let one = waiting.shift(); one; one = waiting.shift()) {
      results.set(one.name, await runSuite(one, bundled));
    }
  };
  await Promise.all([lane(), lane()]);
  return results;
}

for (const name of PURE) {
  Deno.test(`all runtimes: all tests of ${name} pass that pass on Deno`, async (t) => {
    const bundled = await bundleSuite(name, folder);
    const results = await runEverywhere(bundled);
    const onDeno = results.get(DENO.name)!;
    assert(onDeno.passed.length > 10);
    assertEquals(onDeno.failed, []);
    for (const { name: runtime } of TESTED) {
      await t.step(runtime, () => {
        const { passed, failed } = results.get(runtime)!;
        const allowed = ({ name }: { readonly name: string }) => runtime === "workerd" && name === BY_AJV;
        assertEquals(failed.filter((one) => !allowed(one)), []);
        assertEquals(new Set([...passed, ...failed.map(({ name }) => name)]), new Set(onDeno.passed));
      });
    }
  });
}

Deno.test("all runtimes: the same conversations give the same bytes as on Deno, by every mechanism", async () => {
  const bundled = await bundle(
    [fromFileUrl(new URL("./same_bytes.ts", import.meta.url))],
    join(folder, "same_bytes.mjs"),
  );
  const output = async (runtime: Runtime) =>
    (await runtime.runMain(bundled)).output.match(/\d+ bytes, SHA-256 .*/)?.[0];
  const onDeno = await output(DENO);
  assert(Number.parseInt(onDeno ?? "") > 1_000_000);
  for (const runtime of RUNTIMES) assertEquals([runtime.name, await output(runtime)], [runtime.name, onDeno]);
});

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
