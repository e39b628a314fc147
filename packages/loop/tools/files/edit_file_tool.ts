import { readFile } from "node:fs/promises";
import { checkGiven, type Tool } from "@tare/messages";
import { defineTool, Refusal } from "../define_tool.ts";
import { lineNumberAt, lineNumbers, type ReplacedText, replaceText } from "./replace_text.ts";
import { resolveInWorkspace, type WorkspaceLimits } from "./resolve_in_workspace.ts";
import { shortLines } from "../result_text.ts";
import { statFile } from "./stat_in_workspace.ts";
import { inTurn, writeAtomically } from "./write_atomically.ts";

type EditFileArguments = {
  readonly path: string;
  readonly old_text: string;
  readonly new_text: string;
  readonly replace_all?: boolean;
};

const MAX_BYTES = 4 * 1024 * 1024;
/** Lines shown before and after what changed. */
const CONTEXT_LINES = 2;

/** `edit_file`: replaces exact text in a text file. */
export function editFileTool(workspace: string, limits: WorkspaceLimits = {}): Tool {
  checkGiven("editFileTool()", { workspace }, { workspace: "string" });
  return defineTool<EditFileArguments>({
    name: "edit_file",
    description:
      "Replaces old_text by new_text in a text file of the workspace. old_text must be in the file exactly as given, white " +
      "space included, and only once unless replace_all is true; copy it from read_file. Files with CRLF line ends keep them. The " +
      `result shows the changed lines. Only UTF-8 files of at most ${
        MAX_BYTES / 1024 / 1024
      } MiB; to create a file, use ` +
      "write_file.",
    properties: {
      path: { type: "string", minLength: 1, description: "File, relative to the workspace." },
      old_text: {
        type: "string",
        minLength: 1,
        description: "Text to replace, with enough around it to be unique.",
      },
      new_text: { type: "string", description: "Text to put in its place; empty to delete it." },
      replace_all: { type: "boolean", description: "Replace every occurrence. Default: false." },
    },
    required: ["path", "old_text", "new_text"],
    stance: "once",
    writes: "path",
    attempt: ({ path }) => `edit ${JSON.stringify(path)}`,
    async run({ path, old_text: oldText, new_text: newText, replace_all: all = false }, context) {
      if (oldText === "") throw new Refusal("old_text is empty. To write a whole file, use write_file.");
      if (oldText === newText) throw new Refusal("old_text and new_text are the same.");
      const place = await resolveInWorkspace(workspace, path, limits);
      return await inTurn(place.absolute, async () => {
        context.signal.throwIfAborted();
        const { size, mode } = await statFile(place, context);
        if (size > MAX_BYTES) throw new Refusal(`it has ${size} bytes. Edit files of that size with shell.`);
        const replaced = replaceText(await readUtf8(place.absolute), { oldText, newText, all });
        await writeAtomically(place.absolute, new TextEncoder().encode(replaced.text), {
          mode,
          confirm: context.confirm,
        });
        return report(place.relative, replaced);
      });
    },
  });
}

/** Reads a file such that writing the text back gives the same bytes, a byte order mark included. */
async function readUtf8(absolute: string): Promise<string> {
  const bytes = await readFile(absolute);
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new Refusal("it is not valid UTF-8, and an edit would damage it. Edit it with shell.");
  }
}

function report(path: string, { text, starts, length }: ReplacedText): string {
  const [first = 0, ...others] = starts;
  const lines = text.split(/\r?\n/);
  if (lines.at(-1) === "") lines.pop();
  const from = Math.max(1, lineNumberAt(text, first) - CONTEXT_LINES);
  const to = Math.min(lines.length, lineNumberAt(text, first + length) + CONTEXT_LINES);
  const more = others.length > 0
    ? `${starts.length} replacements, in lines ${lineNumbers(text, starts)}; `
    : "";
  return `edited ${path}: ${more}lines ${from}-${to} of ${lines.length} are now\n` +
    shortLines(lines.slice(from - 1, to));
}
