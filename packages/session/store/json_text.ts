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

/** Returns a document as it is stored. */
export function plainDocument({ kind, id, sessionId, value }: StoredDocument): unknown {
  return { kind, id, sessionId, value };
}

export function documentJson(document: StoredDocument): string {
  return jsonText(plainDocument(document));
}

/** Returns what is read of rows, without those whose error `damaged` takes. Default: the first error is thrown. */
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
 * Returns a text with letters of either case made the same, whatever the language: each character by itself, so that a
 * part of the text is folded as it is in the whole. Every store folds titles so.
 */
export function folded(text: string): string {
  return text.replaceAll(/[\p{Changes_When_Lowercased}ς]/gu, foldedLetter);
}

/** The capital letters whose small ones are single characters, and the small letter sigma at the end of a word. */
function foldedLetter(letter: string): string {
  if (letter === "ς") return "σ";
  const small = letter.toLowerCase();
  return small.length === letter.length ? small : letter;
}

/** Returns all letters that {@linkcode folded} changes, and in the same order what it makes of them. */
export function foldedLetters(): { readonly letters: string; readonly folded: string } {
  const all = { letters: "ς", folded: "σ" };
  for (let code = 0x41; code < 0x20000; code++) {
    const letter = String.fromCodePoint(code);
    // Most characters have no case, and need no search for a property.
    if (letter.toLowerCase() === letter) continue;
    const small = foldedLetter(letter);
    if (small === letter) continue;
    all.letters += letter;
    all.folded += small;
  }
  return all;
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
