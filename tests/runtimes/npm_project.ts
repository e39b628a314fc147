import { fromFileUrl, join } from "@std/path";
import { PACKAGE_TABLE } from "../../scripts/lint_plugin.ts";
import { packForNpm } from "../../scripts/pack_npm.ts";
import { runProgram } from "./runtimes.ts";

const PACKAGES = fromFileUrl(new URL("../../packages", import.meta.url));

/**
 * Packs packages as npm gets them, installs them into an empty project, and writes the examples of their
 * READMEs as scripts.
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
  const { ok, output } = await runProgram("npm", INSTALL, { cwd: folder });
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

/** Bundles a script of such a project into one module, for runtimes without npm. */
export async function bundleInProject(folder: string, script: string): Promise<string> {
  const bundled = script.replace(".mjs", ".bundled.mjs");
  const args = ["bundle", "--quiet", "--no-lock", "--platform=browser", `--output=${bundled}`, script];
  const { ok, output } = await runProgram(Deno.execPath(), args, { cwd: folder });
  if (!ok) throw new Error(`Cannot bundle ${script}: ${output}`);
  return bundled;
}

/**
 * Installs one package as npm gets it into an empty project.
 *
 * @returns the size on a disk with blocks of 4 KiB, in bytes.
 */
export async function installAlone(folder: string, name: string): Promise<number> {
  const packed: [string, string][] = [];
  for (const one of withNeeded(name)) packed.push([`@tare/${one}`, `file:${await packForNpm(one, folder)}`]);
  const [itself, ...needed] = packed;
  await writeJson(join(folder, "package.json"), {
    private: true,
    dependencies: Object.fromEntries([itself!]),
    overrides: Object.fromEntries(needed),
  });
  const { ok, output } = await runProgram("npm", INSTALL, { cwd: folder });
  if (!ok) throw new Error(`Cannot install ${name}: ${output}`);
  return await bytesOnDisk(join(folder, "node_modules"));
}

function withNeeded(name: string): ReadonlySet<string> {
  const needed = PACKAGE_TABLE[name] ?? [];
  return new Set([name, ...needed.flatMap((one) => [...withNeeded(one)])]);
}

async function bytesOnDisk(folder: string): Promise<number> {
  let bytes = 0;
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    const path = join(folder, name);
    bytes += isDirectory ? await bytesOnDisk(path) : Math.ceil((await Deno.stat(path)).size / 4096) * 4096;
  }
  return bytes;
}

const INSTALL = ["install", "--no-audit", "--no-fund", "--install-links"];

async function writeJson(path: string, value: unknown): Promise<void> {
  await Deno.writeTextFile(path, JSON.stringify(value));
}
