import type { ToolContext, ToolOutput } from "@tare/messages";
import { Buffer } from "node:buffer";
import type { Stats } from "node:fs";
import { Refusal } from "../define_tool.ts";
import { openAt } from "./resolve_in_workspace.ts";

/** Names under which pictures are looked for: of any other file a start like theirs is chance. */
const NAMES = /\.(?:png|jpe?g|gif|webp)$/i;

/** Most bytes and longest side of a picture that every provider takes: as base64 no more than 5 MB. */
const MAX_BYTES = 3_750_000;
const MAX_PIXELS = 8_000;

/**
 * A file as a picture, if it is one by its name and its first bytes.
 *
 * @throws {Refusal} if the model isn't shown pictures, or it is too large; what the system throws if it can't be read.
 */
export async function readPicture(
  absolute: string,
  { size }: Pick<Stats, "size">,
  { seesPictures = false, progress }: ToolContext,
): Promise<ToolOutput | undefined> {
  if (!NAMES.test(absolute)) return undefined;
  const file = await openAt(absolute);
  try {
    const start = new Uint8Array(Math.min(size, PICTURE_HEAD_BYTES));
    const { bytesRead } = await file.read(start, 0, start.length, 0);
    const head = pictureHead(start.subarray(0, bytesRead));
    if (!head) return undefined;
    const what = describe(head, size);
    if (!seesPictures) throw new Refusal(`it is a ${what}, and this model is shown no pictures.`);
    if (size > MAX_BYTES || Math.max(head.width, head.height) > MAX_PIXELS) {
      throw new Refusal(
        `it is a ${what}; at most ${MAX_BYTES} bytes and ${MAX_PIXELS} pixels a side can be shown. Make a smaller copy ` +
          "with shell, such as magick a.png -resize 1600x1600 b.png.",
      );
    }
    const bytes = Buffer.alloc(size);
    const { bytesRead: all } = await file.read(bytes, 0, size, 0);
    progress();
    const url = `data:${head.type};base64,${bytes.subarray(0, all).toString("base64")}`;
    return { content: what, error: false, pictures: [url] };
  } finally {
    await file.close();
  }
}

function describe({ type, width, height }: PictureHead, bytes: number): string {
  return `${type.replace("image/", "").toUpperCase()} picture of ${width}×${height} pixels, ${bytes} bytes`;
}

/** A picture, as far as its first bytes tell. */
interface PictureHead {
  readonly type: "image/png" | "image/jpeg" | "image/gif" | "image/webp";
  /** In pixels. */
  readonly width: number;
  readonly height: number;
}

/** So many of a picture's first bytes tell how large it is, unless a camera has written much in front. */
const PICTURE_HEAD_BYTES = 256 * 1024;

/** What a file's first bytes say of the picture that it holds; nothing if it is none of the kinds that models look at. */
export function pictureHead(bytes: Uint8Array): PictureHead | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const has = (at: number, text: string) =>
    bytes.length >= at + text.length &&
    [...text].every((one, index) => bytes[at + index] === one.charCodeAt(0));
  if (has(0, "\x89PNG\r\n\x1a\n") && bytes.length >= 24) {
    return { type: "image/png", width: view.getUint32(16), height: view.getUint32(20) };
  }
  if ((has(0, "GIF87a") || has(0, "GIF89a")) && bytes.length >= 10) {
    return { type: "image/gif", width: view.getUint16(6, true), height: view.getUint16(8, true) };
  }
  if (has(0, "RIFF") && has(8, "WEBP") && bytes.length >= 30) return webpHead(bytes, view, has);
  return has(0, "\xff\xd8\xff") ? jpegHead(view) : undefined;
}

function webpHead(
  bytes: Uint8Array,
  view: DataView,
  has: (at: number, text: string) => boolean,
): PictureHead | undefined {
  const type = "image/webp";
  if (has(12, "VP8X")) {
    const size = (at: number) => 1 + bytes[at]! + (bytes[at + 1]! << 8) + (bytes[at + 2]! << 16);
    return { type, width: size(24), height: size(27) };
  }
  if (has(12, "VP8L")) {
    const bits = view.getUint32(21, true);
    return { type, width: 1 + (bits & 0x3fff), height: 1 + ((bits >> 14) & 0x3fff) };
  }
  if (!has(12, "VP8 ")) return undefined;
  return { type, width: view.getUint16(26, true) & 0x3fff, height: view.getUint16(28, true) & 0x3fff };
}

/** A JPEG is a row of segments, one of which begins its frame and says how large that is. */
function jpegHead(view: DataView): PictureHead | undefined {
  for (let at = 2; at + 9 <= view.byteLength;) {
    if (view.getUint8(at) !== 0xff) return undefined;
    const marker = view.getUint8(at + 1);
    const isFrame = marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker);
    if (isFrame) return { type: "image/jpeg", width: view.getUint16(at + 7), height: view.getUint16(at + 5) };
    // Bytes in between fill up.
    at += marker === 0xff ? 1 : 2 + view.getUint16(at + 2);
  }
  return undefined;
}
