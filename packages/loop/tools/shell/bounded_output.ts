import { decodeText } from "../result_text.ts";

/**
 * Takes output of any length and keeps its beginning and its end, each in a buffer of half of `maxBytes`. Pieces are
 * copied: one that holds a single byte may come in a buffer of many.
 */
export class BoundedOutput {
  readonly #head: Uint8Array;
  #headBytes = 0;
  /** A ring: byte n of what follows the head is at n modulo its length. */
  readonly #tail: Uint8Array;
  #tailBytes = 0;

  constructor(maxBytes: number) {
    const half = Math.ceil(maxBytes / 2);
    this.#head = new Uint8Array(half);
    this.#tail = new Uint8Array(half);
  }

  /** Takes the next piece. */
  push(piece: Uint8Array): void {
    const forHead = piece.subarray(0, this.#head.length - this.#headBytes);
    this.#head.set(forHead, this.#headBytes);
    this.#headBytes += forHead.length;

    const size = this.#tail.length;
    const rest = piece.subarray(forHead.length);
    const kept = rest.subarray(Math.max(0, rest.length - size));
    const at = (this.#tailBytes + rest.length - kept.length) % size;
    const upToEnd = kept.subarray(0, size - at);
    this.#tail.set(upToEnd, at);
    this.#tail.set(kept.subarray(upToEnd.length), 0);
    this.#tailBytes += rest.length;
  }

  /** What was kept, with a line that says how much is left out in the middle, and how many bytes came in all. */
  text(): { readonly text: string; readonly replaced: boolean; readonly totalBytes: number } {
    const totalBytes = this.#headBytes + this.#tailBytes;
    const head = this.#head.subarray(0, this.#headBytes);
    const size = this.#tail.length;
    if (this.#tailBytes <= size) {
      return { ...decodeText(join(head, this.#tail.subarray(0, this.#tailBytes))), totalBytes };
    }
    const at = this.#tailBytes % size;
    const begin = wholeCharacters(head);
    const end = wholeCharacters(join(this.#tail.subarray(at), this.#tail.subarray(0, at)));
    const note = `\n[… ${totalBytes - begin.length - end.length} bytes left out here …]\n`;
    const [first, last] = [decodeText(begin), decodeText(end)];
    return { text: first.text + note + last.text, replaced: first.replaced || last.replaced, totalBytes };
  }
}

function join(a: Uint8Array, b: Uint8Array): Uint8Array {
  const joined = new Uint8Array(a.length + b.length);
  joined.set(a);
  joined.set(b, a.length);
  return joined;
}

/** The bytes without the parts of UTF-8 characters that a cut left at either end. */
function wholeCharacters(bytes: Uint8Array): Uint8Array {
  let start = 0;
  while (start < 3 && isContinuation(bytes[start])) start++;
  let last = bytes.length - 1;
  while (last > bytes.length - 4 && isContinuation(bytes[last])) last--;
  const lead = bytes[last] ?? 0;
  const expected = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
  const end = last + expected > bytes.length ? last : bytes.length;
  return bytes.subarray(start, Math.max(start, end));
}

function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0xC0) === 0x80;
}
