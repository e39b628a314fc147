/**
 * Built-in tools: files, search, a shell, the web, a plan, and recall of elided results.
 *
 * Every tool is a plain {@linkcode Tool} of `@tare/messages`: a definition for the model, and a function that takes
 * arguments valid for it. What the model got wrong, and what the system refused, is an error result that says what
 * to do; a tool throws only when its call is aborted, or on a bug. The file tools stay inside the workspace whatever
 * the path, symbolic links included. `shell` runs with the rights of this process unless it is given a
 * {@linkcode Sandbox}, which {@linkcode findSandbox} makes on Linux and macOS.
 *
 * README.md shows it in use.
 *
 * @module
 */
import type { Tool } from "@tare/messages";
import { checkGiven } from "@tare/messages/internal";
import { type Archive, RECALL_TOOL, recallOriginal } from "@tare/prune";
import { editFileTool, writeFileTool } from "./files/write_file_tools.ts";
import { listFilesTool } from "./files/list_files_tool.ts";
import { planTool } from "./plan_tool.ts";
import { readFileTool } from "./files/read_file_tool.ts";
import { searchFilesTool } from "./search/search_files_tool.ts";
import { backgroundTool } from "./shell/background.ts";
import { approvePath } from "./sandbox/guard.ts";
import { shellTool, type ShellToolOptions } from "./shell/shell_tool.ts";
import { fetchTool, type FetchToolOptions } from "./web/fetch_tool.ts";

/** What a model asks to have back. */
type Recalled = Parameters<typeof recallOriginal>[1];

/**
 * All built-in tools: `list_files`, `read_file`, `search_files`, `write_file`, `edit_file`, `shell`, `background`, `fetch`,
 * `update_plan` and `recall`.
 */
export function workspaceTools(
  options: {
    /** Folder that the file tools are kept in and that commands start in. */
    readonly workspace: string;
    /** A folder that no path leads to or into, and that no listing or search shows. Default: there is none. */
    readonly hidden?: string | undefined;
    /** Where elided results are kept. Without it there is no `recall`. */
    readonly archive?: Archive;
    /** Limits and environment of `shell`. */
    readonly shell?: Omit<ShellToolOptions, "workspace">;
    /** What `fetch` reaches of the web. Without it there is no `fetch`. */
    readonly web?: FetchToolOptions | undefined;
  },
): readonly Tool[] {
  checkGiven("workspaceTools()", { options }, { options: { workspace: "string" } });
  const { workspace, archive, shell, web, ...limits } = options;
  return [
    listFilesTool(workspace, limits),
    readFileTool(workspace, limits),
    searchFilesTool(workspace, limits),
    approving(writeFileTool(workspace, limits)),
    approving(editFileTool(workspace, limits)),
    shellTool({ ...shell, workspace }),
    ...(shell?.background ? [backgroundTool(shell.background)] : []),
    ...(web ? [fetchTool(web)] : []),
    planTool(),
    ...(archive ? [recallTool(archive)] : []),
  ];
}

/** `recall`: reads the original of an elided result back from the archive, or searches all that left what is shown. */
export function recallTool(archive: Archive, options: Parameters<typeof recallOriginal>[2] = {}): Tool {
  return {
    definition: RECALL_TOOL,
    stance: "rederivable",
    async run(args, { seesPictures = false }) {
      // Whoever runs a tool has validated the arguments against its definition.
      const asked = args as Pick<Recalled, keyof Recalled>;
      return await recallOriginal(archive, asked, { ...options, seesPictures });
    },
  };
}

/** A tool whose calls are judged by the files that they write: a protected one that was approved stays as it is. */
function approving(tool: Tool): Tool {
  return {
    ...tool,
    async run(args, context) {
      // A call whose effects can't be told is refused.
      const effects = await tool.effects?.(args).catch(() => undefined);
      for (const path of effects?.writes ?? []) approvePath(path);
      return await tool.run(args, context);
    },
  };
}
