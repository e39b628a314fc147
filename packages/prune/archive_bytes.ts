const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/**
 * A text as bytes that {@linkcode textFromBytes} turns back into every code unit of it: UTF-8, and lone surrogates,
 * which UTF-8 can't hold and `TextEncoder` silently replaces, in the three bytes that
 * [WTF-8](https://simonsapin.github.io/wtf-8/) gives them.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { bytesFromText, textFromBytes } from "@tare/prune";
 *
 * assertEquals(textFromBytes(bytesFromText("half a pair: \ud83d")), "half a pair: \ud83d");
 * ```
 */
export function bytesFromText(text: string): Uint8Array<ArrayBuffer> {
  if (text.isWellFormed()) return encoder.encode(text);
  const bytes = new Uint8Array(text.length * 3);
  let length = 0;
  // With the flag u the class matches lone surrogates only; the group keeps them in the split, at odd places.
  for (const [place, piece] of text.split(/([\ud800-\udfff])/u).entries()) {
    if (place % 2 === 0) {
      length += encoder.encodeInto(piece, bytes.subarray(length)).written;
    } else {
      const unit = piece.charCodeAt(0);
      bytes.set([0xed, 0x80 | (unit >> 6 & 0x3f), 0x80 | (unit & 0x3f)], length);
      length += 3;
    }
  }
  return bytes.slice(0, length);
}

/**
 * The text that {@linkcode bytesFromText} made these bytes from. In bytes that it can't have made, what is wrong
 * comes out as U+FFFD.
 */
export function textFromBytes(bytes: Uint8Array<ArrayBuffer>): string {
  let text = "";
  let from = 0;
  for (let at = bytes.indexOf(0xed); at >= 0; at = bytes.indexOf(0xed, at + 1)) {
    // 0xED is always a first byte, and only a surrogate has a second byte from 0xA0 up.
    const [, second = 0, third = 0] = bytes.subarray(at, at + 3);
    if (second < 0xa0) continue;
    text += decoder.decode(bytes.subarray(from, at));
    text += String.fromCharCode(0xd000 | (second & 0x3f) << 6 | (third & 0x3f));
    from = at + 3;
  }
  return text + decoder.decode(bytes.subarray(from));
}
