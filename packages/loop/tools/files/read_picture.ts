import { Buffer } from "node:buffer";
import {
  PICTURE_HEAD_BYTES,
  type PictureHead,
  pictureHead,
  type ToolContext,
  type ToolOutput,
} from "@tare/messages";
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
