import { globToRegExp, join, resolve } from "@std/path";
import type { ToolContext } from "@tare/messages";
import { RE2JS } from "re2js";
import ignore, { type Ignore } from "ignore";
import { ToolRefusal } from "../define_tool.ts";
import {
  entriesOf,
  inFolder,
  isHidden,
  isTemporary,
  readKnown,
  type WorkspacePath,
} from "./resolve_in_workspace.ts";

/** What a walk comes across. */
export interface WalkEntry {
  readonly absolute: string;
  /** From the workspace, with forward slashes; a folder's ends in one. */
  readonly relative: string;
  readonly kind: "file" | "folder" | "link" | "other";
}

/** Why something isn't shown: `uncounted` if its folder holds too many entries. */
export type Skipped = "hidden" | "unreadable" | "forbidden" | "uncounted";

/** What a walk shows, and whom it tells of the rest. */
export interface WalkOptions {
  readonly context: ToolContext;
  /** Show only what matches, folders never: see {@linkcode globMatcher}. Paths count from the start folder. */
  readonly glob?: string | undefined;
  /** Levels to go down; 1 is the start folder's own entries. Default: all. */
  readonly maxDepth?: number | undefined;
  /** Show hidden entries and those that `.gitignore` files name, too. Default: false. */
  readonly includeHidden?: boolean | undefined;
  /** Called for each entry left out, and for each folder that could not be read, or not to its end. */
  readonly onSkip?: (why: Skipped) => void;
}

/**
 * Walks a folder depth first, names in code-unit order. Links are shown but not followed, so that a walk ends and
 * stays inside. `.git` is never entered unless the walk starts in it; what the workspace hides or a rule forbids is never
 * shown.
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
    if (entries.length > MAX_ENTRIES) onSkip?.("uncounted");
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
    // With a folder goes all that is in it.
    if (!(context.allows?.(entry.absolute, "names") ?? true)) {
      onSkip?.("forbidden");
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

/** Most entries of one folder that are shown, in no order which. */
const MAX_ENTRIES = 50_000;

async function readFolder(root: string, base: string): Promise<WalkEntry[]> {
  const entries: WalkEntry[] = [];
  await inFolder(resolve(root, base), async (folder) => {
    for await (const slice of entriesOf(folder)) {
      for (const { name, kind } of slice) {
        if (isTemporary(name)) continue;
        const relative = kind === "folder" ? `${base}${name}/` : base + name;
        entries.push({ absolute: join(root, base, name), relative, kind });
      }
      if (entries.length > MAX_ENTRIES) break;
    }
  });
  if (entries.length > MAX_ENTRIES) entries.length = MAX_ENTRIES + 1;
  return entries.sort((a, b) => (a.relative < b.relative ? -1 : 1));
}

function startsWithDot(entry: WalkEntry, base: string): boolean {
  return entry.relative.startsWith(".", base.length);
}

/**
 * Returns whether relative paths match a glob; one without a slash is matched against the last name only. RE2 takes
 * linear time. @throws {ToolRefusal} if the glob is invalid.
 */
export function globMatcher(glob: string): (path: string) => boolean {
  const pattern = glob.startsWith("./") ? glob.slice(2) : glob;
  let regExp: RE2JS;
  try {
    regExp = RE2JS.compile(globToRegExp(pattern, { extended: false }).source);
  } catch {
    throw new ToolRefusal(`the glob ${JSON.stringify(glob)} is not valid.`);
  }
  if (pattern.includes("/")) return (path) => regExp.matches(path);
  return (path) => regExp.matches(path.slice(path.lastIndexOf("/") + 1));
}

/** A larger `.gitignore` is no list that somebody keeps, and is not read. */
const MAX_BYTES = 1024 * 1024;

interface RuleFile {
  /** Folder that the rules count from, relative to the workspace, ending in a slash; empty for the workspace itself. */
  readonly base: string;
  readonly rules: Ignore;
}

/** The `.gitignore` rules of a folder and those above it, up to the workspace, over relative paths. */
export class IgnoreRules {
  readonly #files: readonly RuleFile[];

  private constructor(files: readonly RuleFile[]) {
    this.#files = files;
  }

  /** Rules for `folder` (`.` or a relative path), read from its `.gitignore` and those above it. */
  static async of(root: string, folder: string): Promise<IgnoreRules> {
    let rules = await new IgnoreRules([]).enter(root, "");
    if (folder === ".") return rules;
    let path = "";
    for (const name of folder.split("/")) {
      path += `${name}/`;
      rules = await rules.enter(root, path);
    }
    return rules;
  }

  /** Returns the rules of a subfolder. Rules that ignore an explicitly entered folder don't apply inside. */
  async enter(root: string, folder: string): Promise<IgnoreRules> {
    const files = this.#files.filter(({ base, rules }) => !rules.ignores(folder.slice(base.length)));
    const text = await readRules(join(root, folder, ".gitignore"));
    if (text) files.push({ base: folder, rules: ignore().add(text) });
    return new IgnoreRules(files);
  }

  /** Whether git would ignore `path`, which lies in this folder. The file nearest to it that says something decides. */
  ignores(path: string): boolean {
    for (const { base, rules } of this.#files.toReversed()) {
      const { ignored, unignored } = rules.test(path.slice(base.length));
      if (ignored || unignored) return ignored;
    }
    return false;
  }
}

async function readRules(path: string): Promise<string | undefined> {
  try {
    const { bytes } = await readKnown(path, MAX_BYTES);
    return bytes && new TextDecoder().decode(bytes);
  } catch {
    // No rules, or none that can be read: either way none hold.
    return undefined;
  }
}
