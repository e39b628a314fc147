import { appendFile, mkdir, readdir, readFile, rm, stat } from "node:fs/promises";
import { join } from "@std/path";
import { ignoreMissing } from "../define_tool.ts";
import {
  type ChangedFile,
  changedFiles,
  contentsOf,
  type FileStateChange,
  unstoredWarnings,
} from "./file_state.ts";

/** Line of a session's journal: changes of a turn, an undo or a redo. */
export type JournalLine =
  | {
    readonly atMs: number;
    readonly turn: number;
    readonly changes: readonly FileStateChange[];
    readonly notCovered: readonly string[];
  }
  | {
    readonly id: string;
    readonly undo: readonly number[];
    readonly targets: readonly FileStateChange[];
    readonly notCovered: readonly string[];
  }
  | { readonly id: string; readonly redo: readonly number[]; readonly targets: readonly FileStateChange[] };

/** File changes of a turn. */
export interface TurnChanges {
  readonly turn: number;
  /** Time of its last change, in milliseconds since the epoch. */
  readonly atMs: number;
  readonly files: readonly ChangedFile[];
  readonly isUndone: boolean;
  /** Changes that an undo doesn't cover, one sentence each. */
  readonly notCovered: readonly string[];
}

export interface JournaledTurn extends Omit<TurnChanges, "files"> {
  readonly steps: readonly (readonly FileStateChange[])[];
}

/** Changes, undos and redos of each session, one file per session. */
export class Journals {
  readonly #folder: string;
  /** Sessions whose last line is complete: a killed process may have written a part of one. */
  readonly #whole = new Set<string>();

  constructor(folder: string) {
    this.#folder = folder;
  }

  async add(session: string, line: JournalLine): Promise<void> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    const path = this.#pathOf(session);
    const isKnown = this.#whole.has(session);
    const text = isKnown && !("id" in line) ? "" : await readFile(path, "utf8").catch(ignoreMissing) ?? "";
    if ("id" in line && linesOf(text).some((one) => "id" in one && one.id === line.id)) return;
    const cut = text === "" || text.endsWith("\n") ? "" : "\n";
    this.#whole.delete(session);
    await appendFile(path, `${cut}${JSON.stringify(line)}\n`, { mode: 0o600 });
    this.#whole.add(session);
  }

  async read(session: string): Promise<{
    readonly turns: readonly JournaledTurn[];
    readonly undone: readonly Extract<JournalLine, { readonly undo: unknown }>[];
  }> {
    const text = await readFile(this.#pathOf(session), "utf8").catch(ignoreMissing) ?? "";
    const turns = new Map<number, JournaledTurn>();
    let undone: Extract<JournalLine, { readonly undo: unknown }>[] = [];
    const mark = (numbers: readonly number[], isUndone: boolean) => {
      for (const number of numbers) {
        const turn = turns.get(number);
        if (turn) turns.set(number, { ...turn, isUndone });
      }
    };
    for (const line of linesOf(text)) {
      if ("undo" in line) {
        undone.push(line);
        mark(line.undo, true);
      } else if ("redo" in line) {
        undone.pop();
        mark(line.redo, false);
      } else {
        const { turn, atMs, changes } = line;
        const old = turns.get(turn) ?? { turn, atMs, isUndone: false, steps: [], notCovered: [] };
        const notCovered = [...new Set([...old.notCovered, ...line.notCovered])];
        if (changes.length === 0) {
          turns.set(turn, { ...old, notCovered });
          continue;
        }
        undone = [];
        const steps = [...old.isUndone ? [] : old.steps, changes];
        turns.set(turn, { turn, atMs, isUndone: false, steps, notCovered });
      }
    }
    return { turns: [...turns.values()].sort((a, b) => a.turn - b.turn), undone };
  }

  async remove(session: string): Promise<void> {
    await rm(this.#pathOf(session), { force: true });
  }

  /** Removes journals without changes for `keepMs`. Returns the content hashes of the others. */
  async sweep(keepMs: number): Promise<ReadonlySet<string>> {
    const contents = new Set<string>();
    for (const name of await readdir(this.#folder).catch(ignoreMissing) ?? []) {
      const path = join(this.#folder, name);
      if ((await stat(path)).mtimeMs < Date.now() - keepMs) {
        await rm(path);
        continue;
      }
      for (const line of linesOf(await readFile(path, "utf8"))) {
        for (const [, before, after] of "turn" in line ? line.changes : line.targets) {
          for (const content of [...contentsOf(before), ...contentsOf(after)]) contents.add(content);
        }
      }
    }
    return contents;
  }

  #pathOf(session: string): string {
    return join(this.#folder, `${encodeURIComponent(session)}.jsonl`);
  }
}

function linesOf(text: string): readonly JournalLine[] {
  return text.split("\n").flatMap((line): readonly JournalLine[] => {
    if (line === "") return [];
    try {
      return [JSON.parse(line)];
    } catch {
      return [];
    }
  });
}

/** Returns the changes of a turn, merged by path. */
export function changesOfTurn({ steps, ...turn }: JournaledTurn): TurnChanges {
  const whole = new Map<string, FileStateChange>();
  for (const [path, before, after] of steps.flat()) {
    whole.set(path, [path, whole.get(path)?.[1] ?? before, after]);
  }
  const all = [...whole.values()];
  return { ...turn, notCovered: [...turn.notCovered, ...unstoredWarnings(all)], files: changedFiles(all) };
}

export function hasChanges({ steps }: JournaledTurn): boolean {
  return steps.some((step) => step.length > 0);
}
