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
  /** Forgets the text under a reference, if there is one. */
  delete(ref: string): Promise<void>;
}
