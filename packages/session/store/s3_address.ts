/**
 * Returns the address of a bucket.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { s3Address } from "@tare/session/internal";
 *
 * const { href } = s3Address({ bucket: "archive", region: "eu-central-1" });
 * assertEquals(href, "https://archive.s3.eu-central-1.amazonaws.com/");
 * ```
 */
export function s3Address({ bucket, region, endpoint }: {
  readonly bucket: string;
  readonly region: string;
  readonly endpoint?: string;
}): URL {
  if (endpoint !== undefined) return new URL(`${endpoint.replace(/\/$/, "")}/${bucket}/`);
  const host = `s3.${region}.amazonaws.com`;
  // Amazon's wildcard certificate covers one label only.
  return new URL(bucket.includes(".") ? `https://${host}/${bucket}/` : `https://${bucket}.${host}/`);
}
