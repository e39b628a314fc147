import type { SessionRecord, StoredDocument } from "./port.ts";

/** What a store keeps of a value: its JSON. @throws {TypeError} if JSON can't hold it. */
export function jsonText(value: unknown): string {
  const json = JSON.stringify(value);
  if (json === undefined) throw new TypeError(`Cannot store a value of type ${typeof value}: it is no JSON`);
  return json;
}

/** A session's record as it is stored. */
export function plainRecord({ by, id, kind, createdAtMs, settings, parent }: SessionRecord): unknown {
  return { by, id, kind, createdAtMs, settings, parent };
}

/** The JSON of a document as it is stored. */
export function documentJson({ kind, id, sessionId, value }: StoredDocument): string {
  return jsonText({ kind, id, sessionId, value });
}

/** A text as it stands in stored JSON, A to Z as a to z, as SQLite's `lower` makes them. */
export function searchedJson(text: string): string {
  return lowerCase(jsonText(text).slice(1, -1));
}

/** A text with A to Z as a to z. */
export function lowerCase(text: string): string {
  return text.replaceAll(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

/** A name as a column holds it: as JSON writes it, since a database's text has neither U+0000 nor half a character. */
export function columnText(name: string): string {
  return jsonText(name).slice(1, -1);
}

/** The name that a column holds. */
export function nameIn(column: string): string {
  return JSON.parse(`"${column}"`);
}

/** What a function gives or throws, as a promise; it has run when this returns. Not Promise.try(): Node has it from 24 on. */
export function promiseOf<T>(act: () => T | PromiseLike<T>): Promise<T> {
  return new Promise((resolve) => resolve(act()));
}
