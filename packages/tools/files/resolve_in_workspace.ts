import { createHash } from "node:crypto";
import {
  closeSync,
  constants,
  type Dirent,
  fstatSync,
  lstatSync,
  openSync,
  read,
  readlinkSync,
  realpathSync,
  type Stats,
} from "node:fs";
import { type FileHandle, lstat, mkdir, open, opendir, readlink, realpath, stat } from "node:fs/promises";
import { basename, dirname, isAbsolute, join, relative, resolve, SEPARATOR } from "@std/path";
import { setImmediate } from "node:timers";
import type { Effects, ToolContext } from "@tare/messages";
import { isMissing, systemCode, ToolRefusal } from "../define_tool.ts";
import { distance } from "fastest-levenshtein";
import { walk } from "./walk.ts";

/** Limits of the file tools within a workspace. */
export interface WorkspaceLimits {
  /** The server's hidden folder; new files are written there first. Default: none. */
  readonly hidden?: string | undefined;
}

/** An existing folder that is hidden from the model. */
interface HiddenFolder {
  readonly path: string;
  readonly dev: number;
  readonly ino: number;
}

/** A place in a workspace. It need not exist. */
export interface WorkspacePath {
  /** The workspace's own absolute path, free of symbolic links. */
  readonly root: string;
  /** Absolute path, free of symbolic links. */
  readonly absolute: string;
  /** The path from `root`, with forward slashes; `.` for the workspace itself. */
  readonly relative: string;
  readonly hidden?: HiddenFolder;
}

/** As many as Linux follows before it gives up. */
const MAX_LINKS = 40;

/**
 * Finds the real place of `path`, which is relative to the workspace or absolute, and makes sure that it lies
 * inside: after `..` and every symbolic link, dangling ones too. A file that doesn't exist yet is placed where
 * opening `path` would create it. The caller must go on with `absolute`, not with `path`.
 *
 * A program may exchange a folder for a link after this check: files and folders at `absolute` are opened by
 * `openAt()`, which verifies them once they are open.
 *
 * @throws {ToolRefusal} if it lies outside or in what is hidden, or the links lead in a circle.
 */
export async function resolveInWorkspace(
  workspace: string,
  path: string,
  limits: WorkspaceLimits = {},
): Promise<WorkspacePath> {
  if (path.includes("\0")) throw new ToolRefusal("a path cannot hold a NUL character.");
  const [{ root, absolute }, hidden] = await both(realPlace(workspace, path), hiddenFolder(limits));
  const relative = pathWithin(root, absolute);
  if (relative === undefined) {
    throw new ToolRefusal(
      "it lies outside the workspace. Give a path inside, relative to the workspace's top folder.",
    );
  }
  const folders: string[] = [];
  for (let folder = absolute; folder !== root; folder = dirname(folder)) folders.push(folder);
  const areHidden = await Promise.all(folders.map((folder) => isHidden(folder, hidden)));
  if (areHidden.includes(true)) {
    throw new ToolRefusal("it lies in a folder that the server keeps for itself, which no tool may reach.");
  }
  return { root, absolute, relative, ...(hidden && { hidden }) };
}

async function realPlace(workspace: string, path: string): Promise<{ root: string; absolute: string }> {
  const given = resolve(workspace, path);
  // Only `..` leads elsewhere from a workspace that is a link than from where that points.
  const isSame = isAbsolute(path) || pathWithin(resolve(workspace), given) !== undefined;
  const found = isSame ? realpath(given).catch(() => undefined) : Promise.resolve(undefined);
  const [root, real] = await both(realWorkspace(workspace), found);
  return { root, absolute: real ?? await followLinks(resolve(root, path)) };
}

/** Returns the effects of a call on this path. @throws {ToolRefusal} as {@linkcode resolveInWorkspace}. */
export async function effectsOn(
  path: string,
  { workspace, as, ...limits }: WorkspaceLimits & {
    readonly workspace: string;
    readonly as: "reads" | "writes" | "searches";
  },
): Promise<Effects> {
  const { root, absolute } = await resolveInWorkspace(workspace, path, limits);
  return { root, [as]: [absolute] };
}

/** Checks, right before an access, that it is allowed. @throws {ToolRefusal} if it isn't. */
export function assertAllowed(
  { allows }: Pick<ToolContext, "allows">,
  absolute: string,
  effect: "reads" | "writes",
): void {
  if (allows?.(absolute, effect) ?? true) return;
  throw new ToolRefusal("a rule forbids it, or the path has come to lead elsewhere since it was looked at.");
}

/** Returns the real path of an absolute path, after all links; for a missing file the path where opening creates it. */
export function pathAfterLinks(path: string): Promise<string> {
  return followLinks(path);
}

async function hiddenFolder({ hidden }: WorkspaceLimits): Promise<HiddenFolder | undefined> {
  if (hidden === undefined) return undefined;
  try {
    const [{ dev, ino }, path] = await both(stat(hidden), realpath(hidden));
    await findDescriptors(path);
    return { path, dev, ino };
  } catch (error) {
    if (systemCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

/** Awaits two promises; neither is left pending when the other rejects. */
async function both<One, Other>(one: Promise<One>, other: Promise<Other>): Promise<readonly [One, Other]> {
  await Promise.allSettled([one, other]);
  return [await one, await other];
}

/** Returns the name of a temporary file; the same key gives the same name, also in the next process. */
export function temporaryName(key: unknown): string {
  const hash = createHash("sha256").update(JSON.stringify(key)).digest("hex");
  return `.tare-${hash.slice(0, 32)}.tmp`;
}

export function isTemporary(name: string): boolean {
  return /^\.tare-[0-9a-f]{32}\.tmp$/.test(name);
}

/** Returns whether a real path is the hidden folder, in any spelling that the file system accepts. */
export async function isHidden(absolute: string, hidden: HiddenFolder | undefined): Promise<boolean> {
  if (!hidden) return false;
  if (absolute === hidden.path) return true;
  try {
    const { dev, ino } = await lstat(absolute);
    return ino === hidden.ino && dev === hidden.dev;
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}

async function realWorkspace(workspace: string): Promise<string> {
  try {
    return await realpath(workspace);
  } catch (cause) {
    throw new ToolRefusal("the workspace folder itself cannot be reached. This needs the operator.", {
      cause,
    });
  }
}

async function followLinks(path: string): Promise<string> {
  let existing = path;
  let missing: string[] = [];
  for (let links = 0; links < MAX_LINKS;) {
    try {
      return join(await realpath(existing), ...missing);
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
    const target = await linkTarget(existing);
    if (target !== undefined) {
      // What stands behind may be a link where this one leads.
      existing = join(target, ...missing);
      missing = [];
      links++;
    } else {
      missing.unshift(basename(existing));
      existing = dirname(existing);
    }
  }
  throw new ToolRefusal("its symbolic links lead in a circle.");
}

/** Returns the target of a link, dangling or not; `undefined` if it is no link. */
async function linkTarget(path: string): Promise<string | undefined> {
  try {
    const target = await readlink(path);
    // The folder may be reached through links itself, and `..` in the target counts from its real place.
    return resolve(await realpath(dirname(path)), target);
  } catch {
    return undefined;
  }
}

// Opens files and folders of a workspace that other processes change at the same time. A path is resolved anew by each
// call, so that a process that exchanges a folder for a link leads any of them elsewhere. An open handle can't be led
// elsewhere: it is opened, the system's own path of it is compared with the expected one, and everything else goes
// through the handle.
//
// Linux shows the handles of a process in `/proc/self/fd`: their paths, and the entries of folders. Deno refuses that
// path to a process with permissions for some folders only, which needs a link to it in a folder of its own. Where
// there is neither, the path is resolved several times, before and after.

/** Name of the link to {@linkcode DESCRIPTORS} in the folder that the server keeps for itself. */
const LINK = "fd";
const DESCRIPTORS = "/proc/self/fd";

/** Where this process sees its own open files, once found. It is the same for all workspaces. */
let descriptors: string | undefined;
const tried = new Map<string | undefined, Promise<void>>();

/** Looks for the place where this process sees its open files, in the server's own folder too. */
export async function findDescriptors(own?: string): Promise<void> {
  if (descriptors !== undefined) return;
  const search = tried.get(own) ?? searchDescriptors(own);
  tried.set(own, search);
  await search;
}

async function searchDescriptors(own: string | undefined): Promise<void> {
  if (await lstat(DESCRIPTORS).then(() => true, () => false)) {
    descriptors = DESCRIPTORS;
    return;
  }
  if (own === undefined || await readlink(join(own, LINK)).catch(() => undefined) !== DESCRIPTORS) return;
  const folder = await open(own, constants.O_RDONLY);
  try {
    const link = join(own, LINK);
    const seen = await readlink(join(link, `${folder.fd}`)).catch(() => undefined);
    if (seen === await realpath(own)) descriptors = link;
  } finally {
    await folder.close();
  }
}

/** Rounds of the comparison by path. Each of them shows an exchange that goes on with a probability of three quarters. */
const ROUNDS = 10;

const EXCHANGED = "another process has put something else in its place just now. Try again.";

/**
 * Throws unless a handle is open on the file at this path, which no link leads to. Its system calls take no
 * disk and no network. @throws {ToolRefusal}
 */
export function assertOpenAt(fd: number, absolute: string): void {
  if (descriptors === undefined) return assertSame(fstatSync(fd), absolute);
  const path = readlinkSync(`${descriptors}/${fd}`);
  if (path !== absolute && folded(path) !== folded(absolute)) throw new ToolRefusal(EXCHANGED);
}

/** Some file systems take a name in other spellings, and the system returns the one that they store. */
function folded(path: string): string {
  return path.normalize().toLowerCase();
}

/** Throws unless a path leads to this, without links, each time that it is resolved. @throws {ToolRefusal} */
function assertSame({ dev, ino }: Stats, absolute: string): void {
  for (let round = 0; round < ROUNDS; round++) {
    const found = lstatSync(absolute, { throwIfNoEntry: false });
    if (found?.ino !== ino || found.dev !== dev || realpathSync(absolute) !== absolute) {
      throw new ToolRefusal(EXCHANGED);
    }
  }
}

/** Not through a link, and without waiting for the other end of a pipe. */
const SAFELY = (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

/**
 * Opens the file at a real path, and nothing that a link leads to. The caller closes it.
 *
 * @param flags Flags besides. Default: it is opened for reading.
 */
export async function openAt(absolute: string, flags: number = constants.O_RDONLY): Promise<FileHandle> {
  await findDescriptors();
  const file = await open(absolute, flags | SAFELY);
  try {
    assertOpenAt(file.fd, absolute);
    return file;
  } catch (error) {
    await file.close();
    throw error;
  }
}

/** Opens likewise what the system has just been asked about, so that it needs no disk. The caller closes it. */
function openKnown(absolute: string, flags: number): number {
  const fd = openSync(absolute, flags | SAFELY);
  try {
    assertOpenAt(fd, absolute);
    return fd;
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

/** Returns all bytes of the file at a real path: see {@linkcode openAt}. */
export async function readAt(absolute: string): Promise<Uint8Array> {
  const file = await openAt(absolute);
  try {
    return await file.readFile();
  } finally {
    await file.close();
  }
}

/** Returns the system's information on a file, and its content unless it is no file or too large. */
export async function readKnown(
  absolute: string,
  maxBytes: number,
): Promise<{ readonly info: Stats; readonly bytes?: Uint8Array }> {
  await findDescriptors();
  const fd = openKnown(absolute, constants.O_RDONLY);
  try {
    const info = fstatSync(fd);
    if (!info.isFile() || info.size > maxBytes) return { info };
    // One byte more shows that it has grown meanwhile.
    const bytes = new Uint8Array(info.size + 1);
    let length = 0;
    for (let count = -1; count !== 0 && length < bytes.length; length += count) {
      count = await readSome(fd, bytes.subarray(length), length);
    }
    return length <= info.size ? { info, bytes: bytes.subarray(0, length) } : { info };
  } finally {
    closeSync(fd);
  }
}

function readSome(fd: number, bytes: Uint8Array, position: number): Promise<number> {
  return new Promise((resolve, reject) => {
    read(fd, bytes, 0, bytes.length, position, (error, count) => error ? reject(error) : resolve(count));
  });
}

/** A folder that is open: its entries stay reachable wherever its path leads meanwhile. */
export interface Folder {
  /** Path of an entry of this folder. */
  readonly at: (name: string) => string;
  /** Path of the folder, to list its entries. */
  readonly path: string;
  /** Throws unless the folder is where it was. @throws {ToolRefusal} */
  readonly check: () => void;
}

/** Works in the folder at a real path while it is open. @throws {ToolRefusal} if something else is there. */
export async function inFolder<T>(absolute: string, work: (folder: Folder) => Promise<T>): Promise<T> {
  const { folder, close } = await openFolder(absolute);
  try {
    return await work(folder);
  } finally {
    close();
  }
}

/** Works there likewise, and makes the folder first if it is missing, and the folders above. @throws {ToolRefusal} likewise. */
export async function inNewFolder<T>(absolute: string, work: (folder: Folder) => Promise<T>): Promise<T> {
  let opened: OpenFolder;
  try {
    opened = await openFolder(absolute);
  } catch (error) {
    if (systemCode(error) !== "ENOENT") throw error;
    await inNewFolder(dirname(absolute), (parent) =>
      mkdir(parent.at(basename(absolute))).catch((error) => {
        if (systemCode(error) !== "EEXIST") throw error;
      }));
    opened = await openFolder(absolute);
  }
  try {
    return await work(opened.folder);
  } finally {
    opened.close();
  }
}

interface OpenFolder {
  readonly folder: Folder;
  readonly close: () => void;
}

async function openFolder(absolute: string): Promise<OpenFolder> {
  if (constants.O_DIRECTORY === undefined) return await pathOnly(absolute);
  await findDescriptors();
  const fd = openKnown(absolute, constants.O_RDONLY | constants.O_DIRECTORY);
  const path = descriptors === undefined ? absolute : `${descriptors}/${fd}`;
  const at = (name: string) => `${path}/${name}`;
  return { folder: { path, at, check: () => assertOpenAt(fd, absolute) }, close: () => closeSync(fd) };
}

/** The folder at a real path where the system opens none, as Windows does. */
async function pathOnly(absolute: string): Promise<OpenFolder> {
  const info = await lstat(absolute);
  if (!info.isDirectory()) throw new ToolRefusal(EXCHANGED);
  const folder = {
    path: absolute,
    at: (name: string) => join(absolute, name),
    check: () => assertSame(info, absolute),
  };
  return { folder, close() {} };
}

export interface Entry {
  readonly name: string;
  readonly kind: "file" | "folder" | "link" | "other";
}

/** Entries after which other work is done. */
const SLICE = 500;

/** Yields the entries of a folder, unordered, in slices, so that other work proceeds and the caller can stop. */
export async function* entriesOf(folder: Folder): AsyncGenerator<readonly Entry[]> {
  let slice: Entry[] = [];
  try {
    for await (const entry of listed(folder.path)) {
      slice.push(entry);
      if (slice.length < SLICE) continue;
      yield slice;
      slice = [];
      await new Promise((resolve) => setImmediate(resolve));
    }
    yield slice;
  } finally {
    folder.check();
  }
}

/** Lists a folder, as Deno does. */
type ReadDir = (path: string) => AsyncIterable<
  { readonly name: string } & Readonly<Record<"isFile" | "isDirectory" | "isSymlink", boolean>>
>;

async function* listed(path: string): AsyncGenerator<Entry> {
  // In Deno, opendir() reads all of a folder at once; its own function doesn't.
  const readDir = (globalThis as { readonly ["Deno"]?: { readonly readDir: ReadDir } })["Deno"]?.readDir;
  if (readDir) {
    for await (const { name, isSymlink, isDirectory, isFile } of readDir(path)) {
      yield { name, kind: isSymlink ? "link" : isDirectory ? "folder" : isFile ? "file" : "other" };
    }
    return;
  }
  for await (const entry of await opendir(path, { bufferSize: SLICE })) {
    yield { name: entry.name, kind: kindOf(entry) };
  }
}

function kindOf(entry: Dirent): Entry["kind"] {
  if (entry.isSymbolicLink()) return "link";
  return entry.isDirectory() ? "folder" : entry.isFile() ? "file" : "other";
}

/** Entries looked at for a path like the one that is missing. */
const MAX_CANDIDATES = 10_000;
const MAX_SUGGESTIONS = 3;
const MIN_SIMILARITY = 0.5;

/** Returns what exists at a place. @throws {ToolRefusal} if nothing does, with similar paths. */
export async function statInWorkspace(place: WorkspacePath, context: ToolContext): Promise<Stats> {
  try {
    return await lstat(place.absolute);
  } catch (error) {
    if (systemCode(error) !== "ENOENT") throw error;
    const alike = await similarPaths(place, context);
    const hint = alike.length === 0 ? "Look for it with list_files." : `Did you mean ${alike.join(" or ")}?`;
    throw new ToolRefusal(`it does not exist. ${hint}`);
  }
}

/** Like {@linkcode statInWorkspace}. @throws {ToolRefusal} also if it isn't a regular file: a pipe may never end. */
export async function statFile(place: WorkspacePath, context: ToolContext): Promise<Stats> {
  return regular(await statInWorkspace(place, context), "See what is in it with list_files.");
}

/** Returns what the system reports of a regular file. @throws {ToolRefusal} for anything else. */
export function regular(info: Stats, ifFolder: string): Stats {
  if (info.isDirectory()) throw new ToolRefusal(`it is a folder. ${ifFolder}`);
  if (!info.isFile()) throw new ToolRefusal("it is a pipe, a socket or a device, not a regular file.");
  return info;
}

/** Paths with the same name first, then those whose names are most alike. */
async function similarPaths(place: WorkspacePath, context: ToolContext): Promise<string[]> {
  const name = basename(place.relative).toLowerCase();
  const folder = dirname(place.relative);
  const found: { path: string; score: number }[] = [];
  let seen = 0;
  const top = { ...place, absolute: place.root, relative: "." };
  for await (const { relative } of walk(top, { context })) {
    if (++seen > MAX_CANDIDATES) break;
    const likeness = similarity(basename(relative).toLowerCase(), name);
    if (likeness < MIN_SIMILARITY) continue;
    found.push({ path: relative, score: likeness + 0.1 * similarity(dirname(relative), folder) });
  }
  return found.sort((a, b) => b.score - a.score).slice(0, MAX_SUGGESTIONS).map(({ path }) => path);
}

/** How alike two texts are, from 0 to 1: the share of the longer one that stays when one becomes the other. */
export function similarity(a: string, b: string): number {
  const length = Math.max(a.length, b.length);
  return length === 0 ? 1 : 1 - distance(a, b) / length;
}

/** Returns the relative path with forward slashes, `.` for the folder itself; `undefined` outside of it. */
export function pathWithin(folder: string, absolute: string): string | undefined {
  const path = relative(folder, absolute);
  // On Windows, the path to another drive is absolute.
  const isOutside = path === ".." || path.startsWith(`..${SEPARATOR}`) || isAbsolute(path);
  return isOutside ? undefined : path.replaceAll(SEPARATOR, "/") || ".";
}

/** Returns whether an absolute path is a folder or leads into it. */
export function isWithin(path: string, folder: string): boolean {
  return pathWithin(folder, path) !== undefined;
}
