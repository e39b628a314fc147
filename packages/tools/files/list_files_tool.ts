import { lstat } from "node:fs/promises";
import type { Tool } from "@tare/messages";
import { defineTool, ToolRefusal } from "../define_tool.ts";
import {
  assertAllowed,
  effectsOn,
  resolveInWorkspace,
  statInWorkspace,
  type WorkspaceLimits,
} from "./resolve_in_workspace.ts";
import { fittingRows } from "../result_text.ts";
import { type Skipped, walk, type WalkEntry } from "./walk.ts";

type ListFilesArguments = {
  readonly path?: string;
  readonly depth?: number;
  readonly glob?: string;
  readonly include_hidden?: boolean;
};

const MAX_ENTRIES = 1000;
const MAX_COUNTED = 100_000;

/** Returns `list_files`, which lists a folder, one entry per line, with file sizes. */
export function listFilesTool(workspace: string, limits: WorkspaceLimits = {}): Tool {
  return defineTool<ListFilesArguments>({
    name: "list_files",
    description:
      "Lists a folder: sorted paths from the workspace, sizes in bytes. The first line counts skipped entries: hidden, " +
      "git-ignored, over the limit.",
    properties: {
      path: { type: "string", description: "Default: the workspace." },
      depth: {
        type: "integer",
        minimum: 1,
        description: "Levels. Default: 1, with glob all.",
      },
      glob: {
        type: "string",
        minLength: 1,
        description: 'Files such as "*.ts" (in any folder) or "src/**/*.md".',
      },
      include_hidden: {
        type: "boolean",
        description: "Git-ignored too.",
      },
    },
    stance: "rederivable",
    effects: ({ path = "." }) => effectsOn(path, { ...limits, workspace, as: "searches" }),
    attempt: ({ path = "." }) => `list ${JSON.stringify(path)}`,
    async run({ path = ".", glob, depth, include_hidden: includeHidden }, context) {
      const place = await resolveInWorkspace(workspace, path, limits);
      assertAllowed(context, place.absolute, "reads");
      const info = await statInWorkspace(place, context);
      if (!info.isDirectory()) throw new ToolRefusal("it is not a folder. Read it with read_file.");
      const skipped = { hidden: 0, unreadable: 0, forbidden: 0, uncounted: 0 };
      const onSkip = (why: Skipped) => skipped[why]++;
      const maxDepth = depth ?? (glob === undefined ? 1 : undefined);
      const rows: string[] = [];
      let counted = 0;
      for await (const entry of walk(place, { context, glob, maxDepth, includeHidden, onSkip })) {
        if (++counted > MAX_COUNTED) break;
        if (rows.length < MAX_ENTRIES) rows.push(await describe(entry));
      }
      const visible = fittingRows(rows, MAX_ENTRIES);
      return [header(place.relative, { visible: visible.length, counted, glob, ...skipped }), ...visible]
        .join(
          "\n",
        );
    },
  });
}

interface Counts extends Readonly<Record<Skipped | "visible" | "counted", number>> {
  readonly glob: string | undefined;
}

function header(
  path: string,
  { visible, counted, hidden, unreadable, forbidden, uncounted, glob }: Counts,
): string {
  const what = glob === undefined ? "entries" : `files that match ${glob}`;
  const most = Math.min(counted - uncounted, MAX_COUNTED);
  const all = most < counted ? `more than ${most}` : `${counted}`;
  const notes = [`${what} in ${path}: ${all}`];
  if (visible < counted) notes.push(`only the first ${visible} follow, narrow it with path, depth or glob`);
  if (hidden > 0) notes.push(`hidden or ignored, skipped: ${hidden}`);
  if (forbidden > 0) notes.push(`denied by a rule, skipped: ${forbidden}`);
  if (unreadable > 0) notes.push(`folders that could not be read: ${unreadable}`);
  if (uncounted > 0) notes.push(`folders with too many entries to list all: ${uncounted}`);
  return notes.join("; ");
}

async function describe({ absolute, relative, kind }: WalkEntry): Promise<string> {
  switch (kind) {
    case "folder":
      return relative;
    case "link":
      return `${relative}\tlink`;
    case "other":
      return `${relative}\tpipe, socket or device`;
    case "file":
      return `${relative}\t${await sizeOf(absolute)}`;
  }
}

async function sizeOf(path: string): Promise<string> {
  try {
    return String((await lstat(path)).size);
  } catch {
    return "gone";
  }
}
