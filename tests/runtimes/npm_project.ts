import { fromFileUrl, join } from "@std/path";
import { packForNpm } from "../../scripts/pack_npm.ts";
import { runProgram } from "./runtimes.ts";

const PACKAGES = fromFileUrl(new URL("../../packages", import.meta.url));

/**
 * Packs packages as npm gets them, and installs them into an empty project, as a user would. Writes each example of
 * their READMEs into a script of its own.
 *
 * @returns the scripts, by package.
 */
export async function npmProject(
  folder: string,
  names: readonly string[],
): Promise<ReadonlyMap<string, readonly string[]>> {
  const dependencies: Record<string, string> = { "@std/assert": "file:assert" };
  for (const name of names) dependencies[`@tare/${name}`] = `file:${await packForNpm(name, folder)}`;
  const assertFolder = join(folder, "assert");
  await Deno.mkdir(assertFolder);
  await writeJson(join(assertFolder, "package.json"), {
    name: "@std/assert",
    version: "1.0.0",
    type: "module",
    exports: { types: "./mod.d.ts", default: "./mod.js" },
    dependencies: { "deno-std": "1.4.0" },
  });
  await Deno.writeTextFile(join(assertFolder, "mod.js"), 'export * from "deno-std/assert/mod.js";\n');
  await Deno.copyFile(join(PACKAGES, "std/assert/types.d.ts"), join(assertFolder, "mod.d.ts"));
  await writeJson(join(folder, "package.json"), { type: "module", private: true, dependencies });
  const install = ["install", "--no-audit", "--no-fund", "--install-links"];
  const { ok, output } = await runProgram("npm", install, { cwd: folder });
  if (!ok) throw new Error(`Cannot install the packages: ${output}`);

  const scripts = new Map<string, string[]>();
  for (const name of names) {
    const readme = await Deno.readTextFile(join(PACKAGES, name, "README.md"));
    const examples = [...readme.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code = ""], at) => ({
      path: join(folder, `${name}_${at + 1}.ts`),
      code,
    }));
    for (const { path, code } of examples) await Deno.writeTextFile(path, code);
    scripts.set(name, examples.map(({ path }) => path));
  }
  return scripts;
}

/** Bundles a script of such a project into one module, for runtimes where npm can't install. */
export async function bundleInProject(folder: string, script: string): Promise<string> {
  const bundled = script.replace(".mjs", ".bundled.mjs");
  const args = ["bundle", "--quiet", "--no-lock", "--platform=browser", `--output=${bundled}`, script];
  const { ok, output } = await runProgram(Deno.execPath(), args, { cwd: folder });
  if (!ok) throw new Error(`Cannot bundle ${script}: ${output}`);
  return bundled;
}

async function writeJson(path: string, value: unknown): Promise<void> {
  await Deno.writeTextFile(path, JSON.stringify(value));
}
