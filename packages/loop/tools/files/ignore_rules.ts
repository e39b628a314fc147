import ignore, { type Ignore } from "ignore";
import { lstat, readFile } from "node:fs/promises";
import { join } from "node:path";

/** A larger `.gitignore` is no list that somebody keeps, and is not read. */
const MAX_BYTES = 1024 * 1024;

interface RuleFile {
  /** Folder that the rules count from, relative to the workspace, ending in a slash; empty for the workspace itself. */
  readonly base: string;
  readonly rules: Ignore;
}

/**
 * The `.gitignore` rules that hold in one folder: its own and those of the folders above, up to the workspace. Paths
 * are relative to the workspace; those of folders end in a slash.
 */
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

  /**
   * Rules for a folder one level down. Whoever enters a folder that is ignored named it on purpose: the rules that
   * ignore it don't hold inside.
   */
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
    const info = await lstat(path);
    return info.isFile() && info.size <= MAX_BYTES ? await readFile(path, "utf8") : undefined;
  } catch {
    // No rules, or none that can be read: either way none hold.
    return undefined;
  }
}
