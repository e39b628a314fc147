import { fromFileUrl, join } from "@std/path";
import { LOCK } from "../../scripts/tested/suites.ts";
import { runProgram, type Runtime } from "./runtimes.ts";
import { MARK, type SuiteResult } from "./suite_result.ts";

const ROOT = fromFileUrl(new URL("../..", import.meta.url));
const HERE = fromFileUrl(new URL(".", import.meta.url));

/** Bundles the tests of a package after their runner. */
export async function bundleSuite(name: string, folder: string): Promise<string> {
  const tests = await testsIn(join(ROOT, "packages", name));
  return await bundle([join(HERE, "run_suite.ts"), ...tests], join(folder, `${name}.mjs`));
}

/** Bundles tests on files, by paths from `packages/`, for runtimes with `node:` modules. */
export async function bundleFileSuite(paths: readonly string[], to: string): Promise<string> {
  const tests: string[] = [];
  for (const path of paths) {
    const place = join(ROOT, "packages", path);
    tests.push(...path.endsWith(".ts") ? [place] : await testsIn(place));
  }
  return await bundle([join(HERE, "run_suite.ts"), join(HERE, "deno_files.ts"), ...tests], to, "deno");
}

/**
 * Bundles modules into one that exports the `main` of the first and needs nothing else but `node:` modules.
 */
export async function bundle(
  modules: readonly string[],
  to: string,
  platform: "browser" | "deno" = "browser",
): Promise<string> {
  // Inside the workspace, where its package names resolve.
  const entry = await Deno.makeTempFile({ dir: HERE, suffix: ".ts" });
  const [first] = modules.map((path) => JSON.stringify(path));
  const imports = modules.map((path) => `import ${JSON.stringify(path)};\n`).join("");
  await Deno.writeTextFile(entry, `${imports}export { main } from ${first};\n`);
  try {
    const args = ["bundle", "--quiet", LOCK, `--platform=${platform}`, `--output=${to}`, entry];
    const { ok, output } = await runProgram(Deno.execPath(), args, { cwd: ROOT });
    if (!ok) throw new Error(`Cannot bundle ${modules.join(", ")}: ${output}`);
    // A worker's modules have no address.
    const code = await Deno.readTextFile(to);
    await Deno.writeTextFile(to, code.replaceAll("import.meta.url", '"file:///nowhere/"'));
  } finally {
    await Deno.remove(entry);
  }
  return to;
}

export async function runSuite(runtime: Runtime, bundled: string): Promise<SuiteResult> {
  const { output } = await runtime.runMain(bundled);
  const line = output.split("\n").find((line) => line.startsWith(MARK));
  if (line === undefined) throw new Error(`Cannot run ${bundled} on ${runtime.name}: it printed ${output}`);
  return JSON.parse(line.slice(MARK.length));
}

async function testsIn(folder: string): Promise<readonly string[]> {
  const found: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    if (isDirectory) found.push(...await testsIn(join(folder, name)));
    else if (name.endsWith("_test.ts") && !name.endsWith("_fixture_test.ts")) found.push(join(folder, name));
  }
  return found.sort();
}
