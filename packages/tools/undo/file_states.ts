import { createHash } from "node:crypto";
import { lstatSync, type Stats } from "node:fs";
import {
  lstat,
  mkdir,
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
import { setImmediate } from "node:timers";
import { basename, dirname, join } from "@std/path";
import { ignoreMissing, isDenied, isMissing, systemCode, ToolRefusal } from "../define_tool.ts";
import {
  entriesOf,
  findDescriptors,
  type Folder,
  inFolder,
  inNewFolder,
  isTemporary,
  openAt,
  readKnown,
  temporaryName,
} from "../files/resolve_in_workspace.ts";
import { IgnoreRules } from "../files/walk.ts";
import { removeTemporary, writeAtomically } from "../files/write_file_tools.ts";
import { contentsOf, type FileState, type FileStateChange, isFolder, modeOf } from "./file_state.ts";

/** Options of `openCheckpoints()`. */
export interface CheckpointOptions {
  readonly workspace: string;
  readonly folder: string;
  readonly hidden?: string | undefined;
  readonly limits?: {
    /** Maximum size of a file, in bytes. Default: 4 MiB. */
    readonly maxFileBytes?: number;
    /** Maximum number of files and folders inspected around a command. Default: 20,000. */
    readonly maxFiles?: number;
    /** Maximum total size of these files, in bytes. Default: 512 MiB. */
    readonly maxBytes?: number;
  };
  /** Retention of changes, in milliseconds. Default: 30 days. */
  readonly keepMs?: number;
  /** Called with errors of storing changes. Default: ignored. */
  readonly onError?: (error: unknown) => void;
}

/** Excluded folders: repositories, and files that package managers restore. */
const PASSED_OVER = new Set([".git", ".hg", ".svn", ".jj", "node_modules", ".venv", "__pycache__"]);

/** Maximum time of synchronous inspection before other work runs, in milliseconds. */
const MAX_MS = 10;

/**
 * Age, in milliseconds, below which a file may change without another time: Deno reports some times in
 * seconds.
 */
const YOUNG_MS = 2_000;

interface Known {
  readonly state: FileState;
  readonly stamp: string;
  /** Whether the file has other hard links. */
  readonly isLinked: boolean;
}

interface Index {
  readonly isWhole: boolean;
  readonly known: readonly (readonly [path: string, state: FileState, stamp: string, isLinked: boolean])[];
  readonly ignored: readonly string[];
}

/** Last known states of a workspace's files, and all stored contents. */
export class FileStates {
  readonly #root: string;
  readonly #hidden: string | undefined;
  readonly #folder: string;
  readonly #limits: Required<NonNullable<CheckpointOptions["limits"]>>;
  #known = new Map<string, Known>();
  #ignored = new Set<string>();
  #isWhole = false;
  /**
   * Whether this process may create links: Deno denies it to processes with permissions for some folders
   * only.
   */
  #mayLink = true;
  #isSaved = false;

  private constructor(
    root: string,
    { hidden, folder, limits }: Omit<CheckpointOptions, "workspace">,
  ) {
    this.#root = root;
    this.#hidden = hidden;
    this.#folder = folder;
    this.#limits = { maxFileBytes: 4 * 2 ** 20, maxFiles: 20_000, maxBytes: 512 * 2 ** 20, ...limits };
  }

  static async open({ workspace, hidden, folder, ...options }: CheckpointOptions): Promise<FileStates> {
    await mkdir(join(folder, "contents"), { recursive: true, mode: 0o700 });
    const root = await realpath(workspace);
    const own = hidden && await realpath(hidden).catch(ignoreMissing);
    await findDescriptors(own);
    const states = new FileStates(root, { ...options, hidden: own, folder });
    states.#mayLink = await triesToLink(join(folder, "probe"));
    const index = await readJson<Index>(join(folder, "index.json")).catch((error) => {
      if (!(error instanceof SyntaxError)) throw error;
    });
    if (index) {
      const { isWhole, known, ignored } = index;
      states.#known = new Map(
        known.map(([path, state, stamp, isLinked]) => [path, { state, stamp, isLinked }]),
      );
      states.#ignored = new Set(ignored);
      states.#isWhole = isWhole;
    }
    return states;
  }

  async save(): Promise<void> {
    if (this.#isSaved) return;
    const index: Index = {
      isWhole: this.#isWhole,
      known: [...this.#known].map(([path, { state, stamp, isLinked }]) => [path, state, stamp, isLinked]),
      ignored: [...this.#ignored],
    };
    await writeWhole(join(this.#folder, "index.json"), JSON.stringify(index));
    this.#isSaved = true;
  }

  *contents(): Generator<string> {
    for (const { state } of this.#known.values()) yield* contentsOf(state);
  }

  /**
   * Inspects these paths and their parent folders. Returns the changes of known ones; others become known.
   */
  async inspect(paths: readonly string[]): Promise<Seen> {
    const seen: Comparison[] = [];
    for (const path of withFolders(paths)) {
      const before = this.#known.get(path);
      const after = await this.#see(path, before);
      if (before) seen.push([path, before, after]);
    }
    return changesOf(seen);
  }

  /** Inspects the whole workspace, or returns why it is too large. Missing paths in `written` stay known. */
  async inspectAll(written: readonly string[] = []): Promise<Seen> {
    const found = await this.#walk();
    if (typeof found === "string") {
      this.#isSaved &&= !this.#isWhole;
      this.#isWhole = false;
      const tooLarge = `Files that commands changed: the workspace isn't stored, because ${found}.`;
      return { changes: [], notCovered: [tooLarge], linked: [] };
    }
    const { paths, ignored, unnamed } = found;
    const seen: Comparison[] = [];
    // Paths that became ignored, or that were ignored but written by a tool, are still known.
    const gone = [...this.#known.keys()].filter((path) => !paths.has(path));
    await inGroups([...paths.keys(), ...gone], async (path) => {
      const before = this.#known.get(path);
      const after = await this.#see(path, before, paths.get(path));
      if (before) seen.push([path, before, after]);
      else if (this.#isWhole) {
        // An ignored path existed already, with unknown content.
        seen.push([path, { state: this.#wasIgnored(path) ? "unstored" : "none", isLinked: false }, after]);
      }
    });
    const retained = new Set(withFolders(written));
    for (const path of gone) {
      if (this.#known.get(path)?.state === "none" && !retained.has(path)) this.#known.delete(path);
    }
    this.#isSaved &&= this.#isWhole && gone.length === 0 &&
      ignored.symmetricDifference(this.#ignored).size === 0;
    this.#ignored = ignored;
    this.#isWhole = true;
    return changesOf(seen, unnamed);
  }

  async stateOf(path: string): Promise<FileState> {
    return (await this.#see(path, this.#known.get(path))).state;
  }

  mayPut(state: FileState): boolean {
    return this.#mayLink || !state.startsWith("link ");
  }

  async holdsOnly(path: string, paths: ReadonlySet<string>): Promise<boolean> {
    return await inFolder(join(this.#root, path), async (folder) => {
      for await (const slice of entriesOf(folder)) {
        if (slice.some(({ name }) => !paths.has(`${path}/${name}`))) return false;
      }
      return true;
    });
  }

  async remove(path: string, state: FileState): Promise<void> {
    await inFolder(dirname(join(this.#root, path)), async (folder) => {
      const entry = folder.at(basename(path));
      if (!isFolder(state)) return await unlink(entry);
      await rmdir(entry).catch((error) => {
        if (systemCode(error) !== "ENOTEMPTY" && systemCode(error) !== "EEXIST") throw error;
      });
    });
  }

  /** Creates a folder that is writable until its permissions are set. */
  async makeFolder(path: string, state: FileState): Promise<void> {
    await inNewFolder(join(this.#root, path), () => Promise.resolve());
    await this.setMode(path, modeOf(state) | 0o700);
  }

  async setMode(path: string, mode: number): Promise<void> {
    const folder = await openAt(join(this.#root, path));
    try {
      await folder.chmod(mode);
    } finally {
      await folder.close();
    }
  }

  /** Restores a path that is missing or of the same kind. @throws {Error} if its content is lost. */
  async put(path: string, state: FileState, now: FileState): Promise<void> {
    const absolute = join(this.#root, path);
    const [kind, ...rest] = state.split(" ");
    if (kind === "link") {
      const target = new TextDecoder().decode(await this.#content(rest[0] ?? ""));
      await inNewFolder(dirname(absolute), async (folder) => {
        if (now !== "none") await unlink(folder.at(basename(path)));
        await symlink(target, folder.at(basename(path)));
      });
    }
    if (kind === "file") {
      await writeAtomically(absolute, await this.#content(rest[1] ?? ""), {
        mode: modeOf(state),
        // Permissions that the turn set don't prevent the restoration.
        isForced: true,
        temporary: this.#temporaryFor(path),
        own: this.#folder,
      }).catch((cause) => {
        if (!(cause instanceof ToolRefusal)) throw cause;
        throw new Error(`Cannot restore ${absolute}: ${cause.message}`, { cause });
      });
    }
  }

  /** Removes the temporary file of an interrupted restoration. */
  async clearUp(path: string): Promise<void> {
    await removeTemporary(join(this.#root, path), {
      temporary: this.#temporaryFor(path),
      own: this.#folder,
    }).catch(unreadable);
  }

  /** Returns the name of a path's temporary file, which the next process finds. */
  #temporaryFor(path: string): string {
    return temporaryName([this.#folder, path]);
  }

  async sweep(retained: ReadonlySet<string>): Promise<void> {
    const folder = join(this.#folder, "contents");
    for (const group of await readdir(folder)) {
      for (const name of await readdir(join(folder, group))) {
        if (!retained.has(name)) await rm(join(folder, group, name), { force: true });
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
    const isLinked = typeof seen !== "string" && seen.isFile() && seen.nlink > 1;
    const known = { state, stamp, isLinked };
    this.#known.set(path, known);
    this.#isSaved &&= before?.state === state && before.stamp === stamp && before.isLinked === isLinked;
    return known;
  }

  async #stat(absolute: string): Promise<Stats | "none" | "unstored"> {
    try {
      return await inFolder(dirname(absolute), (folder) => lstat(folder.at(basename(absolute))));
    } catch (error) {
      if (systemCode(error) === "ENOENT") return "none";
      if (systemCode(error) === "ENOTDIR") return await isUnderLink(absolute) ? "unstored" : "none";
      if (error instanceof ToolRefusal || isForbidden(error)) return "unstored";
      throw error;
    }
  }

  async #read(absolute: string, info: Stats): Promise<FileState> {
    if (info.isDirectory()) return `folder ${permissionsOf(info)}`;
    try {
      if (info.isSymbolicLink()) {
        const target = await inFolder(dirname(absolute), (folder) => readlink(folder.at(basename(absolute))));
        return `link ${await this.#keep(new TextEncoder().encode(target))}`;
      }
      if (!info.isFile() || info.size > this.#limits.maxFileBytes) return unstoredState(info);
      const read = await readKnown(absolute, this.#limits.maxFileBytes);
      if (!read.bytes) return unstoredState(read.info);
      return `file ${permissionsOf(read.info)} ${await this.#keep(read.bytes)}`;
    } catch (error) {
      if (systemCode(error) === "ENOENT") return "none";
      if (error instanceof ToolRefusal || isForbidden(error)) return unstoredState(info);
      throw error;
    }
  }

  async #keep(bytes: Uint8Array): Promise<string> {
    const name = createHash("sha256").update(bytes).digest("hex");
    const path = this.#pathOf(name);
    const size = await stat(path).then(({ size }) => size, ignoreMissing);
    if (size !== bytes.length) await writeWhole(path, bytes);
    return name;
  }

  async #content(name: string): Promise<Uint8Array> {
    const path = this.#pathOf(name);
    const bytes = await readFile(path);
    if (createHash("sha256").update(bytes).digest("hex") === name) return bytes;
    throw new Error(`Cannot restore a file: ${path} was damaged, its content has another hash.`);
  }

  #pathOf(name: string): string {
    return join(this.#folder, "contents", name.slice(0, 2), name);
  }

  #wasIgnored(path: string): boolean {
    return this.#ignored.has(path) ||
      foldersAbove(`${path}/`).some((folder) => this.#ignored.has(`${folder}/`));
  }

  async #walk(): Promise<Walked | string> {
    const { maxFiles, maxBytes } = this.#limits;
    const walked = { paths: new Map<string, Stats>(), ignored: new Set<string>(), unnamed: [], bytes: 0 };
    const waiting = [{ base: "", rules: await IgnoreRules.of(this.#root, ".") }];
    for (let next = waiting.pop(); next; next = waiting.pop()) {
      const folders = await this.#walkFolder(next, walked);
      if (!folders) return `it holds more than ${maxFiles} files and folders`;
      if (walked.bytes > maxBytes) return `its files hold more than ${maxBytes / 2 ** 20} MiB`;
      for (const base of folders) waiting.push({ base, rules: await next.rules.enter(this.#root, base) });
    }
    return walked;
  }

  async #walkFolder(
    place: { readonly base: string; readonly rules: IgnoreRules },
    walked: Walked,
  ): Promise<readonly string[] | undefined> {
    try {
      const absolute = join(this.#root, place.base.slice(0, -1));
      return await inFolder(absolute, (folder) => this.#walkOpen(folder, place, walked));
    } catch (error) {
      return error instanceof ToolRefusal ? [] : unreadable(error);
    }
  }

  async #walkOpen(
    folder: Folder,
    { base, rules }: { readonly base: string; readonly rules: IgnoreRules },
    walked: Walked,
  ): Promise<readonly string[] | undefined> {
    const { maxFiles, maxFileBytes } = this.#limits;
    const { paths, ignored } = walked;
    const here: string[] = [];
    for await (const slice of entriesOf(folder)) {
      for (const { name, kind } of slice) {
        if (isTemporary(name)) continue;
        const path = `${base}${name}`;
        const label = kind === "folder" ? `${path}/` : path;
        const isOwn = join(this.#root, path) === this.#hidden;
        if (isOwn || PASSED_OVER.has(name) || rules.ignores(label)) ignored.add(label);
        else here.push(name);
      }
      if (paths.size + here.length > maxFiles || ignored.size > maxFiles) return undefined;
    }
    const folders: string[] = [];
    let sinceMs = performance.now();
    for (const name of here) {
      const path = `${base}${name}`;
      // The synchronous call takes half the time if the metadata is cached.
      const info = lstatSync(folder.at(name), { throwIfNoEntry: false });
      if (performance.now() - sinceMs > MAX_MS) {
        await new Promise((resolve) => setImmediate(resolve));
        sinceMs = performance.now();
      }
      if (!info) {
        if (name.includes("\uFFFD")) walked.unnamed.push(path);
        continue;
      }
      paths.set(path, info);
      if (info.isDirectory()) folders.push(`${path}/`);
      else if (info.size <= maxFileBytes) walked.bytes += info.size;
    }
    folder.check();
    return folders;
  }
}

interface Walked {
  readonly paths: Map<string, Stats>;
  readonly ignored: Set<string>;
  readonly unnamed: string[];
  bytes: number;
}

/** Result of an inspection. */
export interface Seen {
  readonly changes: readonly FileStateChange[];
  /** Changes that an undo can't restore exactly, one sentence each. */
  readonly linked: readonly string[];
  /** Paths that aren't stored, changed or not, one sentence each. */
  readonly notCovered: readonly string[];
}

type Comparison = readonly [path: string, before: Pick<Known, "state" | "isLinked">, after: Known];

function changesOf(compared: readonly Comparison[], unnamed: readonly string[] = []): Seen {
  const changed = compared.filter(([, before, after]) => before.state !== after.state)
    .sort(([a], [b]) => (a < b ? -1 : 1));
  const linked = changed.filter(([, before, after]) => before.isLinked || after.isLinked);
  return {
    changes: changed.map(([path, before, after]) => [path, before.state, after.state]),
    linked: named(linked.map(([path]) => path), "it is a hard link, and is restored as a separate file"),
    notCovered: named(unnamed, "its name isn't UTF-8, and it isn't stored"),
  };
}

function named(paths: readonly string[], why: string): readonly string[] {
  const more = paths.length - MAX_NAMED;
  return [
    ...paths.toSorted().slice(0, MAX_NAMED).map((path) => `${path}: ${why}.`),
    ...(more > 0 ? [`And ${more} more: ${why}.`] : []),
  ];
}

function unreadable(error: unknown): [] {
  if (isForbidden(error) || isMissing(error)) return [];
  throw error;
}

async function isUnderLink(absolute: string): Promise<boolean> {
  const folder = dirname(absolute);
  return await realpath(folder).catch(() => folder) !== folder;
}

function isForbidden(error: unknown): boolean {
  return isDenied(error) || ["EACCES", "EPERM", "ELOOP"].includes(systemCode(error) ?? "");
}

async function triesToLink(path: string): Promise<boolean> {
  await rm(path, { force: true });
  try {
    await symlink("nowhere", path);
    await unlink(path);
    return true;
  } catch (error) {
    if (isDenied(error) || systemCode(error) === "EPERM") return false;
    throw error;
  }
}

function withFolders(paths: readonly string[]): readonly string[] {
  return [...new Set(paths.flatMap((path) => [...foldersAbove(path), path]))];
}

function foldersAbove(path: string): string[] {
  const parts = path.split("/").slice(0, -1);
  return parts.map((_, index) => parts.slice(0, index + 1).join("/"));
}

function unstoredState({ size, mtimeMs }: Stats): FileState {
  return `unstored ${size} ${mtimeMs}`;
}

/** Returns the permissions, set-user-ID and the like included, in octal digits. */
function permissionsOf({ mode }: Stats): string {
  return (mode & 0o7777).toString(8);
}

/** Returns a key of an unchanged file; empty if it may change without another time. */
function stampOf({ mtimeMs, ctimeMs, ino, size, mode }: Stats, now: number): string {
  return Math.max(mtimeMs, ctimeMs) > now - YOUNG_MS ? "" : [mtimeMs, ctimeMs, ino, size, mode].join(" ");
}

export const MAX_NAMED = 20;

const AT_ONCE = 32;

/** Calls a function for each element, some at a time. */
export async function inGroups<T>(all: readonly T[], work: (one: T) => Promise<void>): Promise<void> {
  for (let at = 0; at < all.length; at += AT_ONCE) await Promise.all(all.slice(at, at + AT_ONCE).map(work));
}

/** Writes a file that is complete or missing, even after a crash. */
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

/** Returns the content of a JSON file, or `undefined` if missing. */
export async function readJson<T>(path: string): Promise<T | undefined> {
  const text = await readFile(path, "utf8").catch(ignoreMissing);
  return text === undefined ? undefined : JSON.parse(text);
}
