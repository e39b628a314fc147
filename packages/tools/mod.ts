/**
 * Agent tools within one folder: files, search, a shell, the web, a plan, and recall of evicted results.
 *
 * An invalid or refused call returns an error result; a tool throws only if its call is aborted, or on a bug.
 * `shell` has the rights of this process unless it gets a `Sandbox` of `@tare/tools/sandbox`.
 *
 * @example
 * ```ts
 * import { mkdtemp, rm } from "node:fs/promises";
 * import { tmpdir } from "node:os";
 * import { join } from "node:path";
 * import { assertEquals } from "@std/assert";
 * import { workspaceTools } from "@tare/tools";
 *
 * const workspace = await mkdtemp(join(tmpdir(), "workspace-"));
 * const tools = new Map(workspaceTools({ workspace }).map((tool) => [tool.definition.function.name, tool]));
 * const context = { signal: new AbortController().signal, progress() {} };
 *
 * await tools.get("write_file")?.run({ path: "notes/a.txt", content: "one\ntwo\nthree\n" }, context);
 * assertEquals(
 *   await tools.get("read_file")?.run({ path: "notes/a.txt", start_line: 2 }, context),
 *   "lines 2-3 of 3\ntwo\nthree",
 * );
 * await rm(workspace, { recursive: true });
 * ```
 *
 * @module
 */
import type { CountTokens, Message, Tool } from "@tare/messages";
import { checkGiven } from "@tare/messages/internal";
import { type Archive, RECALL_TOOL, recallOriginal } from "@tare/prune";
import { listFilesTool } from "./files/list_files_tool.ts";
import { readFileTool } from "./files/read_file_tool.ts";
import type { WorkspaceLimits } from "./files/resolve_in_workspace.ts";
import { editFileTool, writeFileTool } from "./files/write_file_tools.ts";
import { planTool } from "./plan_tool.ts";
import { searchFilesTool } from "./search/search_files_tool.ts";
import { backgroundTool } from "./shell/background.ts";
import { shellTool, type ShellToolOptions } from "./shell/shell_tool.ts";
import { fetchTool, type FetchToolOptions } from "./web/fetch_tool.ts";

/** Options of {@linkcode workspaceTools}. */
export interface WorkspaceToolsOptions extends WorkspaceLimits {
  /** Root of the file tools and working directory of commands. */
  readonly workspace: string;
  /** Storage of evicted results. Default: none, and no `recall`. */
  readonly archive?: Archive;
  readonly shell?: Omit<ShellToolOptions, "workspace">;
  /** Hosts that `fetch` reaches. Default: no `fetch`. */
  readonly web?: FetchToolOptions | undefined;
}

/**
 * Returns all built-in tools: `list_files`, `read_file`, `search_files`, `write_file`, `edit_file`, `shell`,
 * `background`, `fetch`, `update_plan` and `recall`.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { workspaceTools } from "@tare/tools";
 *
 * const tools = workspaceTools({ workspace: "/srv/project", shell: { timeoutMs: 60_000 } });
 * assertEquals(tools.length, 7);
 * ```
 */
export function workspaceTools(options: WorkspaceToolsOptions): readonly Tool[] {
  checkGiven("workspaceTools()", { options }, { options: { workspace: "string" } });
  const { workspace, archive, shell, web, ...limits } = options;
  return [
    listFilesTool(workspace, limits),
    readFileTool(workspace, limits),
    searchFilesTool(workspace, limits),
    writeFileTool(workspace, limits),
    editFileTool(workspace, limits),
    shellTool({ ...shell, workspace }),
    ...(shell?.background ? [backgroundTool(shell.background)] : []),
    ...(web ? [fetchTool(web)] : []),
    planTool(),
    ...(archive ? [recallTool(archive)] : []),
  ];
}

/** Options of {@linkcode recallTool}. */
export interface RecallToolOptions {
  /** Default: `estimateTokens` of `@tare/messages`. */
  readonly countTokens?: CountTokens;
  /** Maximum length of an answer, in tokens; at least 200. Default: 7,000. */
  readonly limitTokens?: number;
  /**
   * Returns the visible messages, whose evicted originals a call without a reference searches. Default: none.
   */
  readonly visible?: () => readonly Message[];
}

/**
 * Returns `recall`, which reads or searches the originals of evicted results.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { memoryArchive } from "@tare/prune";
 * import { recallTool } from "@tare/tools";
 *
 * const archive = memoryArchive();
 * const ref = await archive.put("apple\nbanana");
 * const context = { signal: new AbortController().signal, progress() {} };
 * assertEquals(await recallTool(archive).run({ ref, lines: "2" }, context), {
 *   content: "banana",
 *   error: false,
 * });
 * ```
 */
export function recallTool(archive: Archive, options: RecallToolOptions = {}): Tool {
  return {
    definition: RECALL_TOOL,
    stance: "rederivable",
    run: (args, { supportsImages = false }) => recallOriginal(archive, args, { ...options, supportsImages }),
  };
}
