/**
 * Undo and redo of what the tools of a turn changed in a folder.
 *
 * @example
 * ```ts
 * import { mkdtemp, readFile, rm } from "node:fs/promises";
 * import { tmpdir } from "node:os";
 * import { join } from "node:path";
 * import { assertEquals } from "@std/assert";
 * import { workspaceTools } from "@tare/tools";
 * import { openCheckpoints } from "@tare/tools/undo";
 *
 * const workspace = await mkdtemp(join(tmpdir(), "workspace-"));
 * const folder = await mkdtemp(join(tmpdir(), "undo-"));
 * const checkpoints = openCheckpoints({ workspace, folder });
 * const turn = { session: "mine", turn: 1 };
 * const [write] = workspaceTools({ workspace }).filter(({ writes }) => writes)
 *   .map((tool) => checkpoints.watch(tool, turn));
 *
 * await write?.run({ path: "a.txt", content: "one" }, { signal: new AbortController().signal, progress() {} });
 * assertEquals((await checkpoints.undo("mine")).files, [{ path: "a.txt", change: "deleted" }]);
 * await checkpoints.redo("mine");
 * assertEquals(await readFile(join(workspace, "a.txt"), "utf8"), "one");
 * await checkpoints.close();
 * for (const used of [workspace, folder]) await rm(used, { recursive: true });
 * ```
 *
 * @module
 */
import { createHash } from "node:crypto";
import { lstatSync, type Stats } from "node:fs";
import {
  appendFile,
  lstat,
  mkdir,
  readdir,
  readFile,
  readlink,
  realpath,
  rename,
  rm,
  rmdir,
  stat,
  symlink,
  unlink,
  writeFile,
} from "node:fs/promises";
import { basename, dirname, join, resolve } from "@std/path";
import { setImmediate } from "node:timers";
import type { Tool } from "@tare/messages";
import { ignoreMissing, isDenied, isMissing, Refusal, systemCode } from "../define_tool.ts";
import {
  entriesOf,
  findDescriptors,
  type Folder,
  inFolder,
  inNewFolder,
  isTemporary,
  openAt,
  readKnown,
  temporaryName,
} from "../files/resolve_in_workspace.ts";
import { IgnoreRules } from "../files/walk.ts";
import { removeTemporary, writeAtomically } from "../files/write_file_tools.ts";
import { pathWithin } from "../path_within.ts";

/** Why files can't be put back. Nothing was changed. */
export class UndoRefused extends Error {
  /** Always `UndoRefused`. */
  override readonly name = "UndoRefused";
  /** `conflict`: files were changed since, which `force` would overwrite. */
  readonly code: "nothing" | "busy" | "conflict";

  /** A refusal with a sentence for people. */
  constructor(code: UndoRefused["code"], message: string) {
    super(message);
    this.code = code;
  }
}

/** A turn of a session. */
export interface TurnOfSession {
  /** Id of the session. */
  readonly session: string;
  /** Number of the turn in the session; later turns have greater numbers. */
  readonly turn: number;
}

/** A file that was created, changed or deleted. */
export interface ChangedFile {
  /** From the workspace, with forward slashes. */
  readonly path: string;
  readonly change: "created" | "changed" | "deleted";
}

/** Changes that a turn made to files. */
export interface TurnChanges {
  readonly turn: number;
  /** Time of its last change, in milliseconds since the epoch. */
  readonly atMs: number;
  readonly files: readonly ChangedFile[];
  /** Whether its changes were undone. */
  readonly isUndone: boolean;
  /** Changes that an undo doesn't cover, a sentence each. */
  readonly notCovered: readonly string[];
}

/** Options of {@linkcode Checkpoints.undo} and {@linkcode Checkpoints.redo}. */
export interface UndoOptions {
  /** Of undo alone: the first turn to undo. Default: the newest one that changed files. */
  readonly turn?: number | undefined;
  /** Whether files that were changed since are overwritten. Default: false. */
  readonly force?: boolean | undefined;
}

/** The result of an undo or a redo. */
export interface UndoResult {
  /** The turns whose changes were undone, or made again, the oldest first. */
  readonly turns: readonly number[];
  readonly files: readonly ChangedFile[];
  /** Changes that were not undone, a sentence each. */
  readonly notCovered: readonly string[];
}

/** Limits on the contents that are stored. */
export interface CheckpointLimits {
  /** Largest file, in bytes. Default: 4 MiB. */
  readonly maxFileBytes?: number;
  /** Most files and folders that are inspected around a command. Default: 20,000. */
  readonly maxFiles?: number;
  /** Most bytes of all these files. Default: 512 MiB. */
  readonly maxBytes?: number;
}

/** Options of {@linkcode openCheckpoints}. */
export interface CheckpointOptions {
  /** The folder whose files are stored. */
  readonly workspace: string;
  /** Where they are stored, for this workspace only. */
  readonly folder: string;
  /** A folder of the workspace that is excluded. Default: none. */
  readonly hidden?: string | undefined;
  readonly limits?: CheckpointLimits;
  /** How long changes are stored, in milliseconds. Default: 30 days. */
  readonly keepMs?: number;
  /** Called with errors that kept changes from being stored. Default: they are ignored. */
  readonly onError?: (error: unknown) => void;
}

/** Stores what turns change in a workspace's files, and restores it. */
export interface Checkpoints {
  /** Returns the same tool with its calls watched: what changes while one runs counts as the turn's. */
  watch(tool: Tool, turn: TurnOfSession): Tool;
  /** Returns the changes of a session's turns, the oldest first. */
  changes(session: string): Promise<readonly TurnChanges[]>;
  /** Restores files to their state before this turn of a session and all after it. @throws {UndoRefused} */
  undo(session: string, options?: UndoOptions): Promise<UndoResult>;
  /** Reverts the last undo, unless a turn has changed something since. @throws {UndoRefused} */
  redo(session: string, options?: Pick<UndoOptions, "force">): Promise<UndoResult>;
  /** Deletes what is stored of a session. */
  forget(session: string): Promise<void>;
  /** Settles once nothing is under way. */
  close(): Promise<void>;
}

/** A line of a session's file: something changed, or was put back. */
type Line =
  | {
    readonly atMs: number;
    readonly turn: number;
    readonly changes: readonly FileChange[];
    readonly notCovered: readonly string[];
  }
  | {
    readonly id: string;
    readonly undo: readonly number[];
    readonly targets: readonly FileChange[];
    readonly notCovered: readonly string[];
  }
  | { readonly id: string; readonly redo: readonly number[]; readonly targets: readonly FileChange[] };

/** What is under way: the next process goes on with it. */
interface Pending {
  readonly session: string;
  readonly line: Exclude<Line, { readonly turn: number }>;
}

/** The call that ran when the process ended. */
interface OpenCall extends TurnOfSession {
  /** Whether a later process has begun to inspect what it changed. */
  readonly isInspected?: boolean;
}

/** A call that runs. */
interface Window {
  readonly of: TurnOfSession;
  /** The only paths that it changes; absent if nobody knows. */
  readonly paths: readonly string[] | undefined;
  readonly notCovered: string[];
}

const AFTER_A_CRASH =
  "The server ended while a command ran: what else was changed before its next start counts as the command's.";

const AFTER_TWO_CRASHES =
  "Files that this command changed: the server ended again while it inspected the workspace.";

const DAY_MS = 24 * 60 * 60_000;

const CANNOT_KEEP =
  "what stands there now can't be kept, because it is too large, no plain file, or behind a link";

/** Files named in a refusal. */
const MOST_NAMED = 20;

/**
 * Opens the store of the changes that turns make to a workspace's files. An undo that a process was killed in is
 * finished, and what a command had changed then counts as its turn's.
 *
 * Contents are stored once each, by their SHA-256, as they were before and after a change. The first command stores the
 * whole workspace, any part of which it might change; later only what the system reports as changed is read again.
 *
 * Calls run whether their changes can be stored or not.
 *
 * @example
 * ```ts
 * import { mkdtemp, rm } from "node:fs/promises";
 * import { tmpdir } from "node:os";
 * import { join } from "node:path";
 * import { assertEquals } from "@std/assert";
 * import { openCheckpoints } from "@tare/tools/undo";
 *
 * const folder = await mkdtemp(join(tmpdir(), "undo-"));
 * const checkpoints = openCheckpoints({ workspace: ".", folder });
 * assertEquals(await checkpoints.changes("mine"), []);
 * await checkpoints.close();
 * await rm(folder, { recursive: true });
 * ```
 */
export function openCheckpoints(options: CheckpointOptions): Checkpoints {
  return new KeptChanges(options);
}

class KeptChanges implements Checkpoints {
  readonly #journals: Journals;
  readonly #pending: string;
  readonly #openCall: string;
  readonly #onError: (error: unknown) => void;
  readonly #windows = new Set<Window>();
  readonly #opened: Promise<FileStates>;
  #queue: Promise<unknown>;

  constructor(
    options: CheckpointOptions,
  ) {
    const { keepMs = 30 * DAY_MS, onError = () => {} } = options;
    const folder = resolve(options.folder);
    this.#journals = new Journals(join(folder, "sessions"));
    this.#pending = join(folder, "pending.json");
    this.#openCall = join(folder, "open_call.json");
    this.#onError = onError;
    this.#opened = FileStates.open({ ...options, folder });
    this.#queue = this.#opened.then(async (states) => {
      await this.#goOn(states);
      await states.sweep(new Set([...await this.#journals.sweep(keepMs), ...states.contents()]));
    }).catch(onError);
  }

  /** Goes on with what an earlier process was ended in the middle of. */
  async #goOn(states: FileStates): Promise<void> {
    const call = await readJson<OpenCall>(this.#openCall);
    if (call) {
      // If this ends the process, the next one does without.
      if (!call.isInspected) {
        const inspected: OpenCall = { ...call, isInspected: true };
        await writeWhole(this.#openCall, JSON.stringify(inspected), { isFlushed: true });
      }
      const { changes, notCovered, linked } = call.isInspected
        ? { changes: [], notCovered: [AFTER_TWO_CRASHES], linked: [] }
        : await states.lookAtAll();
      await this.#record(call, changes, [AFTER_A_CRASH, ...notCovered, ...linked]);
      await rm(this.#openCall, { force: true });
    }
    await this.#finish(states);
  }

  /** Brings to its end what couldn't be before. */
  async #finish(states: FileStates): Promise<void> {
    const pending = await readJson<Pending>(this.#pending);
    if (!pending) return;
    await inGroups(pending.line.targets, ([path]) => states.clearUp(path));
    await this.#carryOut(states, pending);
  }

  watch(tool: Tool, of: TurnOfSession): Tool {
    const { resolve, stance } = tool;
    if (stance === "rederivable" && !resolve) return tool;
    return {
      ...tool,
      ...(resolve && {
        resolve: (args) => {
          const call = resolve.call(tool, args);
          return "problem" in call ? call : { ...call, tool: this.watch(call.tool, of) };
        },
      }),
      run: async (args, context) => {
        if (stance === "rederivable") return await tool.run(args, context);
        const paths = await this.#written(tool, args);
        const window = {
          of,
          paths,
          notCovered: paths
            ? []
            : [`${tool.definition.function.name}: what it did outside of the workspace's files.`],
        };
        await this.#alone((states) => this.#begin(states, window)).catch((error) =>
          this.#failed(window, error)
        );
        context.progress();
        try {
          return await tool.run(args, context);
        } finally {
          await this.#alone((states) => this.#end(states, window)).catch((error) =>
            this.#failed(window, error)
          );
        }
      },
    };
  }

  changes(session: string): Promise<readonly TurnChanges[]> {
    return this.#alone(async () =>
      (await this.#journals.read(session)).turns.filter(hasChanges).map(toldChanges)
    );
  }

  undo(session: string, { turn, force = false }: UndoOptions = {}): Promise<UndoResult> {
    return this.#alone(async (states) => {
      this.#assertIdle();
      await this.#finish(states);
      const done = (await this.#journals.read(session)).turns.filter(({ isUndone }) => !isUndone);
      const first = turn ?? done.findLast(hasChanges)?.turn ?? Infinity;
      const left = done.filter((one) => one.turn >= first);
      const undone = left.filter(hasChanges);
      if (undone.length === 0) {
        throw new UndoRefused(
          "nothing",
          `Cannot undo in session ${session}: ${
            turn === undefined ? "no turn" : `no turn from ${turn} on`
          } has changes of files that could be put back here. They are kept on the machine where the turn ran, for 30 days.`,
        );
      }
      const steps = undone.flatMap(({ steps }) => steps);
      const { targets, unmade } = await this.#targets(
        states,
        "undo",
        steps.toReversed().map(reversed),
        force,
      );
      const notCovered = [
        ...new Set([...unmade, ...left.flatMap((one) => one.notCovered), ...unkept(steps.flat())]),
      ];
      const turns = undone.map(({ turn }) => turn);
      await this.#carryOut(states, {
        session,
        line: { id: crypto.randomUUID(), undo: turns, targets, notCovered },
      });
      return { turns, files: filesOf(targets), notCovered };
    });
  }

  redo(session: string, { force = false }: Pick<UndoOptions, "force"> = {}): Promise<UndoResult> {
    return this.#alone(async (states) => {
      this.#assertIdle();
      await this.#finish(states);
      const last = (await this.#journals.read(session)).undone.at(-1);
      if (!last) {
        throw new UndoRefused(
          "nothing",
          `Cannot redo in session ${session}: nothing was undone here, or a turn has changed files since.`,
        );
      }
      const { targets, unmade } = await this.#targets(states, "redo", [reversed(last.targets)], force);
      await this.#carryOut(states, { session, line: { id: crypto.randomUUID(), redo: last.undo, targets } });
      return {
        turns: last.undo,
        files: filesOf(targets),
        notCovered: [...new Set([...unmade, ...last.notCovered])],
      };
    });
  }

  /** What must become of which paths so that these changes are made, one list after the other. */
  async #targets(
    states: FileStates,
    verb: "undo" | "redo",
    steps: readonly (readonly FileChange[])[],
    force: boolean,
  ): Promise<{ readonly targets: readonly FileChange[]; readonly unmade: readonly string[] }> {
    const wanted = new Map<string, { now: FileState; to: FileState; why?: string }>();
    // What nobody kept stays as it is, and is told of.
    const left = new Set(steps.flat().filter(isUnkeptChange).map(([path]) => path));
    const paths = new Set(steps.flat().map(([path]) => path)).difference(left);
    await inGroups([...paths], async (path) => {
      const now = await states.stateOf(path);
      wanted.set(path, { now, to: now });
    });
    for (const [path, from, to] of steps.flat()) {
      const one = wanted.get(path);
      if (!one) continue;
      if (one.to !== from && one.to !== to) one.why ??= "it was changed since";
      one.to = to;
    }
    const targets: FileChange[] = [];
    const conflicts: string[] = [];
    const unmade: string[] = [];
    for (const [path, { now, to, why }] of wanted) {
      if (now === to) continue;
      if (!states.mayPut(to)) {
        unmade.push(`${path}: it was a link, and the server isn't allowed to make links.`);
        continue;
      }
      if (isUnkept(now) && force) {
        unmade.push(`${path}: ${CANNOT_KEEP}.`);
        continue;
      }
      if (isUnkept(now)) conflicts.push(`${path}: ${CANNOT_KEEP}`);
      else if (why !== undefined && !force) conflicts.push(`${path}: ${why}`);
      targets.push([path, now, to]);
    }
    const leaving = new Set(targets.filter(([, , to]) => to === "none").map(([path]) => path));
    for (const [path, now, to] of targets) {
      if (isFolder(now) && !isFolder(to) && to !== "none" && !await states.holdsOnly(path, leaving)) {
        conflicts.push(`${path}: it is a folder that holds other files now`);
      }
    }
    if (conflicts.length === 0) return { targets, unmade };
    const more = conflicts.length > MOST_NAMED ? `; and ${conflicts.length - MOST_NAMED} more` : "";
    throw new UndoRefused(
      "conflict",
      `Cannot ${verb}: ${
        conflicts.slice(0, MOST_NAMED).join("; ")
      }${more}. Nothing was changed. With force what was ` +
        "changed since is overwritten, and can be had back by the opposite.",
    );
  }

  /** Puts files back and notes it. If the process ends meanwhile, the next one goes on; if it can't be done, nothing is. */
  async #carryOut(states: FileStates, pending: Pending): Promise<void> {
    const { session, line } = pending;
    await writeWhole(this.#pending, JSON.stringify(pending), { isFlushed: true });
    try {
      await this.#apply(states, line.targets);
    } catch (error) {
      await this.#apply(states, reversed(line.targets));
      await rm(this.#pending);
      throw error;
    }
    await this.#journals.add(session, line);
    await rm(this.#pending);
  }

  /** Makes these changes, as far as they aren't made. What somebody has changed meanwhile stays. */
  async #apply(states: FileStates, targets: readonly FileChange[]): Promise<void> {
    const sorted = [...targets].sort(([a], [b]) => (a < b ? -1 : 1));
    const isDue = async ([path, from, to]: FileChange) => from !== to && await states.stateOf(path) === from;
    // A folder that its owner may not change is changed first and gets its permissions last.
    const opened = new Map<string, FileState>();
    for (const target of sorted) {
      const [path, from, to] = target;
      if (!isFolder(from) || !isFolder(to) || (modeOf(from) & 0o300) === 0o300 || !await isDue(target)) {
        continue;
      }
      await states.setMode(path, modeOf(from) | 0o700);
      opened.set(path, await states.stateOf(path));
    }
    // What is in a folder goes before it.
    for (const target of sorted.toReversed()) {
      const [path, from, to] = target;
      const ceases = from !== "none" && (to === "none" || isFolder(from) !== isFolder(to));
      if (ceases && await isDue(target)) await states.remove(path, from);
    }
    const rest = sorted.filter(([, , to]) => to !== "none");
    const folders = rest.filter(([, , to]) => isFolder(to));
    for (const [path, , to] of folders) {
      if (await states.stateOf(path) === "none") await states.makeFolder(path, to);
    }
    await inGroups(rest.filter(([, , to]) => !isFolder(to)), async ([path, from, to]) => {
      const now = await states.stateOf(path);
      // Where a folder gave way, or a link was to take a place, there is nothing now.
      const isFree = now === "none" && (isFolder(from) || to.startsWith("link "));
      if (now === from || isFree) await states.put(path, to, now);
    });
    for (const [path, from, to] of folders.toReversed()) {
      const now = await states.stateOf(path);
      const isOwn = now === from || now === opened.get(path) || !isFolder(from);
      if (now !== to && isFolder(now) && isOwn) await states.setMode(path, modeOf(to));
    }
    await states.lookAt(targets.map(([path]) => path));
  }

  async #begin(states: FileStates, window: Window): Promise<void> {
    await this.#look(states, window, [...this.#windows].at(-1));
    this.#windows.add(window);
    if (window.paths) return;
    await states.save();
    await writeWhole(this.#openCall, JSON.stringify(window.of));
  }

  async #end(states: FileStates, window: Window): Promise<void> {
    await this.#look(states, window, window);
    this.#windows.delete(window);
    if (![...this.#windows].some(({ paths }) => !paths)) await rm(this.#openCall, { force: true });
  }

  /** Looks where a call may change something. What has changed counts as done by `by`; or by nobody that matters here. */
  async #look(states: FileStates, { paths, notCovered }: Window, by: Window | undefined): Promise<void> {
    const seen = paths
      ? await states.lookAt(paths)
      : await states.lookAtAll([...this.#windows].flatMap(({ paths = [] }) => paths));
    notCovered.push(...seen.notCovered.filter((sentence) => !notCovered.includes(sentence)));
    if (by) await this.#record(by.of, seen.changes, [...by.notCovered, ...seen.linked]);
  }

  async #record(
    { session, turn }: TurnOfSession,
    changes: readonly FileChange[],
    notCovered: readonly string[],
  ): Promise<void> {
    if (changes.length === 0 && notCovered.length === 0) return;
    await this.#journals.add(session, { atMs: Date.now(), turn, changes, notCovered });
  }

  /** A call runs whether its changes can be kept or not. */
  #failed(window: Window, error: unknown): void {
    this.#windows.delete(window);
    window.notCovered.push("Files of a call: they couldn't be kept, and the server's log says why.");
    this.#onError(error);
  }

  /** The paths that a call changes, from the workspace; nothing if nobody knows. */
  async #written(
    tool: Tool,
    args: Readonly<Record<string, unknown>>,
  ): Promise<readonly string[] | undefined> {
    if (tool.writes === undefined) return undefined;
    // What can't be done is told by the tool itself.
    const effects = await Promise.resolve(tool.effects?.(args)).catch(() => undefined);
    const paths = effects?.writes?.map((path) => pathWithin(effects.root, path));
    return paths?.every((path) => path !== undefined) ? paths : undefined;
  }

  #assertIdle(): void {
    if (this.#windows.size === 0) return;
    throw new UndoRefused(
      "busy",
      "Cannot put files back: a call of another session is changing files of the workspace. Try again when it has ended.",
    );
  }

  async close(): Promise<void> {
    await this.#queue;
  }

  forget(session: string): Promise<void> {
    return this.#alone(() => this.#journals.remove(session));
  }

  #alone<T>(work: (states: FileStates) => Promise<T>): Promise<T> {
    const done = this.#queue.then(async () => work(await this.#opened));
    this.#queue = done.catch(() => {});
    return done;
  }
}

/** A turn as its session's file tells. */
interface ToldTurn extends Omit<TurnChanges, "files"> {
  readonly steps: readonly (readonly FileChange[])[];
}

/** What happened in each session, a file each. */
class Journals {
  readonly #folder: string;
  /** Those whose last line is known to be whole: a process that was ended may have left a part of one. */
  readonly #whole = new Set<string>();

  constructor(folder: string) {
    this.#folder = folder;
  }

  async add(session: string, line: Line): Promise<void> {
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
    readonly turns: readonly ToldTurn[];
    /** What was undone and may be done again, the last at the end. */
    readonly undone: readonly Extract<Line, { readonly undo: unknown }>[];
  }> {
    const text = await readFile(this.#pathOf(session), "utf8").catch(ignoreMissing) ?? "";
    const turns = new Map<number, ToldTurn>();
    let undone: Extract<Line, { readonly undo: unknown }>[] = [];
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

  /** Removes those to which nothing was added for so long; gives the contents that the others need. */
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

function linesOf(text: string): readonly Line[] {
  return text.split("\n").flatMap((line): readonly Line[] => {
    if (line === "") return [];
    try {
      return [JSON.parse(line)];
    } catch {
      // The part of a line that a process could write before it was ended.
      return [];
    }
  });
}

async function readJson<T>(path: string): Promise<T | undefined> {
  const text = await readFile(path, "utf8").catch(ignoreMissing);
  return text === undefined ? undefined : JSON.parse(text);
}

function toldChanges({ steps, ...turn }: ToldTurn): TurnChanges {
  const whole = new Map<string, FileChange>();
  for (const [path, before, after] of steps.flat()) {
    whole.set(path, [path, whole.get(path)?.[1] ?? before, after]);
  }
  const all = [...whole.values()];
  return { ...turn, notCovered: [...turn.notCovered, ...unkept(all)], files: filesOf(all) };
}

function hasChanges({ steps }: ToldTurn): boolean {
  return steps.some((step) => step.length > 0);
}

function reversed(changes: readonly FileChange[]): readonly FileChange[] {
  return changes.toReversed().map(([path, before, after]) => [path, after, before]);
}

function unkept(changes: readonly FileChange[]): readonly string[] {
  return changes.filter(isUnkeptChange).map(([path]) =>
    `${path}: its content isn't kept: too large, no plain file, or ignored before.`
  );
}

function isUnkeptChange([, before, after]: FileChange): boolean {
  return isUnkept(before) || isUnkept(after);
}

function isUnkept(state: FileState): boolean {
  return state.startsWith("unkept");
}

/** What became of files: folders are made and removed with them, and named if their permissions changed. */
function filesOf(changes: readonly FileChange[]): readonly ChangedFile[] {
  return changes.flatMap(([path, before, after]): readonly ChangedFile[] => {
    const [was, is] = [isFile(before), isFile(after)];
    if (before === after) return [];
    if (isFolder(before) && isFolder(after)) return [{ path, change: "changed" }];
    if (!was && !is) return [];
    return [{ path, change: !was ? "created" : !is ? "deleted" : "changed" }];
  }).sort((a, b) => (a.path < b.path ? -1 : 1));
}

function isFile(state: FileState): boolean {
  return state !== "none" && !isFolder(state);
}

function isFolder(state: FileState): boolean {
  return state.startsWith("folder ");
}

/**
 * What stands at a path, as a text, so that two are the same if the texts are: nothing, a folder by its permissions, a
 * file by them and its content, a link by where it points, or something whose content isn't kept, by its size and time.
 */
type FileState =
  | "none"
  | `folder ${string}`
  | `unkept${string}`
  | `file ${string} ${string}`
  | `link ${string}`;

/** Something that isn't any more what it was: path from the workspace, what stood there, what stands there now. */
type FileChange = readonly [path: string, before: FileState, after: FileState];

/** What is never looked at: histories of their own, and what a package manager brings again. */
const PASSED_OVER = new Set([".git", ".hg", ".svn", ".jj", "node_modules", ".venv", "__pycache__"]);

/** For so long the system is asked for one file after the other before other work is done. */
const MOST_MS = 10;

/** So many paths are looked at together. */
const AT_ONCE = 32;

/** A file that was changed so shortly before it was looked at may change again without another time: Deno tells some in seconds. */
const YOUNG_MS = 2_000;

interface Known {
  readonly state: FileState;
  /** What the system says of it; as long as that is the same the content isn't read again. */
  readonly stamp: string;
  /** Whether the file has another name too. */
  readonly isLinked: boolean;
}

/** What {@linkcode FileStates} keeps of itself between two processes. */
interface Index {
  readonly isWhole: boolean;
  readonly known: readonly (readonly [path: string, state: FileState, stamp: string, isLinked: boolean])[];
  readonly ignored: readonly string[];
}

/** The states of a workspace's files as they were last seen, and the contents of all that ever were. */
class FileStates {
  readonly #root: string;
  readonly #hidden: string | undefined;
  readonly #folder: string;
  readonly #limits: Required<CheckpointLimits>;
  #known = new Map<string, Known>();
  /** What was passed over by a list, with a slash behind folders. */
  #ignored = new Set<string>();
  /** Whether all that isn't passed over is known. */
  #isWhole = false;
  /** Whether this process may make links: with permissions for some folders only, Deno lets nobody. */
  #mayLink = true;
  /** Whether nothing has changed since it was stored. */
  #isSaved = false;

  private constructor(
    root: string,
    { hidden, folder, limits }: Pick<CheckpointOptions, "hidden" | "folder" | "limits">,
  ) {
    this.#root = root;
    this.#hidden = hidden;
    this.#folder = folder;
    this.#limits = { maxFileBytes: 4 * 2 ** 20, maxFiles: 20_000, maxBytes: 512 * 2 ** 20, ...limits };
  }

  /** What an earlier process knew of this workspace, from this folder. */
  static async open({ workspace, hidden, folder, ...options }: CheckpointOptions): Promise<FileStates> {
    await mkdir(join(folder, "contents"), { recursive: true, mode: 0o700 });
    const root = await realpath(workspace);
    const own = hidden && await realpath(hidden).catch(ignoreMissing);
    await findDescriptors(own);
    const states = new FileStates(root, { ...options, hidden: own, folder });
    states.#mayLink = await triesToLink(join(folder, "probe"));
    const index = await readJson<Index>(join(folder, "index.json")).catch((error) => {
      // Without it all is read again.
      if (!(error instanceof SyntaxError)) throw error;
    });
    if (index) {
      const { isWhole, known, ignored } = index;
      states.#known = new Map(
        known.map(([path, state, stamp, isLinked]) => [path, { state, stamp, isLinked }]),
      );
      states.#ignored = new Set(ignored);
      states.#isWhole = isWhole;
    }
    return states;
  }

  /** Stores what is known, for a process that goes on after this one was ended in the middle of a command. */
  async save(): Promise<void> {
    if (this.#isSaved) return;
    const index: Index = {
      isWhole: this.#isWhole,
      known: [...this.#known].map(([path, { state, stamp, isLinked }]) => [path, state, stamp, isLinked]),
      ignored: [...this.#ignored],
    };
    await writeWhole(join(this.#folder, "index.json"), JSON.stringify(index));
    this.#isSaved = true;
  }

  /** Every content that is known to stand in the workspace. */
  *contents(): Generator<string> {
    for (const { state } of this.#known.values()) yield* contentsOf(state);
  }

  /**
   * Looks at these paths again, with the folders above them: gives what has changed of those that were known. What is new
   * to it is only taken note of.
   */
  async lookAt(paths: readonly string[]): Promise<Seen> {
    const seen: Comparison[] = [];
    for (const path of withFolders(paths)) {
      const before = this.#known.get(path);
      const after = await this.#see(path, before);
      if (before) seen.push([path, before, after]);
    }
    return changesOf(seen);
  }

  /**
   * Looks at the whole workspace likewise, and says why not if it is too large for that. That there is nothing at these
   * paths stays known, because something is being written there.
   */
  async lookAtAll(written: readonly string[] = []): Promise<Seen> {
    const found = await this.#walk();
    if (typeof found === "string") {
      this.#isSaved &&= !this.#isWhole;
      this.#isWhole = false;
      const tooLarge = `Files that commands changed: the workspace isn't kept, because ${found}.`;
      return { changes: [], notCovered: [tooLarge], linked: [] };
    }
    const { paths, ignored, unnamed } = found;
    const seen: Comparison[] = [];
    // What a list names since, or what it never named but a tool wrote, is still known.
    const gone = [...this.#known.keys()].filter((path) => !paths.has(path));
    await inGroups([...paths.keys(), ...gone], async (path) => {
      const before = this.#known.get(path);
      const after = await this.#see(path, before, paths.get(path));
      if (before) seen.push([path, before, after]);
      else if (this.#isWhole) {
        // What was excluded existed already, with unknown content.
        seen.push([path, { state: this.#wasIgnored(path) ? "unkept" : "none", isLinked: false }, after]);
      }
    });
    const kept = new Set(withFolders(written));
    for (const path of gone) {
      if (this.#known.get(path)?.state === "none" && !kept.has(path)) this.#known.delete(path);
    }
    this.#isSaved &&= this.#isWhole && gone.length === 0 &&
      ignored.symmetricDifference(this.#ignored).size === 0;
    this.#ignored = ignored;
    this.#isWhole = true;
    return changesOf(seen, unnamed);
  }

  /** What stands at a path now. Its content is kept. */
  async stateOf(path: string): Promise<FileState> {
    return (await this.#see(path, this.#known.get(path))).state;
  }

  /** Whether a path can be made this. */
  mayPut(state: FileState): boolean {
    return this.#mayLink || !state.startsWith("link ");
  }

  /** Whether a folder holds nothing but these. */
  async holdsOnly(path: string, paths: ReadonlySet<string>): Promise<boolean> {
    return await inFolder(join(this.#root, path), async (folder) => {
      for await (const slice of entriesOf(folder)) {
        if (slice.some(({ name }) => !paths.has(`${path}/${name}`))) return false;
      }
      return true;
    });
  }

  /** Takes away what stands at a path. A folder that isn't empty stays. */
  async remove(path: string, state: FileState): Promise<void> {
    await inFolder(dirname(join(this.#root, path)), async (folder) => {
      const entry = folder.at(basename(path));
      if (!isFolder(state)) return await unlink(entry);
      await rmdir(entry).catch((error) => {
        if (systemCode(error) !== "ENOTEMPTY" && systemCode(error) !== "EEXIST") throw error;
      });
    });
  }

  /** Makes a folder where nothing is. Its owner may write to it until its permissions are set. */
  async makeFolder(path: string, state: FileState): Promise<void> {
    await inNewFolder(join(this.#root, path), () => Promise.resolve());
    await this.setMode(path, modeOf(state) | 0o700);
  }

  /** Gives a folder these permissions. */
  async setMode(path: string, mode: number): Promise<void> {
    const folder = await openAt(join(this.#root, path));
    try {
      await folder.chmod(mode);
    } finally {
      await folder.close();
    }
  }

  /** Makes a path what it was. What stands there is of the same kind, or nothing does. @throws {Error} if its content is lost. */
  async put(path: string, state: FileState, now: FileState): Promise<void> {
    const absolute = join(this.#root, path);
    const [kind, ...rest] = state.split(" ");
    if (kind === "link") {
      const target = new TextDecoder().decode(await this.#content(rest[0] ?? ""));
      await inNewFolder(dirname(absolute), async (folder) => {
        if (now !== "none") await unlink(folder.at(basename(path)));
        await symlink(target, folder.at(basename(path)));
      });
    }
    if (kind === "file") {
      await writeAtomically(absolute, await this.#content(rest[1] ?? ""), {
        mode: modeOf(state),
        // What the turn has made of it is no reason to leave it so.
        isForced: true,
        temporary: this.#temporaryFor(path),
        own: this.#folder,
      }).catch((cause) => {
        if (!(cause instanceof Refusal)) throw cause;
        throw new Error(`Cannot put ${absolute} back: ${cause.message}`, { cause });
      });
    }
  }

  /** Removes what a process was about to put at a path when it ended. */
  async clearUp(path: string): Promise<void> {
    await removeTemporary(join(this.#root, path), {
      temporary: this.#temporaryFor(path),
      own: this.#folder,
    }).catch(unreadable);
  }

  /** What a file is called until it takes this one's place: the next process finds it by that. */
  #temporaryFor(path: string): string {
    return temporaryName([this.#folder, path]);
  }

  /** Forgets all contents but these. */
  async sweep(kept: ReadonlySet<string>): Promise<void> {
    const folder = join(this.#folder, "contents");
    for (const group of await readdir(folder)) {
      for (const name of await readdir(join(folder, group))) {
        if (!kept.has(name)) await rm(join(folder, group, name), { force: true });
      }
    }
  }

  async #see(path: string, before: Known | undefined, info?: Stats): Promise<Known> {
    const absolute = join(this.#root, path);
    const now = Date.now();
    const seen = info ?? await this.#stat(absolute);
    const stamp = typeof seen === "string" ? "" : stampOf(seen, now);
    const isSame = before !== undefined && stamp !== "" && before.stamp === stamp;
    const state = isSame ? before.state : typeof seen === "string" ? seen : await this.#read(absolute, seen);
    const isLinked = typeof seen !== "string" && seen.isFile() && seen.nlink > 1;
    const known = { state, stamp, isLinked };
    this.#known.set(path, known);
    this.#isSaved &&= before?.state === state && before.stamp === stamp && before.isLinked === isLinked;
    return known;
  }

  /** What the system says of a path to which no link leads. */
  async #stat(absolute: string): Promise<Stats | "none" | "unkept"> {
    try {
      return await inFolder(dirname(absolute), (folder) => lstat(folder.at(basename(absolute))));
    } catch (error) {
      if (systemCode(error) === "ENOENT") return "none";
      // Something else than a folder is in the way: a link may lead to something, a file doesn't.
      if (systemCode(error) === "ENOTDIR") return await isBehindLink(absolute) ? "unkept" : "none";
      if (error instanceof Refusal || isForbidden(error)) return "unkept";
      throw error;
    }
  }

  async #read(absolute: string, info: Stats): Promise<FileState> {
    if (info.isDirectory()) return `folder ${permissionsOf(info)}`;
    try {
      if (info.isSymbolicLink()) {
        const target = await inFolder(dirname(absolute), (folder) => readlink(folder.at(basename(absolute))));
        return `link ${await this.#keep(new TextEncoder().encode(target))}`;
      }
      if (!info.isFile() || info.size > this.#limits.maxFileBytes) return unkeptState(info);
      const read = await readKnown(absolute, this.#limits.maxFileBytes);
      if (!read.bytes) return unkeptState(read.info);
      return `file ${permissionsOf(read.info)} ${await this.#keep(read.bytes)}`;
    } catch (error) {
      if (systemCode(error) === "ENOENT") return "none";
      // One that may not be read, or was exchanged, can't be put back either.
      if (error instanceof Refusal || isForbidden(error)) return unkeptState(info);
      throw error;
    }
  }

  async #keep(bytes: Uint8Array): Promise<string> {
    const name = createHash("sha256").update(bytes).digest("hex");
    const path = this.#pathOf(name);
    const size = await stat(path).then(({ size }) => size, ignoreMissing);
    if (size !== bytes.length) await writeWhole(path, bytes);
    return name;
  }

  async #content(name: string): Promise<Uint8Array> {
    const path = this.#pathOf(name);
    const bytes = await readFile(path);
    if (createHash("sha256").update(bytes).digest("hex") === name) return bytes;
    throw new Error(`Cannot put a file back: ${path} was damaged, its content has another hash.`);
  }

  #pathOf(name: string): string {
    return join(this.#folder, "contents", name.slice(0, 2), name);
  }

  #wasIgnored(path: string): boolean {
    return this.#ignored.has(path) ||
      foldersAbove(`${path}/`).some((folder) => this.#ignored.has(`${folder}/`));
  }

  /** All that isn't passed over, or why that is too much. */
  async #walk(): Promise<Walked | string> {
    const { maxFiles, maxBytes } = this.#limits;
    const walked = { paths: new Map<string, Stats>(), ignored: new Set<string>(), unnamed: [], bytes: 0 };
    const waiting = [{ base: "", rules: await IgnoreRules.of(this.#root, ".") }];
    for (let next = waiting.pop(); next; next = waiting.pop()) {
      const folders = await this.#walkFolder(next, walked);
      if (!folders) return `it holds more than ${maxFiles} files and folders`;
      if (walked.bytes > maxBytes) return `its files hold more than ${maxBytes / 2 ** 20} MiB`;
      for (const base of folders) waiting.push({ base, rules: await next.rules.enter(this.#root, base) });
    }
    return walked;
  }

  /** Adds what is in a folder and returns the folders in it; nothing if there is too much. */
  async #walkFolder(
    place: { readonly base: string; readonly rules: IgnoreRules },
    walked: Walked,
  ): Promise<readonly string[] | undefined> {
    try {
      const absolute = join(this.#root, place.base.slice(0, -1));
      return await inFolder(absolute, (folder) => this.#walkOpen(folder, place, walked));
    } catch (error) {
      return error instanceof Refusal ? [] : unreadable(error);
    }
  }

  async #walkOpen(
    folder: Folder,
    { base, rules }: { readonly base: string; readonly rules: IgnoreRules },
    walked: Walked,
  ): Promise<readonly string[] | undefined> {
    const { maxFiles, maxFileBytes } = this.#limits;
    const { paths, ignored } = walked;
    const here: string[] = [];
    for await (const slice of entriesOf(folder)) {
      for (const { name, kind } of slice) {
        // What a call that runs at the same time is about to put in its place.
        if (isTemporary(name)) continue;
        const path = `${base}${name}`;
        const shown = kind === "folder" ? `${path}/` : path;
        const isOwn = join(this.#root, path) === this.#hidden;
        if (isOwn || PASSED_OVER.has(name) || rules.ignores(shown)) ignored.add(shown);
        else here.push(name);
      }
      if (paths.size + here.length > maxFiles || ignored.size > maxFiles) return undefined;
    }
    const folders: string[] = [];
    let sinceMs = performance.now();
    for (const name of here) {
      const path = `${base}${name}`;
      // Takes half the time of asking without waiting, unless it takes the disk.
      const info = lstatSync(folder.at(name), { throwIfNoEntry: false });
      if (performance.now() - sinceMs > MOST_MS) {
        await new Promise((resolve) => setImmediate(resolve));
        sinceMs = performance.now();
      }
      if (!info) {
        // The name that was listed isn't the one on disk.
        if (name.includes("\uFFFD")) walked.unnamed.push(path);
        continue;
      }
      paths.set(path, info);
      if (info.isDirectory()) folders.push(`${path}/`);
      else if (info.size <= maxFileBytes) walked.bytes += info.size;
    }
    folder.check();
    return folders;
  }
}

/** What a walk has found. */
interface Walked {
  readonly paths: Map<string, Stats>;
  readonly ignored: Set<string>;
  /** Paths whose names aren't UTF-8. */
  readonly unnamed: string[];
  bytes: number;
}

/** What has changed since it was last looked at. */
interface Seen {
  readonly changes: readonly FileChange[];
  /** Sentences about the changes that can't be put back as they were. */
  readonly linked: readonly string[];
  /** Sentences about what isn't kept, whether it changed or not. */
  readonly notCovered: readonly string[];
}

type Comparison = readonly [path: string, before: Pick<Known, "state" | "isLinked">, after: Known];

/** Returns what has changed between two looks at some paths. */
function changesOf(compared: readonly Comparison[], unnamed: readonly string[] = []): Seen {
  const changed = compared.filter(([, before, after]) => before.state !== after.state)
    .sort(([a], [b]) => (a < b ? -1 : 1));
  const linked = changed.filter(([, before, after]) => before.isLinked || after.isLinked);
  return {
    changes: changed.map(([path, before, after]) => [path, before.state, after.state]),
    linked: named(linked.map(([path]) => path), "it is a hard link, and is put back as a file of its own"),
    notCovered: named(unnamed, "its name isn't UTF-8, and it isn't kept"),
  };
}

function named(paths: readonly string[], why: string): readonly string[] {
  const more = paths.length - MOST_NAMED;
  return [
    ...paths.toSorted().slice(0, MOST_NAMED).map((path) => `${path}: ${why}.`),
    ...(more > 0 ? [`And ${more} more: ${why}.`] : []),
  ];
}

/** The contents that a state needs. */
function contentsOf(state: FileState): readonly string[] {
  const [kind, ...rest] = state.split(" ");
  return kind === "file" || kind === "link" ? rest.slice(-1) : [];
}

/** Does something for each, some at a time. */
async function inGroups<T>(all: readonly T[], work: (one: T) => Promise<void>): Promise<void> {
  for (let at = 0; at < all.length; at += AT_ONCE) await Promise.all(all.slice(at, at + AT_ONCE).map(work));
}

/** Writes a file that is whole or not there, whenever the process ends. */
async function writeWhole(
  path: string,
  content: string | Uint8Array,
  { isFlushed = false }: { readonly isFlushed?: boolean } = {},
): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const temporary = join(dirname(path), `${basename(path)}.${crypto.randomUUID()}.tmp`);
  await writeFile(temporary, content, { mode: 0o600, flush: isFlushed });
  await rename(temporary, path);
}

function unreadable(error: unknown): [] {
  if (isForbidden(error) || isMissing(error)) return [];
  throw error;
}

/** Whether a link leads to the folder of a path. */
async function isBehindLink(absolute: string): Promise<boolean> {
  const folder = dirname(absolute);
  return await realpath(folder).catch(() => folder) !== folder;
}

/** Whether the system, or Deno, doesn't let this process look. */
function isForbidden(error: unknown): boolean {
  return isDenied(error) || ["EACCES", "EPERM", "ELOOP"].includes(systemCode(error) ?? "");
}

async function triesToLink(path: string): Promise<boolean> {
  await rm(path, { force: true });
  try {
    await symlink("nowhere", path);
    await unlink(path);
    return true;
  } catch (error) {
    if (isDenied(error) || systemCode(error) === "EPERM") return false;
    throw error;
  }
}

function withFolders(paths: readonly string[]): readonly string[] {
  return [...new Set(paths.flatMap((path) => [...foldersAbove(path), path]))];
}

function foldersAbove(path: string): string[] {
  const parts = path.split("/").slice(0, -1);
  return parts.map((_, index) => parts.slice(0, index + 1).join("/"));
}

function unkeptState({ size, mtimeMs }: Stats): FileState {
  return `unkept ${size} ${mtimeMs}`;
}

/** Permissions of a file or folder, set-user-ID and the like included, in octal digits. */
function permissionsOf({ mode }: Stats): string {
  return (mode & 0o7777).toString(8);
}

function modeOf(state: FileState): number {
  return parseInt(state.split(" ")[1] ?? "", 8);
}

/** Nothing where the same may be said of another content. */
function stampOf({ mtimeMs, ctimeMs, ino, size, mode }: Stats, now: number): string {
  return Math.max(mtimeMs, ctimeMs) > now - YOUNG_MS ? "" : [mtimeMs, ctimeMs, ino, size, mode].join(" ");
}
