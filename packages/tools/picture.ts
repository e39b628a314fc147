import type { pictureHead } from "@tare/messages/internal";

/** Most bytes of a picture that every provider takes: as base64 no more than 5 MB. */
export const MAX_PICTURE_BYTES = 3_750_000;

/** Longest side of a picture that every provider takes, in pixels. */
export const MAX_PICTURE_SIDE = 8_000;

type PictureHead = NonNullable<ReturnType<typeof pictureHead>>;

/** Describes a picture to the model: its kind and how large it is. */
export function describeImage({ type, width, height }: PictureHead, bytes: number): string {
  return `${type.replace("image/", "").toUpperCase()} picture of ${width}×${height} pixels, ${bytes} bytes`;
}

/** Whether every provider takes a picture of this size. */
export function isImageAccepted({ width, height }: PictureHead, bytes: number): boolean {
  return bytes <= MAX_PICTURE_BYTES && Math.max(width, height) <= MAX_PICTURE_SIDE;
}
