import { lstatSync, mkdirSync, rmdirSync } from "node:fs";
import { join } from "node:path";
import { Refusal } from "../define_tool.ts";

/** How many commands run in workspaces that had no `.git` of their own. */
const placeholders = new Map<string, number>();

/**
 * Sees to it that a workspace's `.git` can be mounted, so that commands can't write it: git runs and believes what stands there,
 * whoever wrote it. Where there is none, an empty folder stands there from now on, of which git takes no notice. It goes by
 * {@linkcode clearWorkspaces}, and not with the command, because what a command left running may end a moment after it.
 * In a file system that can't be changed a command can't begin a repository either.
 *
 * @returns What to call once the command has ended.
 * @throws {Refusal} if it is a link, because a link can be replaced.
 */
export function guardGit(workspace: string): () => void {
  const git = join(workspace, ".git");
  const found = lstatSync(git, { throwIfNoEntry: false });
  if (found?.isSymbolicLink()) {
    throw new Refusal(
      "the workspace's .git is a link, which a sandbox can't keep from being replaced. Say with outside what the " +
        "command needs.",
    );
  }
  if (!found) {
    try {
      mkdirSync(git);
    } catch (error) {
      // Not EACCES: whose the folder is could permit it to himself.
      const code = error instanceof Error && "code" in error ? error.code : undefined;
      if (code === "EROFS" || code === "EPERM") return () => {};
      throw error;
    }
  } else if (!placeholders.has(git)) return () => {};
  placeholders.set(git, (placeholders.get(git) ?? 0) + 1);
  return () => void placeholders.set(git, placeholders.get(git)! - 1);
}

/**
 * Takes away what sandboxes have left in workspaces, an empty folder `.git` where there was none. Call it at the end, when no
 * command runs any more.
 */
export function clearWorkspaces(): void {
  for (const [git, running] of placeholders) {
    if (running > 0) continue;
    placeholders.delete(git);
    try {
      rmdirSync(git);
    } catch {
      // Somebody outside has begun a repository meanwhile.
    }
  }
}
