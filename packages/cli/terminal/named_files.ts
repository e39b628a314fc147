import type { Content } from "@tare/messages";
import { isAbsolute, join } from "@std/path";
import { printableText } from "./printable_text.ts";

/** `@path` or `@"a path"` at the beginning of a word. */
const NAMED = /(?<!\S)@(?:"([^"\n]+)"|([^\s"]+))/g;

const TYPED = /(?<!\S)@(?:"([^"\n]*)|([^\s"]*))$/;

const IMAGES: Readonly<Record<string, string>> = {
  png: "image/png",
  jpg: "image/jpeg",
  jpeg: "image/jpeg",
  gif: "image/gif",
  webp: "image/webp",
};

/** Limit of providers per image and of the server per message, in bytes. */
const MAX_OF_AN_IMAGE = 5 * 2 ** 20;
const MAX_OF_ALL = 7 * 2 ** 20;

/**
 * Returns a message with the images that it names as `@shot.png`. Other files stay names: results of tools can be
 * evicted, unlike messages.
 *
 * @param options.folder Base of paths. Default: no file is read.
 * @param options.typed Part typed by the user, in which images may be named. Default: all.
 * @throws {Error} if an image is too large or unreadable; a missing one is ignored.
 */
export async function withImages(
  text: string,
  { folder, typed = text }: { readonly folder?: string | undefined; readonly typed?: string },
): Promise<Content> {
  if (folder === undefined) return text;
  let room = MAX_OF_ALL;
  const images: string[] = [];
  for (const [, quoted, bare = ""] of typed.matchAll(NAMED)) {
    const path = quoted ?? bare.replace(/[.,;:!?)\]]+$/, "");
    const kind = IMAGES[/\.(\w+)$/.exec(path)?.[1]?.toLowerCase() ?? ""];
    if (kind === undefined) continue;
    const bytes = await imageAt(isAbsolute(path) ? path : join(folder, path), path);
    if (!bytes) continue;
    if (bytes.length > room) {
      throw new Error(
        `Cannot attach ${path}: the images of one message exceed ${MAX_OF_ALL / 2 ** 20} MiB.`,
      );
    }
    room -= bytes.length;
    images.push(`data:${kind};base64,${bytes.toBase64()}`);
  }
  if (images.length === 0) return text;
  return [
    { type: "text", text },
    ...images.map((url) => ({ type: "image_url", image_url: { url } }) as const),
  ];
}

async function imageAt(path: string, named: string): Promise<Uint8Array | undefined> {
  const info = await Deno.stat(path).catch(() => undefined);
  if (!info?.isFile) return undefined;
  if (info.size > MAX_OF_AN_IMAGE) {
    throw new Error(
      `Cannot attach ${named}: it has ${info.size} bytes, and the limit is ${MAX_OF_AN_IMAGE}.`,
    );
  }
  return await Deno.readFile(path);
}

const MAX_OFFERED = 50;

export interface Completions {
  readonly typed: string;
  readonly all: readonly string[];
}

/** Completes a file name after `@` by any part of its path. */
export async function completeFile(
  line: string,
  find: (search: string, limit: number) => Promise<readonly string[]>,
): Promise<Completions> {
  const [typed, quoted, bare = ""] = TYPED.exec(line) ?? [];
  if (typed === undefined) return { typed: "", all: [] };
  // Names with control or hidden characters are omitted.
  const found = (await find(quoted ?? bare, MAX_OFFERED))
    .filter((path) => printableText(path, { isWhole: true }) === path);
  return { typed, all: found.map((path) => /[\s"]/.test(path) ? `@"${path}"` : `@${path}`) };
}
