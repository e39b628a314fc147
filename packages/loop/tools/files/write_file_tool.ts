import type { Stats } from "node:fs";
import { lstat } from "node:fs/promises";
import { checkGiven, type Tool } from "@tare/messages";
import { defineTool, Refusal, systemCode } from "../define_tool.ts";
import { resolveInWorkspace, type WorkspaceLimits } from "./resolve_in_workspace.ts";
import { inTurn, writeAtomically } from "./write_atomically.ts";

type WriteFileArguments = { readonly path: string; readonly content: string };

/** `write_file`: creates a text file or replaces the whole of one. */
export function writeFileTool(workspace: string, limits: WorkspaceLimits = {}): Tool {
  checkGiven("writeFileTool()", { workspace }, { workspace: "string" });
  return defineTool<WriteFileArguments>({
    name: "write_file",
    description:
      "Writes a whole text file of the workspace, as UTF-8, exactly as given: creates it and the folders it needs, or replaces " +
      "all of its content and keeps its permissions. The result says which, with bytes and lines. To change a part of a file, " +
      "use edit_file.",
    properties: {
      path: { type: "string", minLength: 1, description: "File, relative to the workspace." },
      content: { type: "string", description: "The whole new content, with a newline at its end." },
    },
    required: ["path", "content"],
    stance: "once",
    writes: "path",
    attempt: ({ path }) => `write ${JSON.stringify(path)}`,
    async run({ path, content }, { signal, confirm }) {
      const { absolute, relative } = await resolveInWorkspace(workspace, path, limits);
      return await inTurn(absolute, async () => {
        signal.throwIfAborted();
        const old = await existingFile(absolute);
        const bytes = new TextEncoder().encode(content);
        await writeAtomically(absolute, bytes, { mode: old?.mode, confirm });
        const lines = content === "" ? 0 : content.split("\n").length - (content.endsWith("\n") ? 1 : 0);
        const before = old ? ` (before: bytes ${old.size})` : "";
        return `${old ? "replaced" : "created"} ${relative}: bytes ${bytes.length}, lines ${lines}${before}`;
      });
    },
  });
}

async function existingFile(absolute: string): Promise<Stats | undefined> {
  let info: Stats;
  try {
    info = await lstat(absolute);
  } catch (error) {
    if (systemCode(error) === "ENOENT") return undefined;
    throw error;
  }
  if (info.isDirectory()) throw new Refusal("it is a folder. Name a file in it.");
  if (!info.isFile()) throw new Refusal("it is a pipe, a socket or a device, not a regular file.");
  return info;
}
