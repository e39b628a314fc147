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
  /** Hidden folder, where the server stages new files. Default: none. */
  readonly hidden?: string | undefined;
}

interface HiddenFolder {
  readonly path: string;
  readonly dev: number;
  readonly ino: number;
}

/** Path in a workspace. It may be missing. */
export interface WorkspacePath {
  readonly root: string;
  readonly absolute: string;
  /** Path from `root`, with forward slashes; `.` for the workspace itself. */
  readonly relative: string;
  readonly hidden?: HiddenFolder;
}

const MAX_LINKS = 40;

/**
 * Resolves a path, relative to the workspace or absolute, with all symbolic links, and checks that it is
 * within the workspace. A missing file is resolved to where opening `path` would create it. Callers must use
 * `absolute` afterwards, and open it by `openAt()`, because other processes may replace a folder by a link.
 *
 * @throws {ToolRefusal} if it is outside or hidden, or the links form a cycle.
 */
export async function resolveInWorkspace(
  workspace: string,
  path: string,
  limits: WorkspaceLimits = {},
): Promise<WorkspacePath> {
  if (path.includes("\0")) throw new ToolRefusal("a path cannot contain a NUL character.");
  const [{ root, absolute }, hidden] = await both(realPlace(workspace, path), hiddenFolder(limits));
  const relative = pathWithin(root, absolute);
  if (relative === undefined) {
    throw new ToolRefusal(
      "it is outside of the workspace. Pass a path relative to the workspace.",
    );
  }
  const folders: string[] = [];
  for (let folder = absolute; folder !== root; folder = dirname(folder)) folders.push(folder);
  const areHidden = await Promise.all(folders.map((folder) => isHidden(folder, hidden)));
  if (areHidden.includes(true)) {
    throw new ToolRefusal("it is in a folder of the server, which no tool may access.");
  }
  return { root, absolute, relative, ...(hidden && { hidden }) };
}

async function realPlace(workspace: string, path: string): Promise<{ root: string; absolute: string }> {
  const given = resolve(workspace, path);
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

/** Checks an access right before it. @throws {ToolRefusal} if it isn't allowed. */
export function assertAllowed(
  { allows }: Pick<ToolContext, "allows">,
  absolute: string,
  effect: "reads" | "writes",
): void {
  if (allows?.(absolute, effect) ?? true) return;
  throw new ToolRefusal("a rule forbids it, or the path has changed since it was checked.");
}

/** Returns the real path of an absolute path; for a missing file, the path where opening creates it. */
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

async function both<One, Other>(one: Promise<One>, other: Promise<Other>): Promise<readonly [One, Other]> {
  await Promise.allSettled([one, other]);
  return [await one, await other];
}

/** Returns the name of a temporary file, which is determined by the key across processes. */
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
      existing = join(target, ...missing);
      missing = [];
      links++;
    } else {
      missing.unshift(basename(existing));
      existing = dirname(existing);
    }
  }
  throw new ToolRefusal("its symbolic links form a cycle.");
}

async function linkTarget(path: string): Promise<string | undefined> {
  try {
    const target = await readlink(path);
    return resolve(await realpath(dirname(path)), target);
  } catch {
    return undefined;
  }
}

// Opens files while other processes change the workspace. A path can be redirected by replacing a folder by a
// link, an open handle can't: its path as the system reports it is compared with the expected one.
//
// Linux lists handles in `/proc/self/fd`. Deno denies that path to a process with permissions for some
// folders only; a link in an own folder avoids this. Without either, the path is resolved several times.

/** Name of the link to {@linkcode DESCRIPTORS} in the folder that the server keeps for itself. */
const LINK = "fd";
const DESCRIPTORS = "/proc/self/fd";

/** Path of this process's open files, once found, for all workspaces. */
let descriptors: string | undefined;
const tried = new Map<string | undefined, Promise<void>>();

/** Finds the path of this process's open files, also through the server's own folder. */
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

const ROUNDS = 10;

const EXCHANGED = "another process has just replaced it. Try again.";

/**
 * Throws unless a handle is the file at this path, without links. Takes no disk or network access. @throws
 * {ToolRefusal}
 */
export function assertOpenAt(fd: number, absolute: string): void {
  if (descriptors === undefined) return assertSame(fstatSync(fd), absolute);
  const path = readlinkSync(`${descriptors}/${fd}`);
  if (path !== absolute && folded(path) !== folded(absolute)) throw new ToolRefusal(EXCHANGED);
}

function folded(path: string): string {
  return path.normalize().toLowerCase();
}

/** Throws unless the path resolves to this file, without links, several times. @throws {ToolRefusal} */
function assertSame({ dev, ino }: Stats, absolute: string): void {
  for (let round = 0; round < ROUNDS; round++) {
    const found = lstatSync(absolute, { throwIfNoEntry: false });
    if (found?.ino !== ino || found.dev !== dev || realpathSync(absolute) !== absolute) {
      throw new ToolRefusal(EXCHANGED);
    }
  }
}

const SAFELY = (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

/**
 * Opens the file at a real path, never the target of a link. The caller closes it.
 *
 * @param flags Flags. Default: for reading.
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

/** Returns a file's metadata, and its content unless it is no regular file or too large. */
export async function readKnown(
  absolute: string,
  maxBytes: number,
): Promise<{ readonly info: Stats; readonly bytes?: Uint8Array }> {
  await findDescriptors();
  const fd = openKnown(absolute, constants.O_RDONLY);
  try {
    const info = fstatSync(fd);
    if (!info.isFile() || info.size > maxBytes) return { info };
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

/** Open folder: its entries stay reachable even if its path changes. */
export interface Folder {
  readonly at: (name: string) => string;
  readonly path: string;
  /** Throws unless the folder is still at its path. @throws {ToolRefusal} */
  readonly check: () => void;
}

/**
 * Calls `work` with the folder at a real path while it is open. @throws {ToolRefusal} if something else is
 * there.
 */
export async function inFolder<T>(absolute: string, work: (folder: Folder) => Promise<T>): Promise<T> {
  const { folder, close } = await openFolder(absolute);
  try {
    return await work(folder);
  } finally {
    close();
  }
}

/** Same, but creates missing folders first. @throws {ToolRefusal} likewise. */
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

const SLICE = 500;

/**
 * Yields the entries of a folder, unordered, in slices, so that the event loop runs and the caller can stop.
 */
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

type ReadDir = (path: string) => AsyncIterable<
  { readonly name: string } & Readonly<Record<"isFile" | "isDirectory" | "isSymlink", boolean>>
>;

async function* listed(path: string): AsyncGenerator<Entry> {
  // In Deno, opendir() reads the whole folder at once, unlike Deno.readDir().
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

const MAX_CANDIDATES = 10_000;
const MAX_SUGGESTIONS = 3;
const MIN_SIMILARITY = 0.5;

/** Returns the metadata of a path. @throws {ToolRefusal} if it is missing, with similar paths. */
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

/**
 * Like {@linkcode statInWorkspace}. @throws {ToolRefusal} also if it isn't a regular file: a pipe may never
 * end.
 */
export async function statFile(place: WorkspacePath, context: ToolContext): Promise<Stats> {
  return regular(await statInWorkspace(place, context), "See what is in it with list_files.");
}

/** Returns the metadata of a regular file. @throws {ToolRefusal} for anything else. */
export function regular(info: Stats, ifFolder: string): Stats {
  if (info.isDirectory()) throw new ToolRefusal(`it is a folder. ${ifFolder}`);
  if (!info.isFile()) throw new ToolRefusal("it is a pipe, a socket or a device, not a regular file.");
  return info;
}

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

/** Returns the similarity of two texts, from 0 to 1: the share of the longer one that an edit retains. */
export function similarity(a: string, b: string): number {
  const length = Math.max(a.length, b.length);
  return length === 0 ? 1 : 1 - distance(a, b) / length;
}

/** Returns the relative path with forward slashes, `.` for the folder itself; `undefined` outside of it. */
export function pathWithin(folder: string, absolute: string): string | undefined {
  const path = relative(folder, absolute);
  const isOutside = path === ".." || path.startsWith(`..${SEPARATOR}`) || isAbsolute(path);
  return isOutside ? undefined : path.replaceAll(SEPARATOR, "/") || ".";
}

/** Returns whether an absolute path is a folder or within it. */
export function isWithin(path: string, folder: string): boolean {
  return pathWithin(folder, path) !== undefined;
}
