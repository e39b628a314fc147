import type { Message } from "@tare/messages";
import { checkGiven, reasonOf } from "@tare/messages/internal";

/**
 * Where the originals of elided texts are kept. Content-addressed: the reference of a text depends on the text
 * alone (see {@linkcode archiveRef}), so putting the same text again is harmless and nothing is ever overwritten.
 */
export interface Archive {
  /**
   * Keeps a text and resolves to its reference once it is safe.
   *
   * @throws {Error} if it can't be kept, or if other content stands under the same reference.
   */
  put(content: string): Promise<string>;
  /**
   * The text under a reference, every code unit as it was put; `undefined` if there is none.
   *
   * @throws {Error} if there is one but it can't be read unharmed.
   */
  get(ref: string): Promise<string | undefined>;
  /**
   * Returns the references of all texts that were archived for one conversation, the oldest first. Recall searches them
   * even where no placeholder is visible any more, as after a compaction by the client. An archive that several
   * conversations share must not have it. Default: only what visible placeholders stand for can be searched.
   */
  refs?(): readonly string[] | Promise<readonly string[]>;
}

/**
 * An archive in a map from reference to text; the map that is handed in, or a new one.
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
        throw new Error(`Cannot archive a text under ${ref}: other content stands there`);
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
  /** What they are archived for, as an error reports it: `Cannot archive 3 messages to drop: …`. */
  readonly purpose: string;
}

/** Messages in an archive: their reference, and the text under it. */
export interface ArchivedMessages {
  readonly ref: string;
  readonly text: string;
}

/** Archives messages as JSON lines. @throws {Error} if they can't be archived. */
export async function archiveMessages(
  messages: readonly Message[],
  { archive, purpose }: ArchiveMessagesOptions,
): Promise<ArchivedMessages> {
  // What only its provider reads says nothing to who reads it back.
  const text = messages.map((message) => JSON.stringify({ ...message, carried: undefined })).join("\n");
  return { ref: await archiveText(text, archive, `${messages.length} messages to ${purpose}`), text };
}

/** Archives a text and returns its reference. @throws {Error} with `what` in its message, if it can't be archived. */
export async function archiveText(text: string, archive: Archive, what: string): Promise<string> {
  try {
    return await archive.put(text);
  } catch (cause) {
    throw new Error(`Cannot archive ${what}: ${reasonOf(cause)}`, { cause });
  }
}

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
  checkGiven("archiveRef()", { content }, { content: "string" });
  const digest = await crypto.subtle.digest("SHA-256", bytesFromText(content));
  // Not toHex(): Node has it from 25 on.
  return Array.from(new Uint8Array(digest, 0, 8), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Whether a text has the form of an archive reference: 16 lower-case hex digits. */
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
  // With the flag u the class matches lone surrogates only; the group keeps them in the split, at odd places.
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
