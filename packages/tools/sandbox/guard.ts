import { spawn } from "node:child_process";
import { lstatSync, mkdirSync, readdirSync, readlinkSync, realpathSync, rmdirSync } from "node:fs";
import { basename, dirname, join } from "@std/path";
import { ToolRefusal } from "../define_tool.ts";
import { isWithin } from "../files/resolve_in_workspace.ts";
import { type Sandbox, sandboxed, writeInputs } from "./sandbox.ts";

/** Keeps protected paths of a workspace from a command in a sandbox. */
export interface Guard {
  /** Protected paths of the workspace, none of which the command can write. */
  readonly fixed: readonly string[];
  /** Ends with the command. Returns the protected paths that appeared meanwhile, under the names that they have now. */
  readonly end: () => Promise<readonly Renamed[]>;
}

/** A protected path that appeared while a command ran. */
export interface Renamed {
  readonly from: string;
  /** Absent: it could not be renamed. */
  readonly to?: string;
}

/** How many commands run in workspaces that had no `.git` of their own. */
const placeholders = new Map<string, number>();

/** Interval at which the workspace of a command that runs is searched, in milliseconds. */
const SEARCH_EVERY_MS = 1_000;

/** Most folders that are searched: those nearest to the workspace's top. */
const MAX_FOLDERS = 5_000;

/** Packages that are installed bring such files along, where the user's tools don't look for them. */
const INSTALLED = "node_modules";

/**
 * Guards a workspace's protected paths while a command runs: those that exist are mounted read-only, and those that appear
 * are renamed, at the latest after a second and when the command has ended. A folder can't be mounted that doesn't exist.
 *
 * Where there is no `.git`, an empty folder is made, which git ignores. It is removed by
 * {@linkcode clearWorkspaces}, and not with the command, because what a command left running may end a moment after it.
 *
 * @param options.isSearched Whether what appears is searched for. Default: yes.
 * @throws {ToolRefusal} if `.git` is a link, because a link can be replaced.
 */
export function guardWorkspace(
  sandbox: Sandbox,
  { isSearched = true }: { readonly isSearched?: boolean } = {},
): Guard {
  const { workspace } = sandbox;
  const leaveGit = guardGit(workspace);
  const before = protectedPaths(workspace);
  const fixed = [
    ...new Set(
      [...before].flatMap(([path, { target }]) =>
        target === undefined ? [path] : withinOf(target, workspace)
      ),
    ),
  ];
  const renamed: Renamed[] = [];
  const search = async () => {
    const found = [...protectedPaths(workspace)].filter(([path, now]) => {
      const then = before.get(path);
      const isHidden = sandbox.hidden.some((hidden) => isWithin(path, hidden.path));
      return !isHidden && !approved.has(path) &&
        (!then || then.target !== now.target || !then.isEntry && now.isEntry);
    });
    // Of a folder that git takes for a repository one entry is enough.
    const paths = found.flatMap(([path, { isEntry }]) => !isEntry || /\/HEAD$/i.test(path) ? [path] : []);
    if (paths.length > 0) renamed.push(...await rename(sandbox, { paths, fixed }));
  };
  let searching: Promise<void> = Promise.resolve();
  const timer = isSearched
    ? setInterval(() => searching = searching.then(search).catch(() => {}), SEARCH_EVERY_MS)
    : undefined;
  let ended: Promise<readonly Renamed[]> | undefined;
  const end = async () => {
    clearInterval(timer);
    try {
      await searching;
      if (isSearched) await search();
      return renamed;
    } finally {
      leaveGit();
    }
  };
  return { fixed, end: () => ended ??= end() };
}

/** Protected paths that were written by tools that ask before. */
const approved = new Set<string>();

/** Records that a path was written with the user's approval, so that no guard renames it. */
export function approvePath(path: string): void {
  if (isProtected(path)) approved.add(path);
}

function guardGit(workspace: string): () => void {
  const git = join(workspace, ".git");
  const found = lstatSync(git, { throwIfNoEntry: false });
  if (found?.isSymbolicLink()) {
    throw new ToolRefusal(
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

/** Removes the empty `.git` folders that sandboxes left. Call it once no command runs. */
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

/** A protected path: the target of one that is a link, and whether only its folder's other entries make it one. */
interface Protected {
  readonly target?: string;
  readonly isEntry: boolean;
}

/** Entries of a folder that count, valid as long as its times are the same. */
interface Listing {
  readonly stamp: string;
  readonly folders: readonly string[];
  readonly found: ReadonlyMap<string, Protected>;
}

/** By the path of the folder. A command's searches read again only what has changed. */
const listings = new Map<string, Listing>();

/** Changes of a folder within its clock's resolution leave the same times. */
const SETTLED_MS = 50;

function protectedPaths(workspace: string): ReadonlyMap<string, Protected> {
  const all = new Map<string, Protected>();
  const folders = [workspace];
  for (let at = 0; at < folders.length && at < MAX_FOLDERS; at++) {
    const listing = listed(folders[at]!);
    for (const [path, found] of listing?.found ?? []) all.set(path, found);
    for (const folder of listing?.folders ?? []) folders.push(folder);
  }
  if (listings.size > 2 * MAX_FOLDERS) listings.clear();
  return all;
}

function listed(folder: string): Listing | undefined {
  try {
    const { ino, mtimeMs, ctimeMs, mtimeNs, ctimeNs } = lstatSync(folder, { bigint: true });
    const stamp = `${ino} ${mtimeNs} ${ctimeNs}`;
    const last = listings.get(folder);
    if (last?.stamp === stamp) return last;
    const entries = readdirSync(folder, { withFileTypes: true });
    const own = new Set(repositoryEntries(entries.map(({ name }) => name)));
    const found = new Map<string, Protected>();
    const folders: string[] = [];
    for (const entry of entries) {
      const path = join(folder, entry.name);
      const isNamed = isProtected(entry.name);
      if (isNamed || own.has(entry.name)) {
        const target = entry.isSymbolicLink() ? readlinkSync(path) : undefined;
        found.set(path, {
          isEntry: !isNamed,
          ...(target !== undefined && { target: join(dirname(path), target) }),
        });
      } else if (entry.isDirectory() && entry.name !== INSTALLED) folders.push(path);
    }
    const listing = { stamp, folders, found };
    const changed = mtimeMs > ctimeMs ? mtimeMs : ctimeMs;
    if (Date.now() - Number(changed) > SETTLED_MS) listings.set(folder, listing);
    return listing;
  } catch {
    // It is gone, or can't be read; then the user's tools can't read it either.
    return undefined;
  }
}

/** The path where a link leads, if that is in the workspace: what is obeyed stands there. */
function withinOf(target: string, workspace: string): readonly string[] {
  try {
    const path = realpathSync(target);
    return path !== workspace && isWithin(path, workspace) ? [path] : [];
  } catch {
    return [];
  }
}

/** Renames what its arguments name, each by a random suffix, where the folder's owner may. */
const RENAME =
  'id=$1; shift; for p; do chmod u+rwx -- "$(dirname -- "$p")"; mv -n -- "$p" "$p.blocked-$id"; done';

/** Renames paths within the sandbox, so that a folder which was replaced by a link leads nowhere. */
async function rename(
  sandbox: Sandbox,
  { paths, fixed }: { readonly paths: readonly string[]; readonly fixed: readonly string[] },
): Promise<readonly Renamed[]> {
  const id = crypto.randomUUID().slice(0, 8);
  const { program, args, env, inputs } = sandboxed(sandbox, {
    command: ["/bin/sh", "-c", RENAME, "sh", id, ...paths],
    ...{ cwd: sandbox.workspace, fixed },
  });
  await new Promise<void>((resolve) => {
    const child = spawn(program, [...args], {
      env: { PATH: "/usr/local/bin:/usr/bin:/bin", ...env },
      stdio: ["ignore", "ignore", "ignore", ...inputs.map(() => "pipe" as const)],
    });
    child.once("error", () => resolve());
    child.once("exit", () => resolve());
    if (child.pid !== undefined) writeInputs(child, inputs);
  });
  return paths.flatMap((from) => {
    const to = `${from}.blocked-${id}`;
    if (lstatSync(to, { throwIfNoEntry: false })) return [{ from, to }];
    // Whoever made it may have removed it again.
    return lstatSync(from, { throwIfNoEntry: false }) ? [{ from }] : [];
  });
}

/** Lines on the protected paths that appeared while a command ran, each with a line break before it. */
export function describeRenamed(renamed: readonly Renamed[]): string {
  return renamed.map(({ from, to }) =>
    to === undefined
      ? `\n[${from} appeared, may be run or obeyed later without approval, and could not be renamed.]`
      : `\n[${from} was renamed to ${
        basename(to)
      }: it may be run or obeyed later without approval. Write it with ` +
        "write_file, or say with outside that the command needs to.]"
  ).join("");
}

/** Folders of files that run later without a request: git hooks, shell profiles, settings of editors and agents. */
const PROTECTED_FOLDERS = namesIn(
  ".git .hg .svn .husky .githooks .vscode .idea .zed .devcontainer .emacs.d .vim .nvim .config .direnv .tare " +
    ".claude .codex .cursor .gemini .opencode .continue .windsurf .roo .cline .kilocode .kiro .augment .junie .qwen " +
    ".factory .amazonq .agents .pi .openclaw .ssh .gnupg .aws .kube .docker",
);

/** Such files, in whatever folder, and the instructions that agents read. */
const PROTECTED_FILES = namesIn(
  ".profile .login .logout .inputrc .envrc .pam_environment .xprofile .xinitrc .bashrc .bash_profile .bash_login " +
    ".bash_logout .bash_aliases .zshrc .zshenv .zprofile .zlogin .zlogout .kshrc .mkshrc .cshrc .tcshrc .gitconfig " +
    ".gitmodules .hgrc .npmrc .yarnrc .yarnrc.yml .pypirc .netrc .curlrc .wgetrc .vimrc .nvimrc .exrc .gvimrc .emacs " +
    ".dir-locals.el .gdbinit .lldbinit .tmux.conf .mcp.json mcp.json opencode.json opencode.jsonc kilo.json " +
    "kilo.jsonc .pre-commit-config.yaml .pre-commit-config.yml lefthook.yml lefthook.yaml .lefthook.yml " +
    "agents.md agents.override.md claude.md claude.local.md gemini.md .cursorrules .windsurfrules .clinerules " +
    ".roorules .goosehints .aider.conf.yml copilot-instructions.md",
);

function namesIn(text: string): ReadonlySet<string> {
  return new Set(text.split(" "));
}

/** Returns whether a path, in any spelling, may name a file that is executed or followed later without a request. */
export function isProtected(path: string): boolean {
  const names = path.split(/[/\\]/).filter(Boolean).map(plainName);
  return names.some((name) => PROTECTED_FOLDERS.has(name)) || PROTECTED_FILES.has(names.at(-1) ?? "");
}

/** Some file systems leave out characters that show as nothing, blanks and dots at the end, or know a short name. */
function plainName(name: string): string {
  const plain = name.normalize("NFKC").replaceAll(/\p{Cf}/gu, "").replace(/[. ]+$/, "").toLowerCase();
  return /^git~\d$/.test(plain) ? ".git" : plain;
}

/** Entries of a repository of git whose settings and hooks it obeys. */
const REPOSITORY = namesIn(
  "head config config.worktree objects refs hooks info packed-refs commondir worktrees modules",
);

/** Returns the entries that make git take the folder itself for a repository; none if it doesn't. */
export function repositoryEntries(names: readonly string[]): readonly string[] {
  const there = new Set(names.map((name) => name.toLowerCase()));
  const isRepository = there.has("head") &&
    (there.has("commondir") || there.has("objects") && there.has("refs"));
  return isRepository ? names.filter((name) => REPOSITORY.has(name.toLowerCase())) : [];
}

/** A regular expression of seatbelt's for protected paths. */
export const PROTECTED_REGEX: string = `/(${
  [...PROTECTED_FOLDERS, ...PROTECTED_FILES].map((name) =>
    [...name].map((letter) =>
      /[a-z]/.test(letter) ? `[${letter.toUpperCase()}${letter}]` : letter.replace(".", "\\.")
    ).join("")
  ).join("|")
})(/|$)`;
