import { basename } from "node:path";
import type { CommandWord } from "./read_command.ts";

/**
 * What programs do by an option that their name doesn't say. A rule that allows `git diff` means what it shows; that
 * `git diff --output=f` writes a file, nobody meant. So a command that begins as a rule allows, and goes on with one of
 * these, is asked for. A rule that writes the option out allows it: `"sort -o"`.
 *
 * A program that isn't here may do what it does: whoever allows `make` allows what its file says.
 */
interface ProgramOptions {
  /** Long options that write, read or run what they name, without `--`. Beginnings of them count too, as programs take them. */
  readonly long?: readonly string[];
  /** Letters of short options that do, wherever they stand in a word such as `-no`. */
  readonly short?: string;
  /** Whole words that do: subcommands, and options with one dash. */
  readonly words?: readonly string[];
  /** What its first argument that is no option may be; a script that isn't so may write or run something. */
  readonly script?: RegExp;
  /** Whether any option may do more. */
  readonly isAnyOption?: boolean;
  /** Arguments that are no options and set what it runs. */
  readonly sets?: RegExp;
  /** How many arguments that are no options it may have: one more is a file that it writes. */
  readonly most?: number;
  /** Whether it reads files by their names anywhere, where only the workspace was meant. */
  readonly staysInside?: boolean;
}

/** By the program's name. */
const PROGRAMS: Readonly<Record<string, ProgramOptions>> = {
  git: {
    long: [
      // Write a file.
      ...["output", "output-directory", "separate-git-dir"],
      // Read any file.
      ...["no-index", "contents", "file", "pathspec-from-file", "template", "reference", "ignore-revs-file"],
      // Run a program.
      ...[
        "ext-diff",
        "textconv",
        "filters",
        "upload-pack",
        "receive-pack",
        "exec",
        "exec-path",
        "open-files-in-pager",
      ],
      ...[
        "config",
        "config-env",
        "paginate",
        "show-signature",
        "extcmd",
        "tool",
        "edit",
        "gpg-sign",
        "strategy",
      ],
      // Another repository, whose settings run programs.
      ...["git-dir", "work-tree", "namespace", "super-prefix", "attr-source"],
    ],
    short: "OoxF",
    words: [
      ...[
        "config",
        "bisect",
        "difftool",
        "mergetool",
        "filter-branch",
        "submodule",
        "hook",
        "daemon",
        "instaweb",
      ],
      ...[
        "send-email",
        "archive",
        "bundle",
        "credential",
        "alias",
        "fsmonitor--daemon",
        "maintenance",
        "shell",
      ],
    ],
    staysInside: true,
  },
  find: {
    words: [
      ...["-exec", "-execdir", "-ok", "-okdir", "-delete"],
      ...["-fprint", "-fprint0", "-fprintf", "-fls", "-files0-from"],
    ],
    staysInside: true,
  },
  fd: {
    long: ["exec", "exec-batch", "ignore-file", "base-directory", "search-path"],
    short: "xXC",
    staysInside: true,
  },
  rg: {
    long: ["pre", "pre-glob", "hostname-bin", "file", "ignore-file", "search-zip", "hyperlink-format"],
    short: "fz",
    staysInside: true,
  },
  grep: { long: ["file", "exclude-from"], short: "f", staysInside: true },
  sort: {
    long: ["output", "compress-program", "files0-from", "temporary-directory", "random-source"],
    short: "oT",
    staysInside: true,
  },
  shuf: { long: ["output", "random-source"], short: "o", staysInside: true },
  uniq: { most: 1, staysInside: true },
  tree: { short: "o", long: ["fromfile"], staysInside: true },
  file: { long: ["files-from", "magic-file", "compile", "uncompress"], short: "fmCzZ", staysInside: true },
  date: { long: ["file", "set", "reference"], short: "fsr" },
  split: { long: ["filter"] },
  sed: {
    long: ["in-place", "file", "expression", "line-length"],
    short: "ifel",
    // Lines to print, to delete, to leave at; and texts to replace, without the flags that write and run.
    script: /^(?:[0-9,$]*[pdq]?|\/[^/\\]*\/[pd]|s\/[^/\\]*\/[^/\\]*\/[gpI0-9]*)$/,
    staysInside: true,
  },
  awk: {
    isAnyOption: true,
    // Fields to print, for lines that match.
    script: /^(?:\/[^/\\]*\/ *)?(?:\{ *print(?: +\$[0-9]+(?: *, *\$[0-9]+)*)? *\})?$/,
    staysInside: true,
  },
  tar: {
    long: [
      ...[
        "to-command",
        "checkpoint-action",
        "use-compress-program",
        "rsh-command",
        "rmt-command",
        "info-script",
      ],
      ...[
        "new-volume-script",
        "absolute-names",
        "files-from",
        "exclude-from",
        "index-file",
        "directory",
        "file",
      ],
    ],
    short: "IFPTXCf",
    staysInside: true,
  },
  zip: { long: ["unzip-command"], words: ["-TT"] },
  rsync: { long: ["rsh", "rsync-path", "files-from", "daemon", "config", "log-file"], short: "e" },
  curl: {
    long: [
      ...[
        "output",
        "remote-name",
        "config",
        "upload-file",
        "data",
        "form",
        "json",
        "cookie-jar",
        "dump-header",
      ],
      ...[
        "trace",
        "trace-ascii",
        "stderr",
        "netrc-file",
        "cert",
        "key",
        "proxy",
        "etag-save",
        "libcurl",
        "unix-socket",
      ],
    ],
    short: "oOKTdFcDExJ",
  },
  wget: {
    long: [
      ...[
        "output-document",
        "output-file",
        "append-output",
        "directory-prefix",
        "input-file",
        "post-file",
        "body-file",
      ],
      ...["execute", "config", "use-askpass", "save-cookies"],
    ],
    short: "OoaPie",
  },
  make: { long: ["file", "makefile", "directory", "eval", "include-dir"], short: "fCI", sets: /=/ },
  diff: {
    long: ["output", "to-file", "from-file", "exclude-from", "starting-file"],
    short: "X",
    staysInside: true,
  },
  jq: {
    long: ["from-file", "rawfile", "slurpfile", "argfile", "library-path"],
    short: "fL",
    staysInside: true,
  },
};

/** Other names of these. */
const SAME_PROGRAM: Readonly<Record<string, string>> = {
  ...{ gawk: "awk", mawk: "awk", nawk: "awk", gsed: "sed", gtar: "tar", bsdtar: "tar", gfind: "find" },
  ...{ egrep: "grep", fgrep: "grep", zgrep: "grep", fdfind: "fd", gmake: "make" },
};

/** Programs that run what their words name: what follows is a command of its own, which nobody was asked about. */
const RUNNERS: ReadonlySet<string> = new Set([
  ...[
    "sh",
    "bash",
    "dash",
    "zsh",
    "ksh",
    "fish",
    "busybox",
    "eval",
    "exec",
    "command",
    "builtin",
    ".",
    "source",
    "trap",
  ],
  ...[
    "env",
    "xargs",
    "parallel",
    "nice",
    "ionice",
    "nohup",
    "setsid",
    "stdbuf",
    "timeout",
    "time",
    "watch",
    "script",
  ],
  ...[
    "sudo",
    "doas",
    "su",
    "runuser",
    "chroot",
    "unshare",
    "nsenter",
    "bwrap",
    "flock",
    "strace",
    "ltrace",
    "gdb",
  ],
  ...[
    "ssh",
    "docker",
    "podman",
    "python",
    "python3",
    "node",
    "perl",
    "ruby",
    "php",
    "lua",
    "vi",
    "vim",
    "ed",
    "ex",
  ],
]);

/** Whether a program runs what its words name. */
export function isRunner(program: string): boolean {
  return RUNNERS.has(basename(program));
}

/** Whether a program is known to read files anywhere by their names, where only those of the workspace were meant. */
export function staysInside(program: string): boolean {
  return optionsOf(program)?.staysInside ?? false;
}

/**
 * What a command may do besides what its first `allowed` words say, which a rule allows: a sentence for people. Nothing, as
 * far as is known.
 */
export function whatElse(words: readonly CommandWord[], allowed: number): string | undefined {
  const [program = "", ...others] = words.map(({ text }) => text);
  const named = others.slice(0, allowed - 1);
  if (isRunner(program)) {
    // Options, numbers and variables name no program.
    const isNamed = named.some((word) => !/^(?:-|\d)|=/.test(word));
    if (!isNamed && words.length > allowed) return `${basename(program)} runs what its words name.`;
    const inner = named.findIndex((word) => optionsOf(word) !== undefined || isRunner(word));
    return inner < 0 ? undefined : whatElse(words.slice(inner + 1), allowed - inner - 1);
  }
  const options = optionsOf(program);
  if (!options) return undefined;
  const more = words.slice(allowed);
  const wild = more.find(({ text, isPattern }) => isPattern && /^[-*?[]/.test(text));
  if (wild) return `${wild.text} may stand for files whose names are options.`;
  const name = basename(program);
  const isFirst = named.every((word) => word.startsWith("-"));
  return name === "git"
    ? gitDoes(options, { more: more.map(({ text }) => text), isFirst })
    : doesElse(name, options, { named, more: more.map(({ text }) => text) });
}

/** Before its subcommand, git takes options that change what every one does. */
function gitDoes(
  options: ProgramOptions,
  { more, isFirst }: { readonly more: readonly string[]; readonly isFirst: boolean },
): string | undefined {
  const [first] = more;
  if (isFirst && first?.startsWith("-")) return optionDoes(first);
  if (isFirst && first !== undefined && options.words?.includes(first)) {
    return `git ${first} may run something else.`;
  }
  const end = more.indexOf("--");
  const before = end < 0 ? more : more.slice(0, end);
  const bad = before.find((word) => word.startsWith("-") && doesMore(options, word));
  return bad === undefined ? undefined : optionDoes(bad);
}

function doesElse(
  program: string,
  options: ProgramOptions,
  { named, more }: { readonly named: readonly string[]; readonly more: readonly string[] },
): string | undefined {
  let plain = named.filter((word) => !word.startsWith("-")).length;
  let onlyNames = named.includes("--");
  for (const word of more) {
    if (options.words?.includes(word)) return optionDoes(word);
    if (!onlyNames && word.startsWith("-") && word !== "-") {
      if (word === "--") onlyNames = true;
      else if (options.isAnyOption || doesMore(options, word)) return optionDoes(word);
      continue;
    }
    if (plain === 0 && options.script && !options.script.test(word)) {
      return `the script of ${program} may write or run something else.`;
    }
    if (options.sets?.test(word)) return `${word} may set what ${program} runs.`;
    // Its oldest form has options without a dash.
    if (plain === 0 && program === "tar" && doesMore(options, `-${word}`)) return optionDoes(word);
    if (++plain > (options.most ?? Infinity)) return `${program} writes ${word}.`;
  }
  return undefined;
}

function optionDoes(option: string): string {
  return `${option} may write, read or run something else.`;
}

function optionsOf(program: string): ProgramOptions | undefined {
  const name = basename(program);
  const own = Object.hasOwn(SAME_PROGRAM, name) ? SAME_PROGRAM[name]! : name;
  return Object.hasOwn(PROGRAMS, own) ? PROGRAMS[own] : undefined;
}

function doesMore({ long = [], short = "", words = [] }: ProgramOptions, word: string): boolean {
  if (words.includes(word)) return true;
  if (word.startsWith("--")) {
    // Programs take the beginning of an option for it.
    const given = word.slice(2).split("=", 1)[0]!;
    return long.some((one) => one.startsWith(given));
  }
  return [...word.slice(1)].some((letter) => short.includes(letter));
}
