import { Buffer } from "node:buffer";
import type { Stats } from "node:fs";
import type { Tool, ToolContext, ToolOutput } from "@tare/messages";
import { imageHead } from "@tare/messages/internal";
import { defineTool, refusalReason, ToolRefusal } from "../define_tool.ts";
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

type FilePart = { readonly path: string; readonly start_line?: number; readonly end_line?: number };
type ReadFileArguments = FilePart & { readonly also?: readonly FilePart[] };

const MAX_LINES = 1000;
const MAX_LINE_CHARS = 2000;
const MAX_ALSO = 31;

/**
 * Returns `read_file`, which returns lines of text files unchanged. A first line such as `lines 1-200 of 345`
 * precedes them; if a call reads several parts, it follows the heading of each: `==> a.ts <==`. The parts
 * share the limits of one result. Memory is constant for files of any size.
 */
export function readFileTool(workspace: string, limits: WorkspaceLimits = {}): Tool {
  const readPart = async ({ path, ...lines }: FilePart, context: ToolContext): Promise<Image | Page> => {
    const { start_line: start = 1, end_line: end = Infinity } = lines;
    if (start < 1) throw new ToolRefusal(`start_line ${start} must be at least 1.`);
    if (end < start) throw new ToolRefusal(`end_line ${end} comes before start_line ${start}.`);
    const place = await resolveInWorkspace(workspace, path, limits);
    assertAllowed(context, place.absolute, "reads");
    const info = await statFile(place, context);
    const image = await readImage(place.absolute, info, context);
    if (image) return image;
    const page = await readPage(readText(place.absolute, info, context), { start, end });
    if (start > Math.max(1, page.total)) {
      throw new ToolRefusal(`start_line ${start} is after its last line, ${page.total}.`);
    }
    return page;
  };
  return defineTool<ReadFileArguments>({
    name: "read_file",
    description:
      `Reads text files: at most ${MAX_LINES} lines or ${
        MAX_RESULT_BYTES / 1024
      } KiB per call, unchanged, after a line with the range, the total and how to continue. Shows images ` +
      "(PNG, JPEG, GIF, WebP).",
    properties: {
      path: { type: "string", description: "From the workspace." },
      start_line: { type: "integer", minimum: 1, description: "Default: 1." },
      end_line: { type: "integer", minimum: 1, description: "Inclusive. Default: as many as fit." },
      also: {
        type: "array",
        description: "Other files and ranges that you know you need.",
        maxItems: MAX_ALSO,
        items: {
          type: "object",
          properties: {
            path: { type: "string" },
            start_line: { type: "integer" },
            end_line: { type: "integer" },
          },
          required: ["path"],
          additionalProperties: false,
        },
      },
    },
    required: ["path"],
    stance: "rederivable",
    reads: "path",
    async effects({ path, also = [] }) {
      const found = await Promise.allSettled(
        [path, ...also.map(({ path }) => path)].map((path) =>
          effectsOn(path, { ...limits, workspace, as: "reads" })
        ),
      );
      // The call refuses only the other paths.
      const effects = found.flatMap((one) => one.status === "fulfilled" ? [one.value] : []);
      const [first] = effects;
      if (!first) throw found.find((one) => one.status === "rejected")?.reason;
      return { root: first.root, reads: [...new Set(effects.flatMap(({ reads = [] }) => reads))] };
    },
    attempt: ({ path }) => `read ${JSON.stringify(path)}`,
    async run({ also = [], ...first }, context) {
      if (also.length > 0) return await readParts([first, ...also], { context, readPart });
      const found = await readPart(first, context);
      return "url" in found ? { content: found.text, error: false, images: [found.url] } : pageText(found);
    },
  });
}

/** Reads parts in order. A refused one reports its error and doesn't affect the others. */
async function readParts(
  parts: readonly FilePart[],
  { context, readPart }: {
    readonly context: ToolContext;
    readonly readPart: (part: FilePart, context: ToolContext) => Promise<Image | Page>;
  },
): Promise<ToolOutput> {
  const found: (Image | Page | { readonly problem: string })[] = [];
  const images: string[] = [];
  let imageBytes = 0;
  for (const part of parts) {
    try {
      const one = await readPart(part, context);
      if ("url" in one) {
        imageBytes += one.bytes;
        if (imageBytes > MAX_IMAGE_BYTES) {
          throw new ToolRefusal(
            `the images of one call may have ${MAX_IMAGE_BYTES} bytes in all. Read it in another call.`,
          );
        }
        images.push(one.url);
      }
      found.push(one);
    } catch (error) {
      found.push({ problem: `Cannot read ${JSON.stringify(part.path)}: ${refusalReason(error)}` });
    }
  }
  const pages = fitPages(found.map((one) => "lines" in one ? one : undefined));
  const sections = found.map((one, at) => {
    const page = pages[at];
    const text = page ? pageText(page) : "problem" in one ? one.problem : "text" in one ? one.text : "";
    return `==> ${parts[at]!.path} <== ${text}`;
  });
  return {
    content: sections.join("\n"),
    error: found.every((one) => "problem" in one),
    ...(images.length > 0 && { images }),
  };
}

interface Page extends Range {
  readonly lines: readonly string[];
  readonly total: number;
  readonly anyReplaced: boolean;
  readonly endsInNewline: boolean;
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
  return { start, end, lines, total, anyReplaced, endsInNewline };
}

/** Cuts pages so that all fit in one result: each gets an equal share of what smaller ones leave. */
function fitPages(pages: readonly (Page | undefined)[]): readonly (Page | undefined)[] {
  const sizes = pages.map((page) => (page?.lines ?? []).map((line) => byteLength(line) + 1));
  const rooms = {
    bytes: fairShares(sizes.map((lines) => lines.reduce((sum, bytes) => sum + bytes, 0)), MAX_RESULT_BYTES),
    lines: fairShares(sizes.map(({ length }) => length), MAX_LINES),
  };
  return pages.map((page, at) => {
    if (!page) return undefined;
    let bytes = 0;
    const beyond = sizes[at]!.findIndex((size, line) =>
      (bytes += size) > rooms.bytes[at]! || line === rooms.lines[at]
    );
    return beyond < 0 ? page : { ...page, lines: page.lines.slice(0, beyond) };
  });
}

/** Returns max-min fair shares of a limit. */
function fairShares(needs: readonly number[], limit: number): readonly number[] {
  const shares = [...needs];
  let left = limit;
  for (const [at, [index, need]] of [...needs.entries()].sort(([, a], [, b]) => a - b).entries()) {
    shares[index] = Math.min(need, Math.floor(left / (needs.length - at)));
    left -= shares[index];
  }
  return shares;
}

function pageText({ start, end, lines, total, anyReplaced, endsInNewline }: Page): string {
  const last = start + lines.length - 1;
  const crlf = lines.length > 0 && lines.every((line) => line.endsWith("\r"));
  const notes: string[] = [];
  if (last < Math.min(end, total)) notes.push(`cut to fit: continue with start_line ${last + 1}`);
  if (crlf) notes.push("CRLF line ends");
  if (anyReplaced && lines.some((line) => line.includes("\uFFFD"))) {
    notes.push("invalid UTF-8 or NUL shown as \uFFFD");
  }
  if (last >= total && !endsInNewline) notes.push("no newline at the end");
  const range = lines.length === 0 ? "0-0" : `${start}-${last}`;
  const header = `lines ${range} of ${total}` + (notes.length > 0 ? ` (${notes.join("; ")})` : "");
  return [header, ...crlf ? lines.map((line) => line.slice(0, -1)) : lines].join("\n");
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

interface Image {
  /** Description for the model. */
  readonly text: string;
  readonly url: string;
  readonly bytes: number;
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
): Promise<Image | undefined> {
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
    return { text: what, url: `data:${head.type};base64,${bytes.toString("base64")}`, bytes: size };
  } finally {
    await file.close();
  }
}
