import type { FileHandle } from "node:fs/promises";
import { checkGiven, type Tool, type ToolContext } from "@tare/messages";
import { defineTool, ioReason, Refusal } from "../define_tool.ts";
import { GrepRows } from "./grep_rows.ts";
import {
  resolveInWorkspace,
  type WorkspaceLimits,
  type WorkspacePath,
} from "../files/resolve_in_workspace.ts";
import { fittingRows, MAX_RESULT_BYTES } from "../result_text.ts";
import { searchPattern } from "./search_pattern.ts";
import { searchText } from "./search_text.ts";
import { statFile, statInWorkspace } from "../files/stat_in_workspace.ts";
import { MAX_LINE_BYTES, openText } from "../files/text_file.ts";
import { walk } from "../files/walk.ts";

type SearchFilesArguments = {
  readonly pattern: string;
  readonly path?: string;
  readonly glob?: string;
  readonly ignore_case?: boolean;
  readonly output?: "lines" | "files" | "count";
  readonly context_lines?: number;
  readonly max_results?: number;
  readonly include_hidden?: boolean;
};

const DEFAULT_RESULTS = 200;
const MAX_RESULTS = 2000;
const MAX_CONTEXT_LINES = 20;

/**
 * `search_files`: lines that match an RE2 regular expression, the files that hold such lines, or how many each file
 * holds. The pattern `^` with `output: "count"` gives the number of lines of each file.
 */
export function searchFilesTool(workspace: string, limits: WorkspaceLimits = {}): Tool {
  checkGiven("searchFilesTool()", { workspace }, { workspace: "string" });
  return defineTool<SearchFilesArguments>({
    name: "search_files",
    description:
      "Searches the text files of the workspace line by line for an RE2 regular expression (no lookaround, no " +
      'backreferences; a match never spans lines). output "lines" gives path:line: text for each matching line, "files" the ' +
      'paths of files with a match, "count" path:number with the number of matching lines of each such file; pattern "^" with ' +
      '"count" counts all lines. The first line of the result gives the totals. Hidden files, those named by ' +
      `.gitignore, binary files and links are skipped. One call shows at most max_results rows and ${
        MAX_RESULT_BYTES / 1024
      } KiB, ` +
      'and with "lines" stops there: narrow it with pattern, path or glob.',
    properties: {
      pattern: { type: "string", description: "RE2 regular expression, case-sensitive." },
      path: {
        type: "string",
        description: "Folder or file, relative to the workspace. Default: the workspace.",
      },
      glob: {
        type: "string",
        minLength: 1,
        description: 'Only files that match, such as "*.{ts,tsx}" (any folder) or "src/**/*.md" (from path).',
      },
      ignore_case: { type: "boolean", description: "Ignore upper and lower case. Default: false." },
      output: {
        type: "string",
        enum: ["lines", "files", "count"],
        description: 'What to show. Default: "lines".',
      },
      context_lines: {
        type: "integer",
        minimum: 0,
        maximum: MAX_CONTEXT_LINES,
        description: 'Lines shown before and after each match, with "lines". Default: 0.',
      },
      max_results: {
        type: "integer",
        minimum: 1,
        maximum: MAX_RESULTS,
        description: `Most rows to show. Default: ${DEFAULT_RESULTS}.`,
      },
      include_hidden: { type: "boolean", description: "Also hidden and git-ignored files. Default: false." },
    },
    required: ["pattern"],
    stance: "rederivable",
    attempt: ({ path = "." }) => `search ${JSON.stringify(path)}`,
    async run(args, context) {
      const { output = "lines", max_results: maxResults = DEFAULT_RESULTS } = args;
      const pattern = searchPattern(args.pattern, { ignoreCase: args.ignore_case });
      const place = await resolveInWorkspace(workspace, args.path ?? ".", limits);
      const tally: Tally = { searched: 0, cutLines: 0, hidden: 0, binary: 0, unreadable: 0 };
      const grep = output === "lines"
        ? new GrepRows({ pattern, maxMatches: maxResults, contextLines: args.context_lines ?? 0 })
        : undefined;
      const found: FileMatches[] = [];
      for await (const { file, path } of textFiles(place, args, { tally, context })) {
        const options = { path, pattern, rows: grep, firstOnly: output === "files", context };
        const { matches, cutLines } = await searchText(file, options).finally(() => file.close());
        tally.searched++;
        tally.cutLines += cutLines;
        if (matches > 0) found.push({ path, matches });
        if (grep?.full) break;
      }
      const all = found.map(({ path, matches }) => (output === "files" ? path : `${path}:${matches}`));
      const rows = grep?.rows ?? fittingRows(all, maxResults);
      const complete = grep ? !grep.full : rows.length === all.length;
      return [header(found, { output, complete, shown: grep?.matches ?? rows.length, tally }), ...rows].join(
        "\n",
      );
    },
  });
}

interface FileMatches {
  readonly path: string;
  readonly matches: number;
}

interface Tally {
  searched: number;
  cutLines: number;
  hidden: number;
  binary: number;
  unreadable: number;
}

interface TextFile {
  readonly file: FileHandle;
  readonly path: string;
}

/** The file at `place`, or the text files in the folder there, one after the other. Whoever takes one closes it. */
async function* textFiles(
  place: WorkspacePath,
  { glob, include_hidden: includeHidden }: SearchFilesArguments,
  { tally, context }: { readonly tally: Tally; readonly context: ToolContext },
): AsyncGenerator<TextFile> {
  const info = await statInWorkspace(place, context);
  if (!info.isDirectory()) {
    await statFile(place, context);
    yield { file: await openText(place.absolute), path: place.relative };
    return;
  }
  const onSkip = (why: "hidden" | "unreadable") => tally[why]++;
  for await (const { absolute, relative, kind } of walk(place, { context, glob, includeHidden, onSkip })) {
    if (kind !== "file") continue;
    try {
      yield { file: await openText(absolute), path: relative };
    } catch (error) {
      if (error instanceof Refusal) tally.binary++;
      else if (ioReason(error) !== undefined) tally.unreadable++;
      else throw error;
    }
  }
}

interface Summary {
  readonly output: "lines" | "files" | "count";
  readonly complete: boolean;
  readonly shown: number;
  readonly tally: Tally;
}

function header(found: readonly FileMatches[], { output, complete, shown, tally }: Summary): string {
  const notes: string[] = [];
  const total = found.reduce((sum, { matches }) => sum + matches, 0);
  if (output === "lines" && !complete) {
    notes.push(
      `the first ${shown} matching lines follow, there are more: narrow it with pattern, path or glob`,
    );
  } else {
    if (output !== "files") notes.push(`matching lines: ${total}`);
    notes.push(`files with matches: ${found.length}`, `files searched: ${tally.searched}`);
    if (!complete) notes.push(`only the first ${shown} follow, narrow it with pattern, path or glob`);
  }
  if (tally.hidden > 0) notes.push(`hidden or ignored, left out: ${tally.hidden}`);
  if (tally.binary > 0) notes.push(`binary, skipped: ${tally.binary}`);
  if (tally.unreadable > 0) notes.push(`could not be read: ${tally.unreadable}`);
  if (tally.cutLines > 0) {
    notes.push(`lines searched only in their first ${MAX_LINE_BYTES / 1024} KiB: ${tally.cutLines}`);
  }
  return notes.join("; ");
}
