/** A hash of a sequence of integers: two 32-bit multiplicative hashes, of which 53 bits are kept. Not for secrets. */
export class RunningHash {
  #a = 0x9e3779b1;
  #b = 0x85ebca6b;

  /** Adds the low 32 bits of a number. */
  add(number: number): void {
    this.#a = Math.imul(this.#a ^ number, 0x01000193);
    this.#b = Math.imul(this.#b ^ number, 0x5bd1e995);
    this.#b ^= this.#b >>> 15;
  }

  /** Adds the code units of a text. */
  addText(text: string): void {
    for (let i = 0; i < text.length; i++) this.add(text.charCodeAt(i));
  }

  /** The hash of all that was added, from 0 to 2⁵³ − 1. */
  value(): number {
    return (this.#a >>> 0) * 0x200000 + (this.#b >>> 11);
  }
}
