import { basename } from "@std/path";
import { GIT_EFFECTS, GIT_HARMLESS, GIT_LETTERS, JUDGED_OPTIONS } from "./program_options.ts";
import type { CommandWord } from "./read_command.ts";

/**
 * Options by which programs do more than their names promise, such as `git diff --output=f`, which writes a file. A
 * command with one of them needs approval, though a rule allows its beginning, unless the rule contains the option:
 * `"sort -o"`. Other programs are allowed as a whole: to allow `make` allows its makefile.
 */
interface ProgramOptions {
  /** Long options that write, read or run files, without `--`. Abbreviations count too. */
  readonly long?: readonly string[];
  /** Letters of such short options, anywhere in a word such as `-no`. */
  readonly short?: string;
  /** Such whole words: subcommands, and options with one dash. */
  readonly words?: readonly string[];
  /** Pattern of a harmless first argument; any other script may write or run something. */
  readonly script?: RegExp;
  /** Whether any option may do so. */
  readonly isAnyOption?: boolean;
  /** Arguments that set a program to run. */
  readonly sets?: RegExp;
  /** Number of arguments after which it takes no more options. */
  readonly ends?: number;
  /** Most arguments without writing a file: the next one is written. */
  readonly most?: number;
  /** Whether it reads files outside the workspace by name. */
  readonly staysInside?: boolean;
}

/** By the program's name, in addition to {@linkcode JUDGED_OPTIONS}. */
const PROGRAMS: Readonly<Record<string, ProgramOptions>> = {
  git: {
    words:
      ("config bisect difftool mergetool filter-branch submodule hook daemon instaweb send-email archive " +
        "bundle credential alias fsmonitor--daemon maintenance shell").split(" "),
    staysInside: true,
  },
  find: { staysInside: true },
  tar: { staysInside: true },
  make: { sets: /=/ },
  curl: { sets: /^file:/i },
  // The host is followed by another command.
  ssh: { ends: 2 },
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
    // Lines to print, to delete, to stop at; and substitutions without the flags that write and run.
    script: /^(?:[0-9,$]*[pdq]?|\/[^/\\]*\/[pd]|s\/[^/\\]*\/[^/\\]*\/[gpI0-9]*)$/,
    staysInside: true,
  },
  awk: {
    isAnyOption: true,
    // Fields to print, for matching lines.
    script: /^(?:\/[^/\\]*\/ *)?(?:\{ *print(?: +\$[0-9]+(?: *, *\$[0-9]+)*)? *\})?$/,
    staysInside: true,
  },
  zip: { long: ["unzip-command"], words: ["-TT"] },
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

/** Aliases. */
const SAME_PROGRAM: Readonly<Record<string, string>> = {
  ...{ gawk: "awk", mawk: "awk", nawk: "awk", gsed: "sed", gtar: "tar", bsdtar: "tar", gfind: "find" },
  ...{ egrep: "grep", fgrep: "grep", zgrep: "grep", fdfind: "fd", gmake: "make" },
};

/** Programs that run another command. */
const RUNNERS: ReadonlySet<string> = new Set(
  ("sh bash dash zsh ksh fish busybox eval exec command builtin . source trap env xargs parallel nice " +
    "ionice nohup setsid stdbuf timeout time watch script sudo doas su runuser chroot unshare nsenter " +
    "bwrap flock strace ltrace gdb ssh docker podman python python3 node perl ruby php lua vi vim ed ex")
    .split(" "),
);

export function isRunner(program: string): boolean {
  return RUNNERS.has(basename(program));
}

export function staysInside(program: string): boolean {
  return optionsOf(program)?.staysInside ?? false;
}

/** Returns what a command may do beyond its first `allowed` words, for users; `undefined` if nothing is known. */
export function describeSideEffect(words: readonly CommandWord[], allowed: number): string | undefined {
  const [program = "", ...others] = words.map(({ text }) => text);
  const named = others.slice(0, allowed - 1);
  if (isRunner(program)) {
    // Options, numbers and variables name no program.
    const isNamed = named.some((word) => !/^(?:-|\d)|=/.test(word));
    if (!isNamed && words.length > allowed) return `${basename(program)} runs another command.`;
    const inner = named.findIndex((word) => optionsOf(word) !== undefined || isRunner(word));
    if (inner >= 0) return describeSideEffect(words.slice(inner + 1), allowed - inner - 1);
  }
  const options = optionsOf(program);
  if (!options) return undefined;
  const more = words.slice(allowed);
  const wild = more.find(({ text, isPattern }) => isPattern && /^[-*?[]/.test(text));
  if (wild) return `${wild.text} may match files whose names are options.`;
  const name = ownName(program);
  const texts = more.map(({ text }) => text);
  return name === "git"
    ? gitDoes(options, { named, more: texts })
    : sideEffectOf(name, options, { named, more: texts });
}

/** Global options of git change every subcommand. */
function gitDoes(
  options: ProgramOptions,
  { named, more }: { readonly named: readonly string[]; readonly more: readonly string[] },
): string | undefined {
  const [first] = more;
  const subcommand = named.find((word) => !word.startsWith("-"));
  if (subcommand === undefined && first?.startsWith("-")) return optionDoes(first);
  if (subcommand === undefined && first !== undefined && options.words?.includes(first)) {
    return `git ${first} may run something else.`;
  }
  const letters = gitLetters(subcommand ?? first ?? "");
  const end = named.includes("--") ? 0 : more.indexOf("--");
  const bad = more.slice(0, end < 0 ? undefined : end).find((word) =>
    word.startsWith("--")
      ? longDoes(GIT, { word, next: undefined })
      : word.startsWith("-") && [...word.slice(1)].some((letter) => letters.includes(letter))
  );
  return bad === undefined ? undefined : optionDoes(bad);
}

/** Returns the letters of a subcommand's options with effects; of all subcommands if it isn't listed. */
export function gitLetters(subcommand: string): string {
  if (Object.hasOwn(GIT_LETTERS, subcommand)) return GIT_LETTERS[subcommand]!;
  return HARMLESS_SUBCOMMANDS.has(subcommand) ? "" : Object.values(GIT_LETTERS).join("");
}

const HARMLESS_SUBCOMMANDS: ReadonlySet<string> = new Set(
  ("apply bisect branch bundle cat-file check-attr check-ignore checkout cherry count-objects describe fetch for-each-ref " +
    "fsck gc hash-object init ls-remote ls-tree merge-base mv name-rev prune push reflog remote repack rerere reset restore " +
    "rev-list rev-parse rm shortlog show-branch show-ref status switch symbolic-ref update-index update-ref var " +
    "verify-commit worktree write-tree").split(" "),
);

function sideEffectOf(
  program: string,
  options: ProgramOptions,
  { named, more }: { readonly named: readonly string[]; readonly more: readonly string[] },
): string | undefined {
  const judged = judgedOf(program);
  let plain = named.filter((word) => !word.startsWith("-")).length;
  let onlyNames = named.includes("--");
  for (let at = 0; at < more.length; at++) {
    const word = more[at]!;
    if (options.words?.includes(word)) return optionDoes(word);
    if (plain >= (options.ends ?? Infinity)) return undefined;
    if (!onlyNames && word.startsWith("-") && word !== "-") {
      if (word === "--") onlyNames = true;
      else if (judged) {
        const next = more[at + 1];
        if (judgedDoes(program, judged, { word, next })) return optionDoes(word);
        if (program === "find" && judged.values.has(findName(word))) at++;
      } else if (options.isAnyOption || doesMore(options, word)) return optionDoes(word);
      continue;
    }
    if (plain === 0 && options.script && !options.script.test(word)) {
      return `the script of ${program} may write or run something else.`;
    }
    if (options.sets?.test(word)) return `${word} may set what ${program} runs.`;
    // Its oldest form has options without a dash.
    if (
      at === 0 && named.length === 0 && program === "tar" && judged &&
      judgedDoes(program, judged, { word: `-${word}`, next: undefined })
    ) {
      return optionDoes(word);
    }
    if (++plain > (options.most ?? Infinity)) return `${program} writes ${word}.`;
  }
  return undefined;
}

interface Judged {
  readonly effects: ReadonlySet<string>;
  readonly harmless: ReadonlySet<string>;
  /** Options with a value in the same word, or for find in the next one. */
  readonly values: ReadonlySet<string>;
  readonly readsAt: ReadonlySet<string>;
}

const GIT = judgedBy({ effects: GIT_EFFECTS, harmless: GIT_HARMLESS });

const judgedPrograms = new Map(
  Object.entries(JUDGED_OPTIONS).map(([name, options]) => [name, judgedBy(options)]),
);

/** Returns the judged options of a program; `undefined` if not every option is listed. */
export function judgedOf(program: string): Judged | undefined {
  return program === "git" ? GIT : judgedPrograms.get(program);
}

function judgedBy({ effects, harmless, readsAt = "" }: (typeof JUDGED_OPTIONS)[string]): Judged {
  const names = (text: string) => text.split(/[\s,]+/).filter(Boolean);
  return {
    effects: new Set(names(effects)),
    harmless: new Set(names(harmless).map((name) => name.replace(/=$/, ""))),
    values: new Set(names(harmless).flatMap((name) => name.endsWith("=") ? [name.slice(0, -1)] : [])),
    readsAt: new Set(names(readsAt)),
  };
}

interface Option {
  readonly word: string;
  readonly next: string | undefined;
}

function judgedDoes(program: string, judged: Judged, { word, next }: Option): boolean {
  if (program === "find") return !judged.harmless.has(findName(word));
  if (word.startsWith("--")) return longDoes(judged, { word, next });
  if (program === "npm" && word.length > 2) {
    // It takes long options after one dash too, and combined letters if no option has that name.
    const name = word.slice(1).split("=", 1)[0]!;
    const isCluster = !judged.effects.has(name) && [...name].every((letter) => judged.harmless.has(letter));
    return !isCluster && longDoes(judged, { word: `-${word}`, next });
  }
  for (let at = 1; at < word.length; at++) {
    const letter = word[at]!;
    if (judged.readsAt.has(letter)) return (word.slice(at + 1) || next)?.startsWith("@") ?? false;
    if (judged.effects.has(letter) || !judged.harmless.has(letter)) return true;
    if (judged.values.has(letter)) return false;
  }
  return false;
}

function findName(word: string): string {
  const name = word.replace(/^--?/, "");
  return /^newer[aBcm][aBcmt]$/.test(name) ? "newerXY" : /^O\d$/.test(name) ? "help" : name;
}

/** Programs accept abbreviated long options; an exact name has priority. */
function longDoes(judged: Judged, { word, next }: Option): boolean {
  const [name = "", value] = word.slice(2).split(/=(.*)/s);
  const begins = (names: ReadonlySet<string>) =>
    [...names].some((one) => one.length > 1 && one.startsWith(name));
  if (judged.harmless.has(name)) return false;
  if (begins(judged.effects)) return true;
  if (begins(judged.readsAt)) return (value ?? next)?.startsWith("@") ?? false;
  if (begins(judged.harmless)) return false;
  // A disabled option does nothing.
  return !(name.startsWith("no-") &&
    (judged.harmless.has(name.slice(3)) || judged.effects.has(name.slice(3))));
}

function optionDoes(option: string): string {
  return `${option} may write, read or run something else.`;
}

function ownName(program: string): string {
  const name = basename(program);
  return Object.hasOwn(SAME_PROGRAM, name) ? SAME_PROGRAM[name]! : name;
}

function optionsOf(program: string): ProgramOptions | undefined {
  const own = ownName(program);
  return Object.hasOwn(PROGRAMS, own) ? PROGRAMS[own] : Object.hasOwn(JUDGED_OPTIONS, own) ? {} : undefined;
}

function doesMore({ long = [], short = "", words = [] }: ProgramOptions, word: string): boolean {
  if (words.includes(word)) return true;
  if (word.startsWith("--")) {
    const given = word.slice(2).split("=", 1)[0]!;
    return long.some((one) => one.startsWith(given));
  }
  return [...word.slice(1)].some((letter) => short.includes(letter));
}
