import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "@std/path";
import { ignoreMissing } from "../define_tool.ts";

/** Writes a file such that it is whole or missing whenever the process ends. */
export async function writeWhole(
  path: string,
  content: string | Uint8Array,
  { isFlushed = false }: { readonly isFlushed?: boolean } = {},
): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const temporary = join(dirname(path), `${basename(path)}.${crypto.randomUUID()}.tmp`);
  await writeFile(temporary, content, { mode: 0o600, flush: isFlushed });
  await rename(temporary, path);
}

/** Returns the content of a JSON file, or `undefined` if it is missing. */
export async function readJson<T>(path: string): Promise<T | undefined> {
  const text = await readFile(path, "utf8").catch(ignoreMissing);
  return text === undefined ? undefined : JSON.parse(text);
}
