import type { FileHandle } from "node:fs/promises";
import type { Tool, ToolContext } from "@tare/messages";
import { RE2JS, RE2JSException } from "re2js";
import { defineTool, ioReason, ToolRefusal } from "../define_tool.ts";
import {
  assertAllowed,
  effectsOn,
  resolveInWorkspace,
  statFile,
  statInWorkspace,
  type WorkspaceLimits,
  type WorkspacePath,
} from "../files/resolve_in_workspace.ts";
import { byteLength, decodeText, fittingRows, MAX_RESULT_BYTES, sliceText } from "../result_text.ts";
import { MAX_LINE_BYTES, openText, textBlocks } from "../files/text_file.ts";
import { type Skipped, walk } from "../files/walk.ts";

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
 * Returns `search_files`, which returns lines that match an RE2 regular expression, the files with such
 * lines, or their number per file.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { searchFilesTool } from "@tare/tools/search";
 *
 * const { definition } = searchFilesTool("/srv/project", { hidden: "/srv/project/.data" });
 * assertEquals(definition.function.name, "search_files");
 * ```
 */
export function searchFilesTool(workspace: string, limits: WorkspaceLimits = {}): Tool {
  return defineTool<SearchFilesArguments>({
    name: "search_files",
    description:
      "Searches text files line by line. The first line counts matches and skipped files: hidden, git-ignored, binary.",
    properties: {
      pattern: { type: "string", description: "RE2: no lookaround, no backreferences." },
      path: {
        type: "string",
        description: "Folder or file. Default: the workspace.",
      },
      glob: {
        type: "string",
        minLength: 1,
        description: 'Files such as "*.ts" (in any folder) or "src/**/*.md".',
      },
      ignore_case: { type: "boolean", description: "Default: false." },
      output: {
        type: "string",
        enum: ["lines", "files", "count"],
        description: 'Default: "lines". "count" is matching lines of each file.',
      },
      context_lines: {
        type: "integer",
        minimum: 0,
        maximum: MAX_CONTEXT_LINES,
        description: "Around each match. Default: 0.",
      },
      max_results: {
        type: "integer",
        minimum: 1,
        maximum: MAX_RESULTS,
        description: `Rows. Default: ${DEFAULT_RESULTS}.`,
      },
      include_hidden: { type: "boolean", description: "Git-ignored too." },
    },
    required: ["pattern"],
    stance: "rederivable",
    effects: ({ path = "." }) => effectsOn(path, { ...limits, workspace, as: "searches" }),
    attempt: ({ path = "." }) => `search ${JSON.stringify(path)}`,
    async run(args, context) {
      const { output = "lines", max_results: maxResults = DEFAULT_RESULTS } = args;
      const pattern = searchPattern(args.pattern, { ignoreCase: args.ignore_case });
      const place = await resolveInWorkspace(workspace, args.path ?? ".", limits);
      assertAllowed(context, place.absolute, "reads");
      const tally: Tally = {
        ...{ searched: 0, cutLines: 0, hidden: 0, binary: 0, unreadable: 0, forbidden: 0, uncounted: 0 },
      };
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
      return [header(found, { output, complete, visible: grep?.matches ?? rows.length, tally }), ...rows]
        .join(
          "\n",
        );
    },
  });
}

interface FileMatches {
  readonly path: string;
  readonly matches: number;
}

type Tally = Record<Skipped | "searched" | "cutLines" | "binary", number>;

interface TextFile {
  readonly file: FileHandle;
  readonly path: string;
}

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
  const onSkip = (why: Skipped) => tally[why]++;
  for await (const { absolute, relative, kind } of walk(place, { context, glob, includeHidden, onSkip })) {
    if (kind !== "file") continue;
    if (!(context.allows?.(absolute, "reads") ?? true)) {
      tally.forbidden++;
      continue;
    }
    try {
      yield { file: await openText(absolute), path: relative };
    } catch (error) {
      if (error instanceof ToolRefusal) tally.binary++;
      else if (ioReason(error) !== undefined) tally.unreadable++;
      else throw error;
    }
  }
}

interface Summary {
  readonly output: "lines" | "files" | "count";
  readonly complete: boolean;
  readonly visible: number;
  readonly tally: Tally;
}

function header(found: readonly FileMatches[], { output, complete, visible, tally }: Summary): string {
  const notes: string[] = [];
  const total = found.reduce((sum, { matches }) => sum + matches, 0);
  if (output === "lines" && !complete) {
    notes.push(
      `the first ${visible} matching lines follow, there are more: narrow it with pattern, path or glob`,
    );
  } else {
    if (output !== "files") notes.push(`matching lines: ${total}`);
    notes.push(`files with matches: ${found.length}`, `files searched: ${tally.searched}`);
    if (!complete) notes.push(`only the first ${visible} follow, narrow it with pattern, path or glob`);
  }
  if (tally.hidden > 0) notes.push(`hidden or ignored, skipped: ${tally.hidden}`);
  if (tally.forbidden > 0) notes.push(`denied by a rule, skipped: ${tally.forbidden}`);
  if (tally.binary > 0) notes.push(`binary, skipped: ${tally.binary}`);
  if (tally.unreadable > 0) notes.push(`could not be read: ${tally.unreadable}`);
  if (tally.uncounted > 0) notes.push(`folders with too many entries to search all: ${tally.uncounted}`);
  if (tally.cutLines > 0) {
    notes.push(`lines searched only in their first ${MAX_LINE_BYTES / 1024} KiB: ${tally.cutLines}`);
  }
  return notes.join("; ");
}

export interface SearchTextOptions {
  readonly path: string;
  readonly pattern: SearchPattern;
  readonly rows?: GrepRows | undefined;
  readonly firstOnly?: boolean;
}

interface TextMatches {
  readonly matches: number;
  readonly cutLines: number;
}

/** Searches an open text file line by line, in constant memory, without line ends. */
export async function searchText(
  file: FileHandle,
  options: SearchTextOptions & { readonly context: ToolContext },
): Promise<TextMatches> {
  const { path, pattern, rows, firstOnly = false, context } = options;
  let number = 0;
  let matches = 0;
  let cutLines = 0;
  for await (const { bytes, droppedBytes } of textBlocks(file, context)) {
    if (droppedBytes > 0) cutLines++;
    const lines = decodeText(bytes).text.split("\n");
    if (lines.at(-1) === "") lines.pop();
    for (const line of lines) {
      number++;
      const text = line.endsWith("\r") ? line.slice(0, -1) : line;
      const matched = pattern.matches(text);
      if (matched) matches++;
      rows?.add({ path, number, text, matched });
      if (rows?.full || (matched && firstOnly)) return { matches, cutLines };
    }
  }
  return { matches, cutLines };
}

interface SearchedLine {
  readonly path: string;
  /** From 1. */
  readonly number: number;
  readonly text: string;
  readonly matched: boolean;
}

interface GrepRowsOptions {
  readonly pattern: SearchPattern;
  readonly maxMatches: number;
  readonly contextLines: number;
}

const MAX_ROW_CHARS = 300;
const LEAD_CHARS = 100;

/**
 * Collects rows like grep: `path:line: text` for a match, `path-line- text` for context, `--` between groups.
 */
export class GrepRows {
  readonly rows: string[] = [];
  matches = 0;
  full = false;
  readonly #options: GrepRowsOptions;
  #bytes = 0;
  #before: SearchedLine[] = [];
  #after = 0;
  #last: SearchedLine | undefined;

  constructor(options: GrepRowsOptions) {
    this.#options = options;
  }

  /** Adds the next line. Lines that neither match nor can be context may be skipped. */
  add(line: SearchedLine): void {
    const { maxMatches, contextLines } = this.#options;
    if (line.path !== this.#last?.path) this.#after = 0;
    if (line.path !== this.#before[0]?.path) this.#before = [];
    if (line.matched) {
      if (this.matches === maxMatches) this.full = true;
      for (const earlier of this.#before) this.#show(earlier);
      this.#before = [];
      this.#show(line);
      if (!this.full) this.matches++;
      this.#after = contextLines;
    } else if (this.#after > 0) {
      this.#after--;
      this.#show(line);
    } else if (contextLines > 0) {
      this.#before.push(line);
      if (this.#before.length > contextLines) this.#before.shift();
    }
  }

  #show(line: SearchedLine): void {
    const { path, number, matched } = line;
    const mark = matched ? ":" : "-";
    const apart = this.#options.contextLines > 0 && this.#last !== undefined &&
      (this.#last.path !== path || this.#last.number !== number - 1);
    const row = `${apart ? "--\n" : ""}${path}${mark}${number}${mark} ${this.#shorten(line)}`;
    this.#bytes += byteLength(row) + 1;
    if (this.#bytes > MAX_RESULT_BYTES) this.full = true;
    if (this.full) return;
    this.rows.push(row);
    this.#last = line;
  }

  #shorten({ text, matched }: SearchedLine): string {
    if (text.length <= MAX_ROW_CHARS) return text;
    const match = matched ? this.#options.pattern.matchStart(text) : 0;
    const start = Math.max(0, Math.min(match - LEAD_CHARS, text.length - MAX_ROW_CHARS));
    const visible = sliceText(text, start, start + MAX_ROW_CHARS);
    return `${start > 0 ? "…" : ""}${visible}${start + MAX_ROW_CHARS < text.length ? "…" : ""}`;
  }
}

interface SearchPattern {
  matches(line: string): boolean;
  matchStart(line: string): number;
}

/** Compiles an RE2 expression, which matches in linear time. @throws {ToolRefusal} if it is invalid. */
export function searchPattern(
  source: string,
  { ignoreCase = false }: { readonly ignoreCase?: boolean | undefined } = {},
): SearchPattern {
  let expression: RE2JS;
  try {
    expression = RE2JS.compile(source, ignoreCase ? RE2JS.CASE_INSENSITIVE : 0);
  } catch (error) {
    if (!(error instanceof RE2JSException)) throw error;
    throw new ToolRefusal(
      `the pattern is not valid: ${error.message}. Patterns are RE2 regular expressions: no lookahead, no ` +
        "lookbehind, no backreferences; characters such as ( ) [ ] { } . * + ? are literal only after a backslash.",
    );
  }
  return {
    matches: (line) => expression.test(line),
    matchStart(line) {
      const matcher = expression.matcher(line);
      return matcher.find() ? matcher.start() : 0;
    },
  };
}
