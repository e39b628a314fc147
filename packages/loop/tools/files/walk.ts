import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { ToolContext } from "@tare/messages";
import { RE2JS } from "re2js";
import { globPattern } from "./glob_pattern.ts";
import { IgnoreRules } from "./ignore_rules.ts";
import { isHidden, type WorkspacePath } from "./resolve_in_workspace.ts";

/** What a walk comes across. */
export interface WalkEntry {
  readonly absolute: string;
  /** From the workspace, with forward slashes; a folder's ends in one. */
  readonly relative: string;
  readonly kind: "file" | "folder" | "link" | "other";
}

/** What a walk shows, and whom it tells of the rest. */
export interface WalkOptions {
  readonly context: ToolContext;
  /** Show only what matches, folders never: see {@linkcode globMatcher}. Paths count from the start folder. */
  readonly glob?: string | undefined;
  /** Levels to go down; 1 is the start folder's own entries. Default: all. */
  readonly maxDepth?: number | undefined;
  /** Show hidden entries and those that `.gitignore` files name, too. Default: false. */
  readonly includeHidden?: boolean | undefined;
  /** Called for each entry left out, and for each folder that could not be read. */
  readonly onSkip?: (why: "hidden" | "unreadable") => void;
}

/**
 * Walks a folder depth first, names in code-unit order. Links are shown but not followed, so that a walk ends and
 * stays inside. `.git` is never entered unless the walk starts in it; what the workspace hides is never shown.
 */
export async function* walk(start: WorkspacePath, options: WalkOptions): AsyncGenerator<WalkEntry> {
  const base = start.relative === "." ? "" : `${start.relative}/`;
  const rules = await IgnoreRules.of(start.root, start.relative);
  const matches = options.glob === undefined ? undefined : globMatcher(options.glob);
  for await (const entry of walkFolder(start, { base, rules, depth: 1 }, options)) {
    if (!matches || (entry.kind !== "folder" && matches(entry.relative.slice(base.length)))) yield entry;
  }
}

interface Folder {
  /** Path from the workspace, ending in a slash; empty for the workspace itself. */
  readonly base: string;
  readonly rules: IgnoreRules;
  readonly depth: number;
}

async function* walkFolder(
  top: Pick<WorkspacePath, "root" | "hidden">,
  { base, rules, depth }: Folder,
  options: WalkOptions,
): AsyncGenerator<WalkEntry> {
  const { root, hidden } = top;
  const { context, maxDepth = Infinity, includeHidden = false, onSkip } = options;
  let entries: WalkEntry[];
  try {
    entries = await readFolder(root, base);
  } catch (error) {
    // The folder asked for must be readable; one further down is reported and passed over.
    if (depth === 1) throw error;
    return onSkip?.("unreadable");
  }
  context.progress();
  for (const entry of entries) {
    context.signal.throwIfAborted();
    if (!includeHidden && (startsWithDot(entry, base) || rules.ignores(entry.relative))) {
      onSkip?.("hidden");
      continue;
    }
    if (entry.kind === "folder" && await isHidden(entry.absolute, hidden)) {
      onSkip?.("hidden");
      continue;
    }
    yield entry;
    if (entry.kind !== "folder" || depth >= maxDepth || entry.relative === `${base}.git/`) continue;
    const inside = await rules.enter(root, entry.relative);
    yield* walkFolder(top, { base: entry.relative, rules: inside, depth: depth + 1 }, options);
  }
}

async function readFolder(root: string, base: string): Promise<WalkEntry[]> {
  const entries: WalkEntry[] = [];
  for (const entry of await readdir(join(root, base), { withFileTypes: true })) {
    const { name } = entry;
    const isFolder = entry.isDirectory();
    entries.push({
      absolute: join(root, base, name),
      relative: isFolder ? `${base}${name}/` : base + name,
      kind: entry.isFile() ? "file" : isFolder ? "folder" : entry.isSymbolicLink() ? "link" : "other",
    });
  }
  return entries.sort((a, b) => (a.relative < b.relative ? -1 : 1));
}

function startsWithDot(entry: WalkEntry, base: string): boolean {
  return entry.relative.startsWith(".", base.length);
}

/**
 * Makes a test of relative paths (forward slashes, no slash at the end) against a glob of `*`, `?`, `[…]`, `{…,…}`
 * and `**`. A glob without a slash is held against the last name only. Matching takes linear time.
 */
export function globMatcher(glob: string): (path: string) => boolean {
  const pattern = glob.startsWith("./") ? glob.slice(2) : glob;
  const regExp = RE2JS.compile(globPattern(pattern));
  if (pattern.includes("/")) return (path) => regExp.matches(path);
  return (path) => regExp.matches(path.slice(path.lastIndexOf("/") + 1));
}
