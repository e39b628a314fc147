import { createHash } from "node:crypto";
import type { Stats } from "node:fs";
import {
  lstat,
  mkdir,
  open,
  readdir,
  readFile,
  readlink,
  realpath,
  rename,
  rm,
  rmdir,
  stat,
  symlink,
  unlink,
  writeFile,
} from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { systemCode } from "../define_tool.ts";
import { IgnoreRules } from "../files/walk.ts";

/**
 * What stands at a path, as a text, so that two are the same if the texts are: nothing, a folder, a file by its
 * permissions and content, a link by where it points, or something whose content isn't kept.
 */
export type FileState = "none" | "folder" | "unkept" | `file ${string} ${string}` | `link ${string}`;

/** Something that isn't any more what it was: path from the workspace, what stood there, what stands there now. */
export type FileChange = readonly [path: string, before: FileState, after: FileState];

/** How much of a workspace is kept. */
export interface KeptLimits {
  /** Largest file, in bytes. Default: 4 MiB. */
  readonly maxFileBytes?: number;
  /** Most files and folders that are looked at around a command. Default: 20,000. */
  readonly maxFiles?: number;
  /** Most bytes of all these files. Default: 512 MiB. */
  readonly maxBytes?: number;
}

/** What is never looked at: histories of their own, and what a package manager brings again. */
const PASSED_OVER = new Set([".git", ".hg", ".svn", ".jj", "node_modules", ".venv", "__pycache__"]);

/** So many paths are looked at together. */
const AT_ONCE = 32;

/** A file that was changed so shortly before it was looked at may change again without another time: Deno tells some in seconds. */
const YOUNG_MS = 2_000;

interface Known {
  readonly state: FileState;
  /** What the system says of it; as long as that is the same the content isn't read again. */
  readonly stamp: string;
}

/** What {@linkcode FileStates} keeps of itself between two processes. */
interface Index {
  readonly isWhole: boolean;
  readonly known: readonly (readonly [path: string, state: FileState, stamp: string])[];
  readonly ignored: readonly string[];
}

/** The states of a workspace's files as they were last seen, and the contents of all that ever were. */
export class FileStates {
  readonly #root: string;
  readonly #hidden: string | undefined;
  readonly #folder: string;
  readonly #limits: Required<KeptLimits>;
  #known = new Map<string, Known>();
  /** What was passed over by a list, with a slash behind folders. */
  #ignored = new Set<string>();
  /** Whether all that isn't passed over is known. */
  #isWhole = false;
  /** Whether this process may make links: with permissions for some folders only, Deno lets nobody. */
  #mayLink = true;
  /** Whether nothing has changed since it was stored. */
  #isSaved = false;

  private constructor(
    { root, hidden, folder, limits }: {
      readonly root: string;
      readonly hidden: string | undefined;
      readonly folder: string;
      readonly limits: KeptLimits;
    },
  ) {
    this.#root = root;
    this.#hidden = hidden;
    this.#folder = folder;
    this.#limits = { maxFileBytes: 4 * 2 ** 20, maxFiles: 20_000, maxBytes: 512 * 2 ** 20, ...limits };
  }

  /** What an earlier process knew of this workspace, from this folder. */
  static async open(
    { workspace, hidden, folder, limits = {} }: {
      readonly workspace: string;
      readonly hidden?: string | undefined;
      readonly folder: string;
      readonly limits?: KeptLimits | undefined;
    },
  ): Promise<FileStates> {
    await mkdir(join(folder, "contents"), { recursive: true, mode: 0o700 });
    const root = await realpath(workspace);
    const states = new FileStates({ root, hidden: hidden && await existing(hidden), folder, limits });
    states.#mayLink = await triesToLink(join(folder, "probe"));
    const text = await readFile(join(folder, "index.json"), "utf8").catch(missing);
    if (text !== undefined) {
      const { isWhole, known, ignored }: Index = JSON.parse(text);
      states.#known = new Map(known.map(([path, state, stamp]) => [path, { state, stamp }]));
      states.#ignored = new Set(ignored);
      states.#isWhole = isWhole;
    }
    return states;
  }

  /** Stores what is known, for a process that goes on after this one was ended in the middle of a command. */
  async save(): Promise<void> {
    if (this.#isSaved) return;
    const index: Index = {
      isWhole: this.#isWhole,
      known: [...this.#known].map(([path, { state, stamp }]) => [path, state, stamp]),
      ignored: [...this.#ignored],
    };
    await writeWhole(join(this.#folder, "index.json"), JSON.stringify(index));
    this.#isSaved = true;
  }

  /** Every content that is known to stand in the workspace. */
  *contents(): Generator<string> {
    for (const { state } of this.#known.values()) yield* contentsOf(state);
  }

  /**
   * Looks at these paths again, with the folders above them: gives what has changed of those that were known. What is new
   * to it is only taken note of.
   */
  async lookAt(paths: readonly string[]): Promise<readonly FileChange[]> {
    const changes: FileChange[] = [];
    for (const path of withFolders(paths)) {
      const before = this.#known.get(path);
      const after = await this.#see(path, before);
      if (before && before.state !== after.state) changes.push([path, before.state, after.state]);
    }
    return changes;
  }

  /**
   * Looks at the whole workspace likewise, and says why not if it is too large for that. That there is nothing at these
   * paths stays known, because something is being written there.
   */
  async lookAtAll(
    written: readonly string[] = [],
  ): Promise<{ readonly changes: readonly FileChange[]; readonly tooLarge?: string }> {
    const found = await this.#walk();
    if (typeof found === "string") {
      this.#isSaved &&= !this.#isWhole;
      this.#isWhole = false;
      return { changes: [], tooLarge: found };
    }
    const { paths, ignored } = found;
    const changes: FileChange[] = [];
    // What a list names since, or what it never named but a tool wrote, is still known.
    const gone = [...this.#known.keys()].filter((path) => !paths.has(path));
    await inGroups([...paths.keys(), ...gone], async (path) => {
      const before = this.#known.get(path);
      const after = await this.#see(path, before, paths.get(path));
      if (before && before.state !== after.state) changes.push([path, before.state, after.state]);
      if (!before && this.#isWhole && after.state !== "none") {
        // What was passed over stood there already, nobody knows with what content.
        changes.push([path, this.#wasIgnored(path) ? "unkept" : "none", after.state]);
      }
    });
    const kept = new Set(withFolders(written));
    for (const path of gone) {
      if (this.#known.get(path)?.state === "none" && !kept.has(path)) this.#known.delete(path);
    }
    this.#isSaved &&= this.#isWhole && gone.length === 0 &&
      ignored.symmetricDifference(this.#ignored).size === 0;
    this.#ignored = ignored;
    this.#isWhole = true;
    return { changes: changes.sort(([a], [b]) => (a < b ? -1 : 1)) };
  }

  /** What stands at a path now. Its content is kept. */
  async stateOf(path: string): Promise<FileState> {
    return (await this.#see(path, this.#known.get(path))).state;
  }

  /** Whether a path can be made this. */
  mayPut(state: FileState): boolean {
    return this.#mayLink || !state.startsWith("link ");
  }

  /** Whether a folder holds nothing but these. */
  async holdsOnly(folder: string, paths: ReadonlySet<string>): Promise<boolean> {
    return (await readdir(join(this.#root, folder))).every((name) => paths.has(`${folder}/${name}`));
  }

  /** Takes away what stands at a path. A folder that isn't empty stays. */
  async remove(path: string, state: FileState): Promise<void> {
    const absolute = join(this.#root, path);
    if (state !== "folder") return await unlink(absolute);
    await rmdir(absolute).catch((error) => {
      if (systemCode(error) !== "ENOTEMPTY" && systemCode(error) !== "EEXIST") throw error;
    });
  }

  /** Makes a path what it was. What stands there is of the same kind, or nothing does. @throws {Error} if its content is lost. */
  async put(path: string, state: FileState, now: FileState): Promise<void> {
    const absolute = join(this.#root, path);
    const [kind, ...rest] = state.split(" ");
    if (kind === "folder") await mkdir(absolute, { recursive: true });
    if (kind === "link") {
      await mkdir(dirname(absolute), { recursive: true });
      if (now !== "none") await unlink(absolute);
      await symlink(new TextDecoder().decode(await this.#content(rest[0] ?? "")), absolute);
    }
    if (kind === "file") {
      const [mode = "644", content = ""] = rest;
      await mkdir(dirname(absolute), { recursive: true });
      await replace(absolute, await this.#content(content), parseInt(mode, 8));
    }
  }

  /** Forgets all contents but these. */
  async sweep(kept: ReadonlySet<string>): Promise<void> {
    const folder = join(this.#folder, "contents");
    for (const group of await readdir(folder)) {
      for (const name of await readdir(join(folder, group))) {
        if (!kept.has(name)) await rm(join(folder, group, name), { force: true });
      }
    }
  }

  async #see(path: string, before: Known | undefined, info?: Stats): Promise<Known> {
    const absolute = join(this.#root, path);
    const now = Date.now();
    const seen = info ?? await this.#stat(absolute);
    const stamp = typeof seen === "string" ? "" : stampOf(seen, now);
    const isSame = before !== undefined && stamp !== "" && before.stamp === stamp;
    const state = isSame ? before.state : typeof seen === "string" ? seen : await this.#read(absolute, seen);
    const known = { state, stamp };
    this.#known.set(path, known);
    this.#isSaved &&= before?.state === state && before.stamp === stamp;
    return known;
  }

  /** What the system says of a path to which no link leads. */
  async #stat(absolute: string): Promise<Stats | "none" | "unkept"> {
    try {
      const folder = dirname(absolute);
      if (await realpath(folder) !== folder) return "unkept";
      return await lstat(absolute);
    } catch (error) {
      if (["ENOENT", "ENOTDIR"].includes(systemCode(error) ?? "")) return "none";
      if (isForbidden(error)) return "unkept";
      throw error;
    }
  }

  async #read(absolute: string, info: Stats): Promise<FileState> {
    if (info.isDirectory()) return "folder";
    try {
      if (info.isSymbolicLink()) {
        return `link ${await this.#keep(new TextEncoder().encode(await readlink(absolute)))}`;
      }
      if (!info.isFile() || info.size > this.#limits.maxFileBytes) return "unkept";
      const bytes = await readFile(absolute);
      return `file ${(info.mode & 0o777).toString(8)} ${await this.#keep(bytes)}`;
    } catch (error) {
      if (systemCode(error) === "ENOENT") return "none";
      // One that may not be read can't be put back either.
      if (isForbidden(error)) return "unkept";
      throw error;
    }
  }

  async #keep(bytes: Uint8Array): Promise<string> {
    const name = createHash("sha256").update(bytes).digest("hex");
    const path = this.#pathOf(name);
    const size = await stat(path).then(({ size }) => size, missing);
    if (size !== bytes.length) await writeWhole(path, bytes);
    return name;
  }

  async #content(name: string): Promise<Uint8Array> {
    const path = this.#pathOf(name);
    const bytes = await readFile(path);
    if (createHash("sha256").update(bytes).digest("hex") === name) return bytes;
    throw new Error(`Cannot put a file back: ${path} was damaged, its content has another hash.`);
  }

  #pathOf(name: string): string {
    return join(this.#folder, "contents", name.slice(0, 2), name);
  }

  #wasIgnored(path: string): boolean {
    return this.#ignored.has(path) ||
      foldersAbove(`${path}/`).some((folder) => this.#ignored.has(`${folder}/`));
  }

  /** All that isn't passed over, or why that is too much. */
  async #walk(): Promise<
    { readonly paths: ReadonlyMap<string, Stats>; readonly ignored: Set<string> } | string
  > {
    const { maxFiles, maxBytes, maxFileBytes } = this.#limits;
    const paths = new Map<string, Stats>();
    const ignored = new Set<string>();
    let bytes = 0;
    const waiting = [{ base: "", rules: await IgnoreRules.of(this.#root, ".") }];
    for (let next = waiting.pop(); next; next = waiting.pop()) {
      const { base, rules } = next;
      const entries = await readdir(join(this.#root, base), { withFileTypes: true }).catch(unreadable);
      const here: string[] = [];
      for (const entry of entries) {
        const path = `${base}${entry.name}`;
        const shown = entry.isDirectory() ? `${path}/` : path;
        const isOwn = join(this.#root, path) === this.#hidden;
        if (isOwn || PASSED_OVER.has(entry.name) || rules.ignores(shown)) ignored.add(shown);
        else here.push(path);
      }
      if (paths.size + here.length > maxFiles) return `it holds more than ${maxFiles} files and folders`;
      await inGroups(here, async (path) => {
        const info = await lstat(join(this.#root, path)).catch(missing);
        if (!info) return;
        paths.set(path, info);
        if (info.isDirectory()) {
          waiting.push({ base: `${path}/`, rules: await rules.enter(this.#root, `${path}/`) });
        } else if (info.size <= maxFileBytes) bytes += info.size;
      });
      if (bytes > maxBytes) return `its files hold more than ${maxBytes / 2 ** 20} MiB`;
    }
    return { paths, ignored };
  }
}

/** The contents that a state needs. */
export function contentsOf(state: FileState): readonly string[] {
  const [kind, ...rest] = state.split(" ");
  return kind === "file" || kind === "link" ? rest.slice(-1) : [];
}

/** Does something for each, some at a time. */
export async function inGroups<T>(all: readonly T[], work: (one: T) => Promise<void>): Promise<void> {
  for (let at = 0; at < all.length; at += AT_ONCE) await Promise.all(all.slice(at, at + AT_ONCE).map(work));
}

/** Writes a file that is whole or not there, whenever the process ends. */
export async function writeWhole(path: string, content: string | Uint8Array): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const temporary = join(dirname(path), `${basename(path)}.${crypto.randomUUID()}.tmp`);
  await writeFile(temporary, content, { mode: 0o600 });
  await rename(temporary, path);
}

/** Puts a file in the place of another one: whoever reads it sees the old bytes or the new ones, also after a crash. */
async function replace(absolute: string, bytes: Uint8Array, mode: number): Promise<void> {
  const temporary = join(dirname(absolute), `.tare-${crypto.randomUUID()}.tmp`);
  try {
    const file = await open(temporary, "wx", mode);
    try {
      await file.writeFile(bytes);
      // What is new has fewer permissions than asked for, by the process's mask.
      await file.chmod(mode);
      await file.sync();
    } finally {
      await file.close();
    }
    if (await realpath(temporary) !== temporary) {
      throw new Error(`Cannot put ${absolute} back: a link was put in the place of its folder.`);
    }
    await rename(temporary, absolute);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

/** Nothing, for what isn't there. */
export function missing(error: unknown): undefined {
  if (systemCode(error) !== "ENOENT") throw error;
}

function unreadable(error: unknown): [] {
  if (isForbidden(error) || ["ENOENT", "ENOTDIR"].includes(systemCode(error) ?? "")) return [];
  throw error;
}

/** Whether the system, or Deno, doesn't let this process look. */
function isForbidden(error: unknown): boolean {
  return isNotCapable(error) || ["EACCES", "EPERM", "ELOOP"].includes(systemCode(error) ?? "");
}

function isNotCapable(error: unknown): boolean {
  return error instanceof Error && error.name === "NotCapable";
}

async function triesToLink(path: string): Promise<boolean> {
  await rm(path, { force: true });
  try {
    await symlink("nowhere", path);
    await unlink(path);
    return true;
  } catch (error) {
    if (isNotCapable(error) || systemCode(error) === "EPERM") return false;
    throw error;
  }
}

function existing(path: string): Promise<string | undefined> {
  return realpath(path).catch(missing);
}

function withFolders(paths: readonly string[]): readonly string[] {
  return [...new Set(paths.flatMap((path) => [...foldersAbove(path), path]))];
}

function foldersAbove(path: string): string[] {
  const parts = path.split("/").slice(0, -1);
  return parts.map((_, index) => parts.slice(0, index + 1).join("/"));
}

/** Nothing where the same may be said of another content. */
function stampOf({ mtimeMs, ctimeMs, ino, size, mode }: Stats, now: number): string {
  return Math.max(mtimeMs, ctimeMs) > now - YOUNG_MS ? "" : [mtimeMs, ctimeMs, ino, size, mode].join(" ");
}
