import type { SessionRecord, StoredDocument } from "./port.ts";

/** Returns a value as JSON. @throws {TypeError} if JSON can't represent it. */
export function jsonText(value: unknown): string {
  const json = JSON.stringify(value);
  if (json === undefined) throw new TypeError(`Cannot store a value of type ${typeof value}: it isn't JSON`);
  return json;
}

export function plainRecord({ by, id, kind, createdAtMs, settings, parent }: SessionRecord): unknown {
  return { by, id, kind, createdAtMs, settings, parent };
}

export function plainDocument({ kind, id, sessionId, value }: StoredDocument): unknown {
  return { kind, id, sessionId, value };
}

export function documentJson(document: StoredDocument): string {
  return jsonText(plainDocument(document));
}

/**
 * Returns the results of reading rows, without those whose error `damaged` receives. Default: the first error is
 * thrown.
 */
export function intact<Row extends { readonly id: string }, T>(
  rows: readonly Row[],
  read: (row: Row) => T,
  damaged?: (id: string, error: unknown) => void,
): T[] {
  return rows.flatMap((row) => {
    try {
      return [read(row)];
    } catch (error) {
      if (!damaged) throw error;
      damaged(nameIn(row.id), error);
      return [];
    }
  });
}

/** Returns a text as it is searched for in stored JSON that is {@linkcode folded}. */
export function searchedJson(text: string): string {
  return folded(jsonText(text).slice(1, -1));
}

/**
 * Returns a text without distinction of case, character by character, so that parts match. All stores fold titles this
 * way.
 */
export function folded(text: string): string {
  return text.replaceAll(/[\p{Changes_When_Lowercased}ς]/gu, foldedLetter);
}

function foldedLetter(letter: string): string {
  if (letter === "ς") return "σ";
  const small = letter.toLowerCase();
  return small.length === letter.length ? small : letter;
}

/** Returns all letters that {@linkcode folded} changes, and their folded forms in the same order. */
export function foldedLetters(): { readonly letters: string; readonly folded: string } {
  const all = { letters: "ς", folded: "σ" };
  for (let code = 0x41; code < 0x20000; code++) {
    const letter = String.fromCodePoint(code);
    if (letter.toLowerCase() === letter) continue;
    const small = foldedLetter(letter);
    if (small === letter) continue;
    all.letters += letter;
    all.folded += small;
  }
  return all;
}

/** Returns a name as a column stores it, as JSON: database texts support neither U+0000 nor lone surrogates. */
export function columnText(name: string): string {
  return jsonText(name).slice(1, -1);
}

export function nameIn(column: string): string {
  return JSON.parse(`"${column}"`);
}

/** Calls a function synchronously and returns a promise of its result. Promise.try() needs Node 24. */
export function promiseOf<T>(act: () => T | PromiseLike<T>): Promise<T> {
  return new Promise((resolve) => resolve(act()));
}
