import { basename } from "node:path";
import type { CommandWord } from "./read_command.ts";
import { type ProgramOptions, PROGRAMS, RUNNERS, SAME_PROGRAM } from "./programs.ts";

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
