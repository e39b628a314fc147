import { rm } from "node:fs/promises";
import { join, resolve } from "@std/path";
import type { Tool } from "@tare/messages";
import { pathWithin } from "../files/resolve_in_workspace.ts";
import {
  type ChangedFile,
  changedFiles,
  type FileState,
  type FileStateChange,
  isFolder,
  isUnstored,
  isUnstoredChange,
  modeOf,
  reversed,
  unstoredWarnings,
} from "./file_state.ts";
import {
  type CheckpointOptions,
  FileStates,
  inGroups,
  MAX_NAMED,
  readJson,
  writeWhole,
} from "./file_states.ts";
import { changesOfTurn, hasChanges, type JournalLine, Journals, type TurnChanges } from "./journals.ts";

/** Reason why an undo or redo was refused. Nothing was changed. */
export class UndoRefused extends Error {
  override readonly name = "UndoRefused";
  /** `conflict`: files have changed since, which `force` would overwrite. */
  readonly code: "nothing" | "busy" | "conflict";

  constructor(code: UndoRefused["code"], message: string) {
    super(message);
    this.code = code;
  }
}

/** Turn of a session. */
export interface TurnOfSession {
  readonly session: string;
  readonly turn: number;
}

/** Result of an undo or a redo. */
export interface UndoResult {
  readonly turns: readonly number[];
  readonly files: readonly ChangedFile[];
  /** Changes that were not undone, one sentence each. */
  readonly notCovered: readonly string[];
}

/** Store of the file changes of turns. */
export interface Checkpoints {
  /** Changes during a call of the returned tool are recorded for the turn. */
  watch(tool: Tool, turn: TurnOfSession): Tool;
  changes(session: string): Promise<readonly TurnChanges[]>;
  /** Restores files to their state before this turn of a session and all later ones. @throws {UndoRefused} */
  undo(session: string, options?: {
    /** First turn to undo. Default: the newest one that changed files. */
    readonly turn?: number | undefined;
    /** Whether to overwrite files that have changed since. Default: false. */
    readonly force?: boolean | undefined;
  }): Promise<UndoResult>;
  /** Reverts the last undo, unless a turn has changed files since. @throws {UndoRefused} */
  redo(session: string, options?: {
    /** Whether to overwrite files that have changed since. Default: false. */
    readonly force?: boolean | undefined;
  }): Promise<UndoResult>;
  forget(session: string): Promise<void>;
  close(): Promise<void>;
}

interface Pending {
  readonly session: string;
  readonly line: Exclude<JournalLine, { readonly turn: number }>;
}

interface OpenCall extends TurnOfSession {
  readonly isInspected?: boolean;
}

interface Window {
  readonly of: TurnOfSession;
  readonly paths: readonly string[] | undefined;
  readonly notCovered: string[];
}

const AFTER_A_CRASH =
  "The server ended while a command ran: other changes before its next start count as the command's.";

const AFTER_TWO_CRASHES =
  "Files that this command changed: the server ended again while it inspected the workspace.";

const DAY_MS = 24 * 60 * 60_000;

const CANNOT_KEEP =
  "its current content can't be stored, because it is too large, no regular file, or reached through a link";

/**
 * Opens the store of file changes. An interrupted undo is finished, and changes of an interrupted command are
 * recorded for its turn.
 *
 * The first command stores the whole workspace, contents by SHA-256; later only files with changed metadata
 * are read. Calls run whether or not their changes can be stored.
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
  return new StoredCheckpoints(options);
}

class StoredCheckpoints implements Checkpoints {
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
      await this.#recover(states);
      await states.sweep(new Set([...await this.#journals.sweep(keepMs), ...states.contents()]));
    }).catch(onError);
  }

  async #recover(states: FileStates): Promise<void> {
    const call = await readJson<OpenCall>(this.#openCall);
    if (call) {
      if (!call.isInspected) {
        const inspected: OpenCall = { ...call, isInspected: true };
        await writeWhole(this.#openCall, JSON.stringify(inspected), { isFlushed: true });
      }
      const { changes, notCovered, linked } = call.isInspected
        ? { changes: [], notCovered: [AFTER_TWO_CRASHES], linked: [] }
        : await states.inspectAll();
      await this.#record(call, changes, [AFTER_A_CRASH, ...notCovered, ...linked]);
      await rm(this.#openCall, { force: true });
    }
    await this.#finish(states);
  }

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
      (await this.#journals.read(session)).turns.filter(hasChanges).map(changesOfTurn)
    );
  }

  undo(
    session: string,
    { turn, force = false }: Parameters<Checkpoints["undo"]>[1] = {},
  ): Promise<UndoResult> {
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
          } has file changes that can be restored here. They are stored on the machine where the turn ran, for 30 days.`,
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
        ...new Set([...unmade, ...left.flatMap((one) => one.notCovered), ...unstoredWarnings(steps.flat())]),
      ];
      const turns = undone.map(({ turn }) => turn);
      await this.#carryOut(states, {
        session,
        line: { id: crypto.randomUUID(), undo: turns, targets, notCovered },
      });
      return { turns, files: changedFiles(targets), notCovered };
    });
  }

  redo(session: string, { force = false }: Parameters<Checkpoints["redo"]>[1] = {}): Promise<UndoResult> {
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
        files: changedFiles(targets),
        notCovered: [...new Set([...unmade, ...last.notCovered])],
      };
    });
  }

  async #targets(
    states: FileStates,
    verb: "undo" | "redo",
    steps: readonly (readonly FileStateChange[])[],
    force: boolean,
  ): Promise<{ readonly targets: readonly FileStateChange[]; readonly unmade: readonly string[] }> {
    const wanted = new Map<string, { now: FileState; to: FileState; why?: string }>();
    // A path whose content isn't stored is unchanged, and reported.
    const left = new Set(steps.flat().filter(isUnstoredChange).map(([path]) => path));
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
    const targets: FileStateChange[] = [];
    const conflicts: string[] = [];
    const unmade: string[] = [];
    for (const [path, { now, to, why }] of wanted) {
      if (now === to) continue;
      if (!states.mayPut(to)) {
        unmade.push(`${path}: it was a link, and the server isn't allowed to make links.`);
        continue;
      }
      if (isUnstored(now) && force) {
        unmade.push(`${path}: ${CANNOT_KEEP}.`);
        continue;
      }
      if (isUnstored(now)) conflicts.push(`${path}: ${CANNOT_KEEP}`);
      else if (why !== undefined && !force) conflicts.push(`${path}: ${why}`);
      targets.push([path, now, to]);
    }
    const removed = new Set(targets.filter(([, , to]) => to === "none").map(([path]) => path));
    for (const [path, now, to] of targets) {
      if (isFolder(now) && !isFolder(to) && to !== "none" && !await states.holdsOnly(path, removed)) {
        conflicts.push(`${path}: it is a folder that contains other files now`);
      }
    }
    if (conflicts.length === 0) return { targets, unmade };
    const more = conflicts.length > MAX_NAMED ? `; and ${conflicts.length - MAX_NAMED} more` : "";
    throw new UndoRefused(
      "conflict",
      `Cannot ${verb}: ${
        conflicts.slice(0, MAX_NAMED).join("; ")
      }${more}. Nothing was changed. With force the later ` +
        "changes are overwritten, and can be restored by the opposite.",
    );
  }

  /** Makes and records all changes or, on an error, none. After a crash, the next process continues. */
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

  async #apply(states: FileStates, targets: readonly FileStateChange[]): Promise<void> {
    const sorted = [...targets].sort(([a], [b]) => (a < b ? -1 : 1));
    const isDue = async ([path, from, to]: FileStateChange) =>
      from !== to && await states.stateOf(path) === from;
    // A read-only folder is made writable first and gets its permissions last.
    const opened = new Map<string, FileState>();
    for (const target of sorted) {
      const [path, from, to] = target;
      if (!isFolder(from) || !isFolder(to) || (modeOf(from) & 0o300) === 0o300 || !await isDue(target)) {
        continue;
      }
      await states.setMode(path, modeOf(from) | 0o700);
      opened.set(path, await states.stateOf(path));
    }
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
      const isFree = now === "none" && (isFolder(from) || to.startsWith("link "));
      if (now === from || isFree) await states.put(path, to, now);
    });
    for (const [path, from, to] of folders.toReversed()) {
      const now = await states.stateOf(path);
      const isOwn = now === from || now === opened.get(path) || !isFolder(from);
      if (now !== to && isFolder(now) && isOwn) await states.setMode(path, modeOf(to));
    }
    await states.inspect(targets.map(([path]) => path));
  }

  async #begin(states: FileStates, window: Window): Promise<void> {
    await this.#inspect(states, window, [...this.#windows].at(-1));
    this.#windows.add(window);
    if (window.paths) return;
    await states.save();
    await writeWhole(this.#openCall, JSON.stringify(window.of));
  }

  async #end(states: FileStates, window: Window): Promise<void> {
    await this.#inspect(states, window, window);
    this.#windows.delete(window);
    if (![...this.#windows].some(({ paths }) => !paths)) await rm(this.#openCall, { force: true });
  }

  async #inspect(states: FileStates, { paths, notCovered }: Window, by: Window | undefined): Promise<void> {
    const seen = paths
      ? await states.inspect(paths)
      : await states.inspectAll([...this.#windows].flatMap(({ paths = [] }) => paths));
    notCovered.push(...seen.notCovered.filter((sentence) => !notCovered.includes(sentence)));
    if (by) await this.#record(by.of, seen.changes, [...by.notCovered, ...seen.linked]);
  }

  async #record(
    { session, turn }: TurnOfSession,
    changes: readonly FileStateChange[],
    notCovered: readonly string[],
  ): Promise<void> {
    if (changes.length === 0 && notCovered.length === 0) return;
    await this.#journals.add(session, { atMs: Date.now(), turn, changes, notCovered });
  }

  #failed(window: Window, error: unknown): void {
    this.#windows.delete(window);
    window.notCovered.push("Files of a call: they couldn't be stored; the server's log contains the reason.");
    this.#onError(error);
  }

  async #written(
    tool: Tool,
    args: Readonly<Record<string, unknown>>,
  ): Promise<readonly string[] | undefined> {
    if (tool.writes === undefined) return undefined;
    const effects = await Promise.resolve(tool.effects?.(args)).catch(() => undefined);
    const paths = effects?.writes?.map((path) => pathWithin(effects.root, path));
    return paths?.every((path) => path !== undefined) ? paths : undefined;
  }

  #assertIdle(): void {
    if (this.#windows.size === 0) return;
    throw new UndoRefused(
      "busy",
      "Cannot restore files: a call of another session is changing files of the workspace. Try again when it has ended.",
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
