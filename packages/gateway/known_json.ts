import { createHash } from "node:crypto";
import { LRUCache } from "lru-cache";
import { type JsonReader, type KnownPiece, type PieceToRead, readJsonAt } from "@tare/wire";

/** What a piece takes beside its text, in bytes. */
const PIECE_BYTES = 500;

/**
 * Remembers what was read of pieces of JSON by their bytes. A client that sends its whole history again so costs only
 * what is new of it: all that others remember of a message object (tokens, hashes, names) is found again too.
 * Keeps what takes at most `maxBytes` bytes of memory, as far as texts go; what was used last.
 */
export class KnownJson<T> implements JsonReader<T> {
  readonly #pieces: LRUCache<string, KnownPiece<T>>;

  /** Nothing is known yet. */
  constructor({ maxBytes }: { readonly maxBytes: number }) {
    this.#pieces = new LRUCache({ maxSize: maxBytes });
  }

  /** The piece at this place. @throws {SyntaxError} if it is no JSON. @throws whatever `read` throws. */
  read(bytes: Uint8Array<ArrayBuffer>, { start, end, kind, read }: PieceToRead<T>): KnownPiece<T> {
    const key = createHash("sha256").update(kind).update(bytes.subarray(start, end)).digest("base64");
    const known = this.#pieces.get(key);
    if (known) return known;
    const piece: KnownPiece<T> = { key, value: read(readJsonAt(bytes, { start, end })) };
    this.#pieces.set(key, piece, { size: PIECE_BYTES + 2 * (end - start) });
    return piece;
  }
}
