/** Bytes that come in pieces, however small, in memory in proportion to their number. */
export class GrowingBytes {
  #bytes: Uint8Array<ArrayBuffer> = new Uint8Array();
  #length = 0;

  /** How many there are. */
  get length(): number {
    return this.#length;
  }

  /** The byte at a place, or from the end if that is negative; nothing where there is none. */
  at(place: number): number | undefined {
    const at = place < 0 ? this.#length + place : place;
    return at < this.#length ? this.#bytes[at] : undefined;
  }

  /** Adds bytes at the end. */
  add(bytes: Uint8Array<ArrayBuffer>): void {
    const length = this.#length + bytes.length;
    if (length > this.#bytes.length) {
      const grown = new Uint8Array(Math.max(length, 2 * this.#bytes.length));
      grown.set(this.#bytes.subarray(0, this.#length));
      this.#bytes = grown;
    }
    this.#bytes.set(bytes, this.#length);
    this.#length = length;
  }

  /** Gives all of them, and begins anew. */
  take(): Uint8Array<ArrayBuffer> {
    const bytes = this.#bytes.subarray(0, this.#length);
    this.#bytes = new Uint8Array();
    this.#length = 0;
    return bytes;
  }
}
