import { spawn } from "node:child_process";
import { lstatSync, mkdirSync, readdirSync, readlinkSync, realpathSync, rmdirSync } from "node:fs";
import { basename, dirname, join } from "@std/path";
import { ToolRefusal } from "../define_tool.ts";
import { isWithin } from "../files/resolve_in_workspace.ts";
import { type Sandbox, sandboxed, writeInputs } from "./sandbox.ts";

/** Protection of a workspace's paths from a sandboxed command. */
export interface Guard {
  readonly fixed: readonly string[];
  /** Ends with the command. Returns the protected paths that appeared meanwhile, with their new names. */
  readonly end: () => Promise<readonly Renamed[]>;
}

/** Protected path that appeared while a command ran. */
export interface Renamed {
  readonly from: string;
  readonly to?: string;
}

const placeholders = new Map<string, number>();

const SEARCH_EVERY_MS = 1_000;

const MAX_FOLDERS = 5_000;

const INSTALLED = "node_modules";

/**
 * Guards a workspace's protected paths while a command runs: existing ones are mounted read-only, new ones
 * are renamed within a second.
 *
 * A missing folder can't be mounted, so an empty `.git` is created, which git ignores.
 * {@linkcode clearWorkspaces} removes it later, because processes may outlive the command briefly.
 *
 * @param options.isSearched Whether new paths are searched for. Default: true.
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

const approved = new Set<string>();

/** Records that a path was written with the user's approval, so that it isn't renamed. */
export function approvePath(path: string): void {
  if (isProtected(path)) approved.add(path);
}

function guardGit(workspace: string): () => void {
  const git = join(workspace, ".git");
  const found = lstatSync(git, { throwIfNoEntry: false });
  if (found?.isSymbolicLink()) {
    throw new ToolRefusal(
      "the workspace's .git is a link, which a sandbox can't protect. Use outside and state what the " +
        "command needs.",
    );
  }
  if (!found) {
    try {
      mkdirSync(git);
    } catch (error) {
      // Not EACCES: a folder's owner could change its permissions.
      const code = error instanceof Error && "code" in error ? error.code : undefined;
      if (code === "EROFS" || code === "EPERM") return () => {};
      throw error;
    }
  } else if (!placeholders.has(git)) return () => {};
  placeholders.set(git, (placeholders.get(git) ?? 0) + 1);
  return () => void placeholders.set(git, placeholders.get(git)! - 1);
}

/** Removes the empty `.git` folders of sandboxes. Call it once no command runs. */
export function clearWorkspaces(): void {
  for (const [git, running] of placeholders) {
    if (running > 0) continue;
    placeholders.delete(git);
    try {
      rmdirSync(git);
    } catch {
      // Another process has created a repository.
    }
  }
}

interface Protected {
  readonly target?: string;
  readonly isEntry: boolean;
}

interface Listing {
  readonly stamp: string;
  readonly folders: readonly string[];
  readonly found: ReadonlyMap<string, Protected>;
}

const listings = new Map<string, Listing>();

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
    return undefined;
  }
}

function withinOf(target: string, workspace: string): readonly string[] {
  try {
    const path = realpathSync(target);
    return path !== workspace && isWithin(path, workspace) ? [path] : [];
  } catch {
    return [];
  }
}

const RENAME =
  'id=$1; shift; for p; do chmod u+rwx -- "$(dirname -- "$p")"; mv -n -- "$p" "$p.blocked-$id"; done';

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
    return lstatSync(from, { throwIfNoEntry: false }) ? [{ from }] : [];
  });
}

/** Returns a line per renamed path, with a line break before each. */
export function describeRenamed(renamed: readonly Renamed[]): string {
  return renamed.map(({ from, to }) =>
    to === undefined
      ? `\n[${from} appeared, may be executed or followed later without approval, and could not be renamed.]`
      : `\n[${from} was renamed to ${
        basename(to)
      }: it may be executed or followed later without approval. Write it with ` +
        "write_file, or run the command with outside.]"
  ).join("");
}

/**
 * Folders of files that are executed later without a request: git hooks, shell profiles, settings of editors
 * and agents.
 */
const PROTECTED_FOLDERS = namesIn(
  ".git .hg .svn .husky .githooks .vscode .idea .zed .devcontainer .emacs.d .vim .nvim .config .direnv .tare " +
    ".claude .codex .cursor .gemini .opencode .continue .windsurf .roo .cline .kilocode .kiro .augment .junie .qwen " +
    ".factory .amazonq .agents .pi .openclaw .ssh .gnupg .aws .kube .docker",
);

/** Such files in any folder, and instruction files of agents. */
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

/** Returns whether other programs may execute or follow a file at this path, in any spelling. */
export function isProtected(path: string): boolean {
  const names = path.split(/[/\\]/).filter(Boolean).map(plainName);
  return names.some((name) => PROTECTED_FOLDERS.has(name)) || PROTECTED_FILES.has(names.at(-1) ?? "");
}

/** Some file systems ignore invisible characters and trailing blanks and dots, or have short names. */
function plainName(name: string): string {
  const plain = name.normalize("NFKC").replaceAll(/\p{Cf}/gu, "").replace(/[. ]+$/, "").toLowerCase();
  return /^git~\d$/.test(plain) ? ".git" : plain;
}

const REPOSITORY = namesIn(
  "head config config.worktree objects refs hooks info packed-refs commondir worktrees modules",
);

/** Returns the entries that make a folder a bare repository; none if it isn't one. */
export function repositoryEntries(names: readonly string[]): readonly string[] {
  const there = new Set(names.map((name) => name.toLowerCase()));
  const isRepository = there.has("head") &&
    (there.has("commondir") || there.has("objects") && there.has("refs"));
  return isRepository ? names.filter((name) => REPOSITORY.has(name.toLowerCase())) : [];
}

/** Seatbelt's regular expression for protected paths. */
export const PROTECTED_REGEX: string = `/(${
  [...PROTECTED_FOLDERS, ...PROTECTED_FILES].map((name) =>
    [...name].map((letter) =>
      /[a-z]/.test(letter) ? `[${letter.toUpperCase()}${letter}]` : letter.replace(".", "\\.")
    ).join("")
  ).join("|")
})(/|$)`;
