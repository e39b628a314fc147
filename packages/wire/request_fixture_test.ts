/**
 * Fixtures of requests.
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

/** Returns the bytes of a text, or of a value's JSON. */
export function encode(value: unknown): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(typeof value === "string" ? value : JSON.stringify(value));
}

export function decode(...pieces: readonly Uint8Array[]): string {
  return pieces.map((piece) => new TextDecoder().decode(piece)).join("");
}

/** Caches each piece without limit. */
export function remembering<T>(): JsonReader<T> {
  const pieces = new Map<string, ReturnType<JsonReader<T>["read"]>>();
  return {
    read(bytes, { start, end, kind, read, spelling }) {
      const own = kind + decode(bytes.subarray(start, end));
      const same = pieces.get(own);
      if (same) return same;
      const made = read(readJsonAt(bytes, { start, end }));
      const spelled = spelling?.spelled(made);
      const key = spelled === undefined ? own : `${kind} spelled ${spelled}`;
      const alike = pieces.get(key);
      const value = spelling && spelled ? spelling.named(made, spelled) : made;
      const piece = { key, value: alike && spelling ? spelling.adopt(value, alike.value) : value };
      pieces.set(own, piece);
      if (!alike) pieces.set(key, piece);
      return piece;
    },
  };
}

/** Returns readers with empty caches. */
export function newReaders(): RequestReaders {
  return { items: remembering(), tools: remembering() };
}

export function requestOf(
  body: unknown,
  protocol: Protocol,
  readers: RequestReaders = newReaders(),
): WireRequest {
  return readRequest(readWireBody(encode(body)), protocol, readers);
}

/** Returns a prompt with these messages replaced by position; `null` evicts. */
export function visible(
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
