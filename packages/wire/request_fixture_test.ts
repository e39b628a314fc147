/**
 * Requests for the tests of this package. Holds no tests.
 *
 * @module
 */
import type { Message } from "@tare/messages";
import {
  type JsonReader,
  type Protocol,
  readJsonAt,
  readRequest,
  readWireBody,
  type RequestReaders,
  type WireRequest,
  type writeRequest,
} from "@tare/wire/internal";

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
  const pieces = new Map<string, ReturnType<JsonReader<T>["read"]>>();
  return {
    read(bytes, { start, end, kind, read, spelling }) {
      const own = kind + decode(bytes.subarray(start, end));
      const same = pieces.get(own);
      if (same) return same;
      const made = read(readJsonAt(bytes, { start, end }));
      const said = spelling?.said(made);
      const key = said === undefined ? own : `${kind} said ${said}`;
      const alike = pieces.get(key);
      const value = spelling && said ? spelling.named(made, said) : made;
      const piece = { key, value: alike && spelling ? spelling.adopt(value, alike.value) : value };
      pieces.set(own, piece);
      if (!alike) pieces.set(key, piece);
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
  return readRequest(readWireBody(encode(body)), protocol, readers);
}

/** A prompt that shows everything, but for these messages in place of those at these positions; `null` leaves. */
export function shown(
  { items, tools = [] }: WireRequest,
  changed: Readonly<Record<number, Partial<Message> | null>> = {},
): Parameters<typeof writeRequest>[1] {
  const all = items.flatMap(({ parts }) => parts.map(({ message }) => message));
  const seen = all.flatMap((message, place) => {
    const change = changed[place];
    if (change === null) return [];
    return [{ place, message: change ? { ...message, ...change } as Message : message }];
  });
  return {
    items,
    messages: seen.map(({ message }) => message),
    places: seen.map(({ place }) => place),
    tools: tools.map(({ definition }) => definition),
  };
}
