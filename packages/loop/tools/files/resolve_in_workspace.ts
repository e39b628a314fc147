import { createHash } from "node:crypto";
import { lstat, readlink, realpath, stat } from "node:fs/promises";
import { basename, dirname, isAbsolute, join, resolve, sep } from "node:path";
import type { Effects, ToolContext } from "@tare/messages";
import { Refusal, systemCode } from "../define_tool.ts";
import { findDescriptors } from "./handles.ts";

/** What of a workspace the file tools keep from a model. */
export interface WorkspaceLimits {
  /**
   * The server's own folder: no path leads to or into it, and no listing or search shows it. Files are written there
   * before they take their place in the workspace. Default: there is none.
   */
  readonly hidden?: string | undefined;
}

/** A folder that exists and stays unseen. */
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
  /** What must stay unseen. */
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
 * @throws {Refusal} if it lies outside or in what is hidden, or the links lead in a circle.
 */
export async function resolveInWorkspace(
  workspace: string,
  path: string,
  limits: WorkspaceLimits = {},
): Promise<WorkspacePath> {
  if (path.includes("\0")) throw new Refusal("a path cannot hold a NUL character.");
  const [{ root, absolute }, hidden] = await both(realPlace(workspace, path), hiddenFolder(limits));
  const relative = relativeInside(root, absolute);
  if (relative === undefined) {
    throw new Refusal(
      "it lies outside the workspace. Give a path inside, relative to the workspace's top folder.",
    );
  }
  const folders: string[] = [];
  for (let folder = absolute; folder !== root; folder = dirname(folder)) folders.push(folder);
  const areHidden = await Promise.all(folders.map((folder) => isHidden(folder, hidden)));
  if (areHidden.includes(true)) {
    throw new Refusal("it lies in a folder that the server keeps for itself, which no tool may reach.");
  }
  return { root, absolute, relative, ...(hidden && { hidden }) };
}

/** The workspace's own place, and that of the path in it. */
async function realPlace(workspace: string, path: string): Promise<{ root: string; absolute: string }> {
  const given = resolve(workspace, path);
  // Only `..` leads elsewhere from a workspace that is a link than from where that points.
  const isSame = isAbsolute(path) || relativeInside(resolve(workspace), given) !== undefined;
  const found = isSame ? realpath(given).catch(() => undefined) : Promise.resolve(undefined);
  const [root, real] = await both(realWorkspace(workspace), found);
  return { root, absolute: real ?? await followLinks(resolve(root, path)) };
}

/** What a call on this path would do, by where the path leads. @throws {Refusal} as {@linkcode resolveInWorkspace}. */
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

/** Makes sure, right before it is done, that it may be. @throws {Refusal} if it may not. */
export function assertAllowed(
  { allows }: Pick<ToolContext, "allows">,
  absolute: string,
  effect: "reads" | "writes",
): void {
  if (allows?.(absolute, effect) ?? true) return;
  throw new Refusal("a rule forbids it, or the path has come to lead elsewhere since it was looked at.");
}

/** The real place of an absolute path, after all links; of what doesn't exist, where opening it would make it. */
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

/** Looks at two things at once; neither is left under way when the other fails. */
async function both<One, Other>(one: Promise<One>, other: Promise<Other>): Promise<readonly [One, Other]> {
  await Promise.allSettled([one, other]);
  return [await one, await other];
}

/**
 * What a file is called that is written to take another one's place. The same key gives the same name, so that the next
 * process finds it without a search.
 */
export function temporaryName(key: unknown): string {
  const hash = createHash("sha256").update(JSON.stringify(key)).digest("hex");
  return `.tare-${hash.slice(0, 32)}.tmp`;
}

/** Whether a file is called so: it is there for a moment, and nobody's. */
export function isTemporary(name: string): boolean {
  return /^\.tare-[0-9a-f]{32}\.tmp$/.test(name);
}

/** Whether a place free of symbolic links is the hidden folder, in whatever spelling the file system takes. */
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

function isMissing(error: unknown): boolean {
  const code = systemCode(error);
  return code === "ENOENT" || code === "ENOTDIR";
}

async function realWorkspace(workspace: string): Promise<string> {
  try {
    return await realpath(workspace);
  } catch (cause) {
    throw new Refusal("the workspace folder itself cannot be reached. This needs the operator.", { cause });
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
  throw new Refusal("its symbolic links lead in a circle.");
}

/** Where a link points, dangling or not; `undefined` if there is no link. */
async function linkTarget(path: string): Promise<string | undefined> {
  try {
    const target = await readlink(path);
    // The folder may be reached through links itself, and `..` in the target counts from its real place.
    return resolve(await realpath(dirname(path)), target);
  } catch {
    return undefined;
  }
}

function relativeInside(root: string, absolute: string): string | undefined {
  if (absolute === root) return ".";
  const prefix = root.endsWith(sep) ? root : root + sep;
  return absolute.startsWith(prefix) ? absolute.slice(prefix.length).replaceAll(sep, "/") : undefined;
}
