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

/** Entry of a walk. */
export interface WalkEntry {
  readonly absolute: string;
  /** Path from the workspace, with forward slashes; a folder's ends in one. */
  readonly relative: string;
  readonly kind: "file" | "folder" | "link" | "other";
}

/** Reason why an entry is omitted: `uncounted` if its folder has too many entries. */
export type Skipped = "hidden" | "unreadable" | "forbidden" | "uncounted";

/** Options of {@linkcode walk}. */
export interface WalkOptions {
  readonly context: ToolContext;
  /**
   * Glob that entries must match, never folders: see {@linkcode globMatcher}. Relative to the start folder.
   */
  readonly glob?: string | undefined;
  /** Maximum depth; 1 for the start folder's own entries. Default: no limit. */
  readonly maxDepth?: number | undefined;
  /** Whether hidden and git-ignored entries are included. Default: false. */
  readonly includeHidden?: boolean | undefined;
  /** Called for each omitted entry, and each folder that could not be read completely. */
  readonly onSkip?: (why: Skipped) => void;
}

/**
 * Walks a folder depth first, names in code-unit order. Links are yielded, not followed, so that the walk
 * ends and stays inside. `.git` is entered only as the start; hidden and forbidden paths are never yielded.
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
    // The start folder must be readable; others are reported and skipped.
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
    // A forbidden folder omits its content.
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

/** Maximum of entries per folder, in arbitrary order. */
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
 * Returns a predicate for relative paths; a glob without a slash matches the last name only. RE2 takes linear
 * time. @throws {ToolRefusal} if the glob is invalid.
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

/** Larger `.gitignore` files are not read. */
const MAX_BYTES = 1024 * 1024;

interface RuleFile {
  /** Folder of the rules, from the workspace, ending in a slash; empty for the workspace itself. */
  readonly base: string;
  readonly rules: Ignore;
}

/** `.gitignore` rules of a folder and its parents within the workspace, for relative paths. */
export class IgnoreRules {
  readonly #files: readonly RuleFile[];

  private constructor(files: readonly RuleFile[]) {
    this.#files = files;
  }

  /** Returns the rules for `folder` (`.` or a relative path). */
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

  /**
   * Returns whether git would ignore `path` in this folder. The nearest file with a matching rule decides.
   */
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
    return undefined;
  }
}
