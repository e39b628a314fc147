import type { imageHead } from "@tare/messages/internal";

/** Maximum size of an image that every provider accepts, in bytes: 5 MB as base64. */
export const MAX_IMAGE_BYTES = 3_750_000;

/** Maximum side of an image that every provider accepts, in pixels. */
export const MAX_IMAGE_SIDE = 8_000;

type ImageHead = NonNullable<ReturnType<typeof imageHead>>;

/** Returns the type and size of an image, for the model. */
export function describeImage({ type, width, height }: ImageHead, bytes: number): string {
  return `${type.replace("image/", "").toUpperCase()} image of ${width}×${height} pixels, ${bytes} bytes`;
}

export function isImageAccepted({ width, height }: ImageHead, bytes: number): boolean {
  return bytes <= MAX_IMAGE_BYTES && Math.max(width, height) <= MAX_IMAGE_SIDE;
}
