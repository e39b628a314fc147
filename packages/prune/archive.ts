import type { Message } from "@tare/messages";
import { checkGiven, reasonOf } from "@tare/messages/internal";

/**
 * Content-addressed storage of elided originals: the reference depends on the text alone (see
 * {@linkcode archiveRef}), so that putting a text again is harmless and nothing is overwritten.
 */
export interface Archive {
  /**
   * Stores a text and resolves to its reference once it is durable.
   *
   * @throws {Error} if it can't be stored, or if the reference has other content.
   */
  put(content: string): Promise<string>;
  /**
   * Returns the text under a reference, with every code unit; `undefined` if there is none.
   *
   * @throws {Error} if it can't be read or is damaged.
   */
  get(ref: string): Promise<string | undefined>;
  /**
   * Returns all references of one conversation, oldest first, which recall searches even without visible
   * placeholders, as after a compaction by the client. Not for an archive that several conversations share.
   * Default: only originals of visible placeholders are searched.
   */
  refs?(): readonly string[] | Promise<readonly string[]>;
}

/**
 * Returns an archive in a map from reference to text. Default: a new map.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { memoryArchive } from "@tare/prune";
 *
 * const archive = memoryArchive();
 * const ref = await archive.put("a long result");
 * assertEquals(await archive.get(ref), "a long result");
 * ```
 */
export function memoryArchive(contents: Map<string, string> = new Map()): Archive {
  return {
    async put(content) {
      const ref = await archiveRef(content);
      if ((contents.get(ref) ?? content) !== content) {
        throw new Error(`Cannot archive a text under ${ref}: this reference already has other content`);
      }
      contents.set(ref, content);
      return ref;
    },
    get: (ref) => Promise.resolve(contents.get(ref)),
  };
}

/** Options of {@linkcode archiveMessages}. */
export interface ArchiveMessagesOptions {
  readonly archive: Archive;
  readonly purpose: string;
}

/** Reference and text of archived messages. */
export interface ArchivedMessages {
  readonly ref: string;
  readonly text: string;
}

/** Archives messages as JSON lines. @throws {Error} if archiving fails. */
export async function archiveMessages(
  messages: readonly Message[],
  { archive, purpose }: ArchiveMessagesOptions,
): Promise<ArchivedMessages> {
  const text = messages.map((message) => JSON.stringify({ ...message, carried: undefined })).join("\n");
  return { ref: await archiveText(text, archive, `${messages.length} messages to ${purpose}`), text };
}

/**
 * Archives a text and returns its reference. @throws {Error} with `what` in its message, if archiving fails.
 */
export async function archiveText(text: string, archive: Archive, what: string): Promise<string> {
  try {
    return await archive.put(text);
  } catch (cause) {
    throw new Error(`Cannot archive ${what}: ${reasonOf(cause)}`, { cause });
  }
}

/**
 * Returns the archive reference of a text: the first 16 hex digits of the SHA-256 of its UTF-8 bytes (see
 * {@linkcode bytesFromText} for texts with lone surrogates).
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
  checkGiven("archiveRef()", { content }, { content: "string" });
  const digest = await crypto.subtle.digest("SHA-256", bytesFromText(content));
  // toHex() needs Node.js 25.
  return Array.from(new Uint8Array(digest, 0, 8), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Returns whether a text has the form of an archive reference: 16 lower-case hex digits. */
export function isArchiveRef(text: string): boolean {
  return /^[0-9a-f]{16}$/.test(text);
}

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** Returns a text as WTF-8 bytes, which preserve lone surrogates, for {@linkcode textFromBytes}. */
export function bytesFromText(text: string): Uint8Array<ArrayBuffer> {
  if (text.isWellFormed()) return encoder.encode(text);
  const bytes = new Uint8Array(text.length * 3);
  let length = 0;
  // With the flag u the class matches only lone surrogates; the group keeps them in the split, at odd
  // indices.
  for (const [place, piece] of text.split(/([\ud800-\udfff])/u).entries()) {
    if (place % 2 === 0) {
      length += encoder.encodeInto(piece, bytes.subarray(length)).written;
    } else {
      const unit = piece.charCodeAt(0);
      bytes.set([0xed, 0x80 | (unit >> 6 & 0x3f), 0x80 | (unit & 0x3f)], length);
      length += 3;
    }
  }
  return bytes.slice(0, length);
}

/** Returns the text of {@linkcode bytesFromText}; invalid bytes become U+FFFD. */
export function textFromBytes(bytes: Uint8Array<ArrayBuffer>): string {
  let text = "";
  let from = 0;
  for (let at = bytes.indexOf(0xed); at >= 0; at = bytes.indexOf(0xed, at + 1)) {
    // 0xED is always a first byte, and only a surrogate has a second byte from 0xA0 up.
    const [, second = 0, third = 0] = bytes.subarray(at, at + 3);
    if (second < 0xa0) continue;
    text += decoder.decode(bytes.subarray(from, at));
    text += String.fromCharCode(0xd000 | (second & 0x3f) << 6 | (third & 0x3f));
    from = at + 3;
  }
  return text + decoder.decode(bytes.subarray(from));
}
