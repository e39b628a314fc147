/**
 * Undo and redo of file changes that the tools of a turn made in a folder.
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
export {
  type Checkpoints,
  openCheckpoints,
  type TurnOfSession,
  UndoRefused,
  type UndoResult,
} from "./checkpoints.ts";
export type { ChangedFile } from "./file_state.ts";
export type { CheckpointOptions } from "./file_states.ts";
export type { TurnChanges } from "./journals.ts";
