import { createHash } from "node:crypto";
import { type JsonReader, type KnownPiece, type PieceToRead, readJsonAt } from "@tare/wire";

/**
 * Remembers what was read of pieces of JSON by their bytes. A client that sends its whole history again so costs only
 * what is new of it: all that others remember of a message object (tokens, hashes, names) is found again too.
 * Keeps pieces of at most `maxBytes` bytes together, those used last.
 */
export class KnownJson<T> implements JsonReader<T> {
  readonly #maxBytes: number;
  /** In order of their last use. */
  readonly #pieces = new Map<string, { readonly piece: KnownPiece<T>; readonly bytes: number }>();
  #bytes = 0;

  /** Nothing is known yet. */
  constructor({ maxBytes }: { readonly maxBytes: number }) {
    this.#maxBytes = maxBytes;
  }

  /** The piece at this place. @throws {SyntaxError} if it is no JSON. @throws whatever `read` throws. */
  read(bytes: Uint8Array<ArrayBuffer>, { start, end, kind, read }: PieceToRead<T>): KnownPiece<T> {
    const key = createHash("sha256").update(kind).update(bytes.subarray(start, end)).digest("base64");
    const known = this.#pieces.get(key);
    if (known) {
      this.#pieces.delete(key);
      this.#pieces.set(key, known);
      return known.piece;
    }
    const piece: KnownPiece<T> = { key, value: read(readJsonAt(bytes, { start, end })) };
    this.#pieces.set(key, { piece, bytes: end - start });
    this.#bytes += end - start;
    for (const [oldest, { bytes }] of this.#pieces) {
      if (this.#bytes <= this.#maxBytes) break;
      this.#pieces.delete(oldest);
      this.#bytes -= bytes;
    }
    return piece;
  }
}
