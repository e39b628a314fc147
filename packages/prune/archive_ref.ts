import { bytesFromText } from "./archive_bytes.ts";

/**
 * The reference under which an archive keeps a text: the first 16 hex digits of the SHA-256 of its UTF-8 bytes
 * (see {@linkcode bytesFromText} for texts that UTF-8 can't hold).
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { archiveRef } from "@tare/prune";
 *
 * assertEquals(await archiveRef("hello"), "2cf24dba5fb0a30e");
 * ```
 */
export async function archiveRef(content: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", bytesFromText(content));
  return new Uint8Array(digest, 0, 8).toHex();
}

/** Whether a text has the form of an archive reference: 16 lower-case hex digits. */
export function isArchiveRef(text: string): boolean {
  return /^[0-9a-f]{16}$/.test(text);
}
