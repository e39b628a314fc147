// deno-lint-ignore-file no-console -- It prints where the packages are.
/**
 * Packs the published packages for npm: `deno task pack FOLDER`. `deno pack` creates the types, `deno bundle` a module per
 * entry point and lazily loaded part, so that a start reads few files. Only imports of the modules become dependencies.
 */
import { ProgressBar } from "../packages/cli/terminal/progress_bar.ts";
import { fromFileUrl, join, resolve } from "@std/path";
import { PACKAGE_TABLE } from "./lint_plugin.ts";

const ROOT = fromFileUrl(new URL("..", import.meta.url));
const PACKAGES = join(ROOT, "packages");

export const PUBLISHED: readonly string[] = Object.keys(PACKAGE_TABLE)
  .filter((name) => readConfig(name).publish !== false);

/** Oldest supported Node: it has `node:sqlite` without a flag. */
const NODE = ">=22.16";

/**
 * Packs a package into a tarball in a folder; resolves to its path.
 *
 * @throws {Error} if `deno` or `tar` fails, with its output, or if a module imports a package that `deno.json` doesn't name.
 */
export async function packForNpm(name: string, folder: string): Promise<string> {
  const unpacked = await Deno.makeTempDir();
  const home = join(PACKAGES, name);
  try {
    const whole = join(unpacked, "whole.tgz");
    const made = join(unpacked, "package");
    await run(Deno.execPath(), [...PACK, `--output=${whole}`], home);
    await run("tar", ["-xzf", whole, "-C", unpacked], unpacked);
    for (const path of await filesIn(made)) if (!/\.d\.ts$|README\.md$/.test(path)) await Deno.remove(path);
    const { version, exports, license } = readConfig(name);
    const entries = Object.entries<string>(typeof exports === "string" ? { ".": exports } : exports);
    const external = Object.keys(IMPORTED).flatMap((one) => [one, `${one}/*`]);
    await run(Deno.execPath(), [
      ...BUNDLE,
      ...["@tare/*", ...external].flatMap((one) => ["--external", one]),
      `--outdir=${made}`,
      ...entries.map(([, path]) => path),
    ], home);
    await Deno.copyFile(join(ROOT, "LICENSE"), join(made, "LICENSE"));
    const manifest = {
      name: `@tare/${name}`,
      version,
      description: await description(name),
      license,
      ...await repository(name),
      type: "module",
      sideEffects: false,
      engines: { node: NODE },
      exports: Object.fromEntries(entries.map(([entry, path]) => {
        const module = path.replace(/\.ts$/, "");
        return [entry, { types: `${module}.d.ts`, default: `${module}.js` }];
      })),
      dependencies: await dependencies(name, made),
    };
    await Deno.writeTextFile(join(made, "package.json"), JSON.stringify(manifest, undefined, 2) + "\n");
    const tarball = join(resolve(folder), `tare-${name}-${version}.tgz`);
    await run("tar", ["-czf", tarball, "package"], unpacked);
    return tarball;
  } finally {
    await Deno.remove(unpacked, { recursive: true });
  }
}

const PACK = ["pack", "--quiet", "--allow-dirty", "--no-source-maps"];
const BUNDLE = ["bundle", "--quiet", "--frozen", "--platform=deno", "--code-splitting"];

const IMPORTED: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries<string>(readJson(join(ROOT, "deno.json")).imports)
    .filter(([, specifier]) => specifier.startsWith("npm:"))
    .map(([name, specifier]) => [name, specifier.slice(`npm:${name}@`.length)]),
);

async function dependencies(name: string, folder: string): Promise<Readonly<Record<string, string>>> {
  const names = new Set<string>();
  for (const path of await filesIn(folder)) {
    if (!/\.(js|d\.ts)$/.test(path)) continue;
    const code = (await Deno.readTextFile(path)).replaceAll(/\/\*.*?\*\//gs, "");
    const specifiers = code.matchAll(
      /^ *(?:import|export)\b[^"';]*\bfrom "([^".][^"]*)"|^ *import "([^".][^"]*)"|\bimport\("([^".][^"]*)"\)/gm,
    );
    for (const [, ...found] of specifiers) {
      const [, named = ""] = /^((?:@[^/]+\/)?[^/]+)/.exec(found.find((one) => one !== undefined) ?? "") ?? [];
      if (!named.startsWith("node:") && named !== `@tare/${name}`) names.add(named);
    }
  }
  return Object.fromEntries(
    [...names].sort().map((other) => {
      const ours = /^@tare\/(.+)/.exec(other)?.[1];
      const version = ours === undefined ? IMPORTED[other] : `^${readConfig(ours).version}`;
      if (version !== undefined) return [other, version];
      throw new Error(
        `Cannot pack ${name}: it imports ${other}, which is no npm package in deno.json. Add it.`,
      );
    }),
  );
}

async function description(name: string): Promise<string> {
  const [, paragraph = ""] = (await Deno.readTextFile(join(PACKAGES, name, "README.md"))).split("\n\n");
  const [sentence = paragraph] = paragraph.replaceAll("`", "").split(/(?<=\.)\s/);
  return sentence.replaceAll(/\s+/g, " ");
}

async function repository(name: string): Promise<{ readonly repository?: object }> {
  const remote = new Deno.Command("git", {
    args: ["remote", "get-url", "origin"],
    cwd: ROOT,
    stderr: "null",
  });
  const { success, stdout } = await remote.output();
  const url = new TextDecoder().decode(stdout).trim();
  if (!success || !/^(https|git|ssh):\/\/|^git@/.test(url)) return {};
  return { repository: { type: "git", url: `git+${url}`, directory: `packages/${name}` } };
}

async function filesIn(folder: string): Promise<readonly string[]> {
  const found: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    const path = join(folder, name);
    if (isDirectory) found.push(...await filesIn(path));
    else found.push(path);
  }
  return found;
}

function readConfig(name: string) {
  return readJson(join(PACKAGES, name, "deno.json"));
}

function readJson(path: string) {
  return JSON.parse(Deno.readTextFileSync(path));
}

async function run(path: string, args: readonly string[], cwd: string): Promise<void> {
  const { success, stderr } = await new Deno.Command(path, { args: [...args], cwd }).output();
  if (!success) {
    throw new Error(`Cannot pack: ${path} ${args.join(" ")} failed: ${new TextDecoder().decode(stderr)}`);
  }
}

if (import.meta.main) {
  const [folder, ...others] = Deno.args;
  if (folder === undefined || folder.startsWith("-") || others.length > 0) {
    console.error(
      "Cannot pack: the folder is missing. Use `deno task pack FOLDER`; it is created if needed.",
    );
    Deno.exit(1);
  }
  await Deno.mkdir(folder, { recursive: true });
  const bar = new ProgressBar(PUBLISHED.length);
  bar.step(0);
  for (const name of PUBLISHED) {
    const path = await packForNpm(name, folder);
    bar.clear();
    console.log(path);
    bar.step();
  }
  bar.clear();
}
