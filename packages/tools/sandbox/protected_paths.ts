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
