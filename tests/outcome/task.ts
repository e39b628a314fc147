import { pick, word } from "../words.ts";
import { sourceText } from "../gateway/long_session.ts";
import { retaining, type Turn, work } from "./worker.ts";

export type Files = Readonly<Record<string, string>>;

export interface Task {
  readonly name: string;
  /** Creates the repository and the requests. The values to find differ with each seed. */
  readonly make: (random: () => number) => Made;
  /** The worker's actions, turn by turn. It knows nothing of the repository but its prompt. */
  readonly turns: readonly Turn[];
}

export interface Made {
  readonly files: Files;
  readonly question: readonly string[];
  /** Files that the user deletes before a turn, by its number from 0. Default: none. */
  readonly deletes?: Readonly<Record<number, readonly string[]>>;
  /** Returns why the task isn't solved; `undefined` if it is. */
  readonly fault: (done: Done) => string | undefined | Promise<string | undefined>;
  readonly wrong: {
    /** Final files; `null` for a removed one. Default: unchanged. */
    readonly files?: Readonly<Record<string, string | null>>;
    /** Last answer. Default: that the task is done. */
    readonly answer?: string;
  };
}

export interface Done {
  readonly files: Files;
  readonly answers: readonly string[];
  /** Runs a module that may only read the folder, and returns its error. */
  readonly run: (script: string) => Promise<string | undefined>;
}

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

export function words(count: number, random: () => number): string[] {
  const made = new Set<string>();
  while (made.size < count) made.add(word(random));
  return [...made];
}

export function number(least: number, below: number, random: () => number): number {
  return least + Math.floor(random() * (below - least));
}

export function shuffled<T>(list: readonly T[], random: () => number): T[] {
  return list.map((member) => ({ member, at: random() })).sort((a, b) => a.at - b.at).map(({ member }) =>
    member
  );
}

export { pick };

/** Returns files to read between the relevant steps, and the request about them. */
export function otherWork(numbers: readonly number[]): { readonly files: Files; readonly questions: string } {
  const paths = numbers.flatMap((at) => ["a", "b", "c"].map((part) => `other/part${at}${part}.txt`));
  return {
    files: Object.fromEntries(paths.map((path) => [path, `${sourceText(path, OTHER_TOKENS)}\n`])),
    questions: `Read ${
      paths.join(", ")
    } one after the other and tell me which name the first line of each declares.`,
  };
}

const OTHER_TOKENS = 4_000;

export const doOtherWork: Turn = function* (question) {
  const names: string[] = [];
  for (const [path] of question.matchAll(/other\/\w+\.txt/g)) {
    const found = yield* work({ read: path });
    names.push(
      yield* retaining(`First of ${path}`, function* () {
        return /const (\w+)/.exec(found)?.[1] ?? "lost";
      }),
    );
  }
  return `They declare ${names.join(", ")}.`;
};
