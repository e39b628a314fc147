/**
 * Files that something runs or obeys later without being asked: hooks and settings of git, profiles of shells, settings of
 * editors and agents. A yes to many files is none to these.
 */

/** Folders in which each file is one. */
const FOLDERS = namesIn(
  ".git .hg .svn .husky .githooks .vscode .idea .zed .devcontainer .emacs.d .vim .nvim .config .direnv .tare " +
    ".claude .codex .cursor .gemini .opencode .continue .windsurf .roo .cline .ssh .gnupg .aws .kube .docker",
);

/** Files that are, in whatever folder. */
const FILES = namesIn(
  ".profile .login .logout .inputrc .envrc .pam_environment .xprofile .xinitrc .bashrc .bash_profile .bash_login " +
    ".bash_logout .bash_aliases .zshrc .zshenv .zprofile .zlogin .zlogout .kshrc .mkshrc .cshrc .tcshrc .gitconfig " +
    ".gitmodules .hgrc .npmrc .yarnrc .yarnrc.yml .pypirc .netrc .curlrc .wgetrc .vimrc .nvimrc .exrc .gvimrc .emacs " +
    ".dir-locals.el .gdbinit .lldbinit .tmux.conf .mcp.json mcp.json opencode.json opencode.jsonc " +
    ".pre-commit-config.yaml lefthook.yml",
);

function namesIn(text: string): ReadonlySet<string> {
  return new Set(text.split(" "));
}

/** Whether a path, or what may be one, names such a file, in whatever spelling a file system takes for it. */
export function isProtected(path: string): boolean {
  const names = path.split(/[/\\]/).filter(Boolean).map(plainName);
  return names.some((name) => FOLDERS.has(name)) || FILES.has(names.at(-1) ?? "");
}

/** Some file systems leave out characters that show as nothing, blanks and dots at the end, or know a short name. */
function plainName(name: string): string {
  const plain = name.normalize("NFKC").replaceAll(/\p{Cf}/gu, "").replace(/[. ]+$/, "").toLowerCase();
  return /^git~\d$/.test(plain) ? ".git" : plain;
}
