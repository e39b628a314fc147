import { Buffer } from "node:buffer";
import type { Stats } from "node:fs";
import type { Tool, ToolContext, ToolOutput } from "@tare/messages";
import { imageHead } from "@tare/messages/internal";
import { defineTool, ToolRefusal } from "../define_tool.ts";
import { describeImage, isImageAccepted, MAX_IMAGE_BYTES, MAX_IMAGE_SIDE } from "../image.ts";
import { byteLength, decodeText, MAX_RESULT_BYTES, sliceText } from "../result_text.ts";
import {
  assertAllowed,
  effectsOn,
  openAt,
  resolveInWorkspace,
  statFile,
  type WorkspaceLimits,
} from "./resolve_in_workspace.ts";
import { readText, type TextBlock } from "./text_file.ts";

type ReadFileArguments = { readonly path: string; readonly start_line?: number; readonly end_line?: number };

const MAX_LINES = 1000;
const MAX_LINE_CHARS = 2000;

/**
 * Returns `read_file`, which returns lines of a text file unchanged, after a first line such as
 * `lines 1-200 of 345`. Memory is constant for files of any size.
 */
export function readFileTool(workspace: string, limits: WorkspaceLimits = {}): Tool {
  return defineTool<ReadFileArguments>({
    name: "read_file",
    description:
      `Reads a text file: at most ${MAX_LINES} lines or ${
        MAX_RESULT_BYTES / 1024
      } KiB, unchanged, after a line with the range, the total ` +
      "and how to continue. Shows an image (PNG, JPEG, GIF, WebP).",
    properties: {
      path: { type: "string", description: "From the workspace." },
      start_line: { type: "integer", minimum: 1, description: "Default: 1." },
      end_line: {
        type: "integer",
        minimum: 1,
        description: "Inclusive. Default: as many as fit.",
      },
    },
    required: ["path"],
    stance: "rederivable",
    reads: "path",
    effects: ({ path }) => effectsOn(path, { ...limits, workspace, as: "reads" }),
    attempt: ({ path }) => `read ${JSON.stringify(path)}`,
    async run({ path, start_line: start = 1, end_line: end = Infinity }, context) {
      if (end < start) throw new ToolRefusal(`end_line ${end} comes before start_line ${start}.`);
      const place = await resolveInWorkspace(workspace, path, limits);
      assertAllowed(context, place.absolute, "reads");
      const info = await statFile(place, context);
      const image = await readImage(place.absolute, info, context);
      if (image) return image;
      const blocks = readText(place.absolute, info, context);
      const page = await readPage(blocks, { start, end });
      if (start > Math.max(1, page.total)) {
        throw new ToolRefusal(`start_line ${start} is after its last line, ${page.total}.`);
      }
      return [header(page, start, end), ...page.lines].join("\n");
    },
  });
}

interface Page {
  readonly lines: readonly string[];
  readonly total: number;
  readonly notes: readonly string[];
}

interface Range {
  readonly start: number;
  readonly end: number;
}

async function readPage(blocks: AsyncIterable<TextBlock>, { start, end }: Range): Promise<Page> {
  const lines: string[] = [];
  const last = Math.min(end, start + MAX_LINES - 1);
  let bytes = 0;
  let total = 0;
  let full = false;
  let anyReplaced = false;
  let endsInNewline = true;
  for await (const block of blocks) {
    const first = total + 1;
    total += countLines(block.bytes);
    endsInNewline = block.droppedBytes > 0 || block.bytes.at(-1) === 10;
    if (full || total < start || first > last) continue;
    const { text, replaced } = decodeText(block.bytes);
    anyReplaced ||= replaced;
    const blockLines = text.split("\n");
    for (let at = Math.max(0, start - first); at < total - first + 1 && first + at <= last; at++) {
      const line = cutLine(blockLines[at] ?? "", block.droppedBytes);
      bytes += byteLength(line) + 1;
      full = bytes > MAX_RESULT_BYTES && lines.length > 0;
      if (full) break;
      lines.push(line);
    }
  }
  const crlf = lines.length > 0 && lines.every((line) => line.endsWith("\r"));
  const notes: string[] = [];
  if (crlf) notes.push("CRLF line ends");
  if (anyReplaced && lines.some((line) => line.includes("\uFFFD"))) {
    notes.push("invalid UTF-8 or NUL shown as \uFFFD");
  }
  if (start + lines.length > total && !endsInNewline) notes.push("no newline at the end");
  return { lines: crlf ? lines.map((line) => line.slice(0, -1)) : lines, total, notes };
}

function header({ lines, total, notes }: Page, start: number, end: number): string {
  const last = start + lines.length - 1;
  const range = lines.length === 0 ? "0-0" : `${start}-${last}`;
  const next = last < Math.min(end, total) ? [`cut to fit: continue with start_line ${last + 1}`] : [];
  const all = [...next, ...notes];
  return `lines ${range} of ${total}` + (all.length > 0 ? ` (${all.join("; ")})` : "");
}

function cutLine(line: string, droppedBytes: number): string {
  if (line.length <= MAX_LINE_CHARS && droppedBytes === 0) return line;
  const visible = sliceText(line, 0, MAX_LINE_CHARS);
  return `${visible}… [line cut: ${byteLength(line) - byteLength(visible) + droppedBytes} more bytes]`;
}

function countLines(bytes: Uint8Array): number {
  let lines = 0;
  let at = 0;
  while (at < bytes.length) {
    const newline = bytes.indexOf(10, at);
    lines++;
    if (newline < 0) break;
    at = newline + 1;
  }
  return lines;
}

const NAMES = /\.(?:png|jpe?g|gif|webp)$/i;

/**
 * Returns a file as an image if its name and first bytes match, else `undefined`.
 *
 * @throws {ToolRefusal} if the model doesn't accept images, or it is too large; system errors if it can't be
 * read.
 */
async function readImage(
  absolute: string,
  { size }: Pick<Stats, "size">,
  { supportsImages = false, progress }: ToolContext,
): Promise<ToolOutput | undefined> {
  if (!NAMES.test(absolute)) return undefined;
  const file = await openAt(absolute);
  try {
    const room = Buffer.alloc(Math.min(size, MAX_IMAGE_BYTES));
    const { bytesRead } = await file.read(room, 0, room.length, 0);
    const bytes = room.subarray(0, bytesRead);
    const head = imageHead(bytes);
    if (!head) return undefined;
    const what = describeImage(head, size);
    if (!supportsImages) throw new ToolRefusal(`it is a ${what}, and this model accepts no images.`);
    if (!isImageAccepted(head, size)) {
      throw new ToolRefusal(
        `it is a ${what}; at most ${MAX_IMAGE_BYTES} bytes and ${MAX_IMAGE_SIDE} pixels a side can be shown. Make a smaller copy ` +
          "with shell, such as magick a.png -resize 1600x1600 b.png.",
      );
    }
    progress();
    const url = `data:${head.type};base64,${bytes.toString("base64")}`;
    return { content: what, error: false, images: [url] };
  } finally {
    await file.close();
  }
}
