import type { Content } from "@tare/messages";
import { isAbsolute, join } from "@std/path";
import { shownText } from "./shown_text.ts";

/** `@path`, or `@"a path"`, where a word begins. */
const NAMED = /(?<!\S)@(?:"([^"\n]+)"|([^\s"]+))/g;

/** What is typed of one, up to the cursor. */
const TYPED = /(?<!\S)@(?:"([^"\n]*)|([^\s"]*))$/;

/** Pictures that models take. */
const PICTURES: Readonly<Record<string, string>> = {
  png: "image/png",
  jpg: "image/jpeg",
  jpeg: "image/jpeg",
  gif: "image/gif",
  webp: "image/webp",
};

/** Providers take none larger, and the server no larger messages, in bytes. */
const MOST_OF_A_PICTURE = 5 * 2 ** 20;
const MOST_OF_ALL = 7 * 2 ** 20;

/**
 * What is said, with the pictures that it names as `@shot.png`. Other files are only named: the model reads of them what it
 * needs, by the rules that its reading has, and what it has read can leave its prompt again. What a person has said never does.
 *
 * @param options.folder What paths count from. Default: none is looked at.
 * @param options.typed The part of it that the person has typed, where pictures may be named. Default: all.
 * @throws {Error} if a picture is too large or can't be read; one that isn't there is just a word.
 */
export async function withPictures(
  text: string,
  { folder, typed = text }: { readonly folder?: string | undefined; readonly typed?: string },
): Promise<Content> {
  if (folder === undefined) return text;
  let room = MOST_OF_ALL;
  const pictures: string[] = [];
  for (const [, quoted, bare = ""] of typed.matchAll(NAMED)) {
    const path = quoted ?? bare.replace(/[.,;:!?)\]]+$/, "");
    const kind = PICTURES[/\.(\w+)$/.exec(path)?.[1]?.toLowerCase() ?? ""];
    if (kind === undefined) continue;
    const bytes = await pictureAt(isAbsolute(path) ? path : join(folder, path), path);
    if (!bytes) continue;
    if (bytes.length > room) {
      throw new Error(
        `Cannot send ${path}: the pictures of one message may have ${MOST_OF_ALL / 2 ** 20} MiB together.`,
      );
    }
    room -= bytes.length;
    pictures.push(`data:${kind};base64,${bytes.toBase64()}`);
  }
  if (pictures.length === 0) return text;
  return [
    { type: "text", text },
    ...pictures.map((url) => ({ type: "image_url", image_url: { url } }) as const),
  ];
}

async function pictureAt(path: string, named: string): Promise<Uint8Array | undefined> {
  const info = await Deno.stat(path).catch(() => undefined);
  if (!info?.isFile) return undefined;
  if (info.size > MOST_OF_A_PICTURE) {
    throw new Error(
      `Cannot send ${named}: it has ${info.size} bytes, and a picture may have ${MOST_OF_A_PICTURE}.`,
    );
  }
  return await Deno.readFile(path);
}

/** Most names that are offered. */
const MOST_OFFERED = 50;

/** What may stand in place of the end of a line. */
export interface Completions {
  /** The part at the cursor that they would replace. */
  readonly typed: string;
  readonly all: readonly string[];
}

/**
 * Completes the name of a file that is typed behind `@`, by any part of its path. The server finds them, as its agent's
 * `list_files` would: nothing that is hidden, ignored or denied.
 */
export async function completeFile(
  line: string,
  find: (search: string, limit: number) => Promise<readonly string[]>,
): Promise<Completions> {
  const [typed, quoted, bare = ""] = TYPED.exec(line) ?? [];
  if (typed === undefined) return { typed: "", all: [] };
  // A name that would command the terminal can be typed, if anybody has such a file.
  const found = (await find(quoted ?? bare, MOST_OFFERED))
    .filter((path) => shownText(path, { isWhole: true }) === path);
  return { typed, all: found.map((path) => /[\s"]/.test(path) ? `@"${path}"` : `@${path}`) };
}
