/**
 * Makes `packages/page/assets.ts`, the page as it is served, from its source in `packages/page/client`:
 * `deno task page`. With `--check` it says whether the file is what the source gives.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { fromFileUrl } from "@std/path";
import { runDeno } from "./consumer.ts";

const client = new URL("../packages/page/client/", import.meta.url);
const assets = new URL("../packages/page/assets.ts", import.meta.url);

/** The script as one file, and how its places are those of the source. */
async function bundle(): Promise<string> {
  const folder = await Deno.makeTempDir();
  try {
    const script = `${folder}/page.js`;
    const args = ["bundle", "--frozen", "--quiet", "--minify", "--platform=browser", `--output=${script}`, "main.tsx"];
    const { ok, output } = await runDeno(args, { cwd: client });
    if (!ok) throw new Error(`Cannot bundle the page: ${output}`);
    return await Deno.readTextFile(script);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function write(): Promise<string> {
  const read = (name: string) => Deno.readTextFile(new URL(name, client));
  const files = {
    "/": await read("page.html"),
    "/page.css": await read("page.css"),
    "/page.js": await bundle(),
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

const made = await write();
if (Deno.args.includes("--check")) {
  if (made === await Deno.readTextFile(assets)) Deno.exit(0);
  console.error("packages/page/assets.ts isn't what packages/page/client gives: run `deno task page`.");
  Deno.exit(1);
}
await Deno.writeTextFile(assets, made);
console.log(`${fromFileUrl(assets)} has ${made.length} characters.`);
