import { createHash } from "node:crypto";
import { readJsonAt, type Span } from "./json_spans.ts";

/** A piece of JSON that was read. */
export interface KnownPiece<T> {
  /** Names its bytes: SHA-256, base64. */
  readonly key: string;
  /** What was made of it: the same object whenever the same bytes come again. */
  readonly value: T;
}

/** Where a piece of JSON stands, and what is to be made of it. */
export interface PieceToRead<T> extends Span {
  /** Keeps apart what is read in different ways. */
  readonly kind: string;
  /** Makes of the JSON what is remembered of it. */
  readonly read: (value: unknown) => T;
}

/**
 * Remembers what was read of pieces of JSON by their bytes. A client that sends its whole history again so costs only
 * what is new of it: all that others remember of a message object (tokens, hashes, names) is found again too.
 * Keeps pieces of at most `maxBytes` bytes together, those used last.
 */
export class KnownJson<T> {
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
