/**
 * Requests for the tests of this package. Holds no tests.
 *
 * @module
 */
import {
  type JsonReader,
  type KnownPiece,
  type Protocol,
  readBody,
  readJsonAt,
  readRequest,
  type RequestReaders,
  type WireRequest,
} from "@tare/wire";

/** The bytes of a text, or of a value's JSON. */
export function encode(value: unknown): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(typeof value === "string" ? value : JSON.stringify(value));
}

/** The text of these pieces. */
export function decode(...pieces: readonly Uint8Array[]): string {
  return pieces.map((piece) => new TextDecoder().decode(piece)).join("");
}

/** Remembers each piece for ever. */
export function remembering<T>(): JsonReader<T> {
  const pieces = new Map<string, KnownPiece<T>>();
  return {
    read(bytes, { start, end, kind, read }) {
      const key = kind + decode(bytes.subarray(start, end));
      const piece = pieces.get(key) ?? { key, value: read(readJsonAt(bytes, { start, end })) };
      pieces.set(key, piece);
      return piece;
    },
  };
}

/** Readers that know nothing yet. */
export function newReaders(): RequestReaders {
  return { items: remembering(), tools: remembering() };
}

/** A request with this body. */
export function requestOf(
  body: unknown,
  protocol: Protocol,
  readers: RequestReaders = newReaders(),
): WireRequest {
  return readRequest(readBody(encode(body)), protocol, readers);
}
