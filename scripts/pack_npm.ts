// deno-lint-ignore-file no-console -- It prints where the packages are.
/**
 * Packs the published packages as npm gets them: `deno task pack FOLDER`. `deno pack` turns the sources into JavaScript and
 * types; what a package imports of the others becomes a dependency here.
 */
import { fromFileUrl, join, resolve } from "@std/path";
import { PACKAGE_TABLE } from "./lint_plugin.ts";

const PACKAGES = fromFileUrl(new URL("../packages", import.meta.url));

/** Names of the packages that are published. */
export const PUBLISHED: readonly string[] = Object.keys(PACKAGE_TABLE)
  .filter((name) => readJson(join(PACKAGES, name, "deno.json")).publish !== false);

/**
 * Packs one package into a tarball in a folder, and hands over its path.
 *
 * @throws {Error} if `deno pack`, `tar` or `npm pack` fails, with what it said.
 */
export async function packForNpm(name: string, folder: string): Promise<string> {
  const unpacked = await Deno.makeTempDir();
  try {
    const whole = join(unpacked, "whole.tgz");
    const packing = ["pack", "--quiet", "--allow-dirty", `--output=${whole}`];
    await run(Deno.execPath(), packing, join(PACKAGES, name));
    await run("tar", ["-xzf", whole, "-C", unpacked], unpacked);
    const manifest = join(unpacked, "package/package.json");
    const { dependencies, ...rest } = readJson(manifest);
    const needed = await namesOfOurs(join(unpacked, "package"));
    const ours = needed.filter((other) => other !== name)
      .map((other) => [`@tare/${other}`, `^${readJson(join(PACKAGES, other, "deno.json")).version}`]);
    const engines = { node: ">=22.16" };
    const written = { ...rest, engines, dependencies: { ...Object.fromEntries(ours), ...dependencies } };
    await Deno.writeTextFile(manifest, JSON.stringify(written, undefined, 2));
    const said = await run(
      "npm",
      ["pack", "--silent", `--pack-destination=${resolve(folder)}`],
      join(unpacked, "package"),
    );
    return join(resolve(folder), said.trim());
  } finally {
    await Deno.remove(unpacked, { recursive: true });
  }
}

/** Which of our packages the modules of a folder name. */
async function namesOfOurs(folder: string): Promise<readonly string[]> {
  const names = new Set<string>();
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    const path = join(folder, name);
    if (isDirectory) { for (const name of await namesOfOurs(path)) names.add(name); }
    else if (/\.(js|d\.ts)$/.test(name)) {
      // Examples in comments import too.
      const code = (await Deno.readTextFile(path)).replaceAll(/\/\*.*?\*\//gs, "");
      for (const [, name = ""] of code.matchAll(/(?:from|import)\s*\(?"@tare\/(\w+)/g)) names.add(name);
    }
  }
  return [...names].sort();
}

function readJson(path: string) {
  return JSON.parse(Deno.readTextFileSync(path));
}

async function run(path: string, args: readonly string[], cwd: string): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(path, { args: [...args], cwd }).output();
  if (success) return new TextDecoder().decode(stdout);
  throw new Error(`Cannot pack: ${path} ${args.join(" ")} said ${new TextDecoder().decode(stderr)}`);
}

if (import.meta.main) {
  const [folder = "."] = Deno.args;
  for (const name of PUBLISHED) console.log(await packForNpm(name, folder));
}
