import type { Tool } from "@tare/messages";
import type { Archive } from "@tare/prune";
import { editFileTool } from "./edit_file_tool.ts";
import { listFilesTool } from "./list_files_tool.ts";
import { readFileTool } from "./read_file_tool.ts";
import { recallTool } from "./recall_tool.ts";
import { searchFilesTool } from "./search_files_tool.ts";
import { shellTool, type ShellToolOptions } from "./shell_tool.ts";
import { writeFileTool } from "./write_file_tool.ts";

/** What the tools work on. */
export interface WorkspaceToolsOptions {
  /** Folder that the file tools are kept in and that commands start in. */
  readonly workspace: string;
  /** Where elided results are kept. Without it there is no `recall`. */
  readonly archive?: Archive;
  /** Limits and environment of `shell`. */
  readonly shell?: Omit<ShellToolOptions, "workspace">;
}

/** All built-in tools: `list_files`, `read_file`, `search_files`, `write_file`, `edit_file`, `shell` and `recall`. */
export function workspaceTools({ workspace, archive, shell }: WorkspaceToolsOptions): readonly Tool[] {
  return [
    listFilesTool(workspace),
    readFileTool(workspace),
    searchFilesTool(workspace),
    writeFileTool(workspace),
    editFileTool(workspace),
    shellTool({ ...shell, workspace }),
    ...(archive ? [recallTool(archive)] : []),
  ];
}
