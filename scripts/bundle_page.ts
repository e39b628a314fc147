/**
 * Makes `packages/page/assets.ts`, the page as it is served, from its source in `packages/page/client`:
 * `deno task page`. With `--check` it says whether the file is what the source gives; with `--map` it prints the
 * script's source map, whose sources are absolute.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { fromFileUrl, resolve } from "@std/path";
import { runDeno } from "./consumer.ts";

const client = new URL("../packages/page/client/", import.meta.url);
const main = fromFileUrl(new URL("../packages/page/client/main.tsx", import.meta.url));
const assets = new URL("../packages/page/assets.ts", import.meta.url);

/** The script as one file, and its source map. */
async function bundle(): Promise<{ readonly script: string; readonly map: string }> {
  const folder = await Deno.makeTempDir();
  try {
    const script = `${folder}/page.js`;
    const flags = ["--frozen", "--quiet", "--minify", "--platform=browser", "--sourcemap=external"];
    const { ok, output } = await runDeno(["bundle", ...flags, `--output=${script}`, main], { cwd: client });
    if (!ok) throw new Error(`Cannot bundle the page: ${output}`);
    const map = JSON.parse(await Deno.readTextFile(`${script}.map`));
    const sources = map.sources.map((source: string) => resolve(folder, source));
    return { script: await Deno.readTextFile(script), map: JSON.stringify({ ...map, sources }) };
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** The module of the page's files. */
async function write(script: string): Promise<string> {
  const read = (name: string) => Deno.readTextFile(new URL(name, client));
  const files = {
    "/": await read("page.html"),
    "/page.css": await read("page.css"),
    "/page.js": script,
    "/page.svg": await read("page.svg"),
  };
  const entries = await Promise.all(
    Object.entries(files).map(async ([path, text]) =>
      `  ${JSON.stringify(path)}: { tag: "${await tagOf(text)}", text: ${JSON.stringify(text)} },\n`
    ),
  );
  return [
    "// deno-fmt-ignore-file\n",
    "// Made by `deno task page` from the folder `client`: change that.\n",
    "\n",
    "/** The page's files by their path, each with a tag that changes with its text. */\n",
    "export const ASSETS: Readonly<Record<string, { readonly tag: string; readonly text: string }>> = {\n",
    ...entries,
    "};\n",
  ].join("");
}

async function tagOf(text: string): Promise<string> {
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  return hash.slice(0, 8).toHex();
}

const { script, map } = await bundle();
const made = await write(script);
if (Deno.args.includes("--map")) {
  console.log(map);
} else if (!Deno.args.includes("--check")) {
  await Deno.writeTextFile(assets, made);
} else if (made !== await Deno.readTextFile(assets)) {
  console.error("packages/page/assets.ts isn't what packages/page/client gives: run `deno task page`.");
  Deno.exit(1);
}
