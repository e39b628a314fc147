/**
 * Tools that list, read, write and edit the files of a folder.
 *
 * @example
 * ```ts
 * import { mkdtemp, rm } from "node:fs/promises";
 * import { tmpdir } from "node:os";
 * import { join } from "node:path";
 * import { assertEquals } from "@std/assert";
 * import { fileTools } from "@tare/tools/files";
 *
 * const folder = await mkdtemp(join(tmpdir(), "workspace-"));
 * const tools = new Map(fileTools(folder).map((tool) => [tool.definition.function.name, tool]));
 * const context = { signal: new AbortController().signal, progress() {} };
 * await tools.get("write_file")?.run({ path: "notes/a.txt", content: "one\ntwo\n" }, context);
 * assertEquals(await tools.get("read_file")?.run({ path: "notes/a.txt" }, context), "lines 1-2 of 2\none\ntwo");
 * await rm(folder, { recursive: true });
 * ```
 *
 * @module
 */
import type { Tool } from "@tare/messages";
import { listFilesTool } from "./list_files_tool.ts";
import { readFileTool } from "./read_file_tool.ts";
import type { WorkspaceLimits } from "./resolve_in_workspace.ts";
import { editFileTool, writeFileTool } from "./write_file_tools.ts";

export type { WorkspaceLimits };

/**
 * Returns `list_files`, `read_file`, `write_file` and `edit_file`, which can't leave the folder, not even
 * through symbolic links.
 *
 * @example Only the tools that read
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { fileTools } from "@tare/tools/files";
 *
 * const reading = fileTools("/srv/project").filter(({ stance }) => stance === "rederivable");
 * assertEquals(reading.map(({ definition }) => definition.function.name), ["list_files", "read_file"]);
 * ```
 */
export function fileTools(workspace: string, limits: WorkspaceLimits = {}): readonly Tool[] {
  return [listFilesTool, readFileTool, writeFileTool, editFileTool].map((make) => make(workspace, limits));
}
