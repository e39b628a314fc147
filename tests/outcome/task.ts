import { pick, word } from "../words.ts";
import { sourceText } from "../gateway/long_session.ts";
import { kept, type Turn, work } from "./worker.ts";

/** Texts of files by path. */
export type Files = Readonly<Record<string, string>>;

/** A task in a repository of its own. */
export interface Task {
  readonly name: string;
  /** Makes the repository, and what is asked. What has to be found out there is another one with each seed. */
  readonly make: (random: () => number) => Made;
  /** How a worker goes about it, turn by turn. It knows nothing of what was made but what it is shown. */
  readonly turns: readonly Turn[];
}

/** A repository, and what is to become of it. */
export interface Made {
  readonly files: Files;
  /** What the user says, turn by turn. */
  readonly asked: readonly string[];
  /** What the user deletes before a turn, by its number from 0. Default: nothing. */
  readonly deletes?: Readonly<Record<number, readonly string[]>>;
  /** Why the task isn't done; nothing if it is. */
  readonly fault: (done: Done) => string | undefined | Promise<string | undefined>;
  /** What somebody could take for a solution who didn't look closely. */
  readonly wrong: {
    /** Files as they are left; `null` for one that is gone. Default: as they were. */
    readonly files?: Readonly<Record<string, string | null>>;
    /** The last answer. Default: that it is done. */
    readonly answer?: string;
  };
}

/** What was left behind. */
export interface Done {
  readonly files: Files;
  /** What was answered, turn by turn. */
  readonly answers: readonly string[];
  /** Runs a module in the folder, which it may read and nothing else: what it says if it fails. */
  readonly run: (script: string) => Promise<string | undefined>;
}

/** What differs from what should be: the paths, or nothing. */
export function differing(done: Files, right: Files): string | undefined {
  const paths = new Set([...Object.keys(done), ...Object.keys(right)]);
  const faults = [...paths].filter((path) => done[path] !== right[path]);
  if (faults.length === 0) return undefined;
  return faults.map((path) =>
    done[path] === undefined
      ? `${path} is missing`
      : right[path] === undefined
      ? `${path} shouldn't be there`
      : `${path} is ${JSON.stringify(done[path]!.slice(0, 200))}`
  ).join("; ");
}

/** So many different invented words. */
export function words(count: number, random: () => number): string[] {
  const made = new Set<string>();
  while (made.size < count) made.add(word(random));
  return [...made];
}

/** A whole number below a limit, from a least one on. */
export function number(least: number, below: number, random: () => number): number {
  return least + Math.floor(random() * (below - least));
}

/** The members of a list in another order. */
export function shuffled<T>(list: readonly T[], random: () => number): T[] {
  return list.map((member) => ({ member, at: random() })).sort((a, b) => a.at - b.at).map(({ member }) =>
    member
  );
}

export { pick };

/** Files that are read between what counts, and what is asked of them. */
export function otherWork(numbers: readonly number[]): { readonly files: Files; readonly asked: string } {
  const paths = numbers.flatMap((at) => ["a", "b", "c"].map((part) => `other/part${at}${part}.txt`));
  return {
    files: Object.fromEntries(paths.map((path) => [path, `${sourceText(path, OTHER_TOKENS)}\n`])),
    asked: `Read ${
      paths.join(", ")
    } one after the other and tell me which name the first line of each declares.`,
  };
}

/** Tokens of each of these files, about. */
const OTHER_TOKENS = 4_000;

/** Does such work. */
export const doOtherWork: Turn = function* (asked) {
  const names: string[] = [];
  for (const [path] of asked.matchAll(/other\/\w+\.txt/g)) {
    const shown = yield* work({ read: path });
    names.push(
      yield* kept(`First of ${path}`, function* () {
        return /const (\w+)/.exec(shown)?.[1] ?? "lost";
      }),
    );
  }
  return `They declare ${names.join(", ")}.`;
};
