/** Length of a piece in UTF-16 code units, unless the text is so long that there would be too many pieces. */
const PIECE_CHARS = 24;

const MAX_PIECES = 64;

/** Cuts a text into pieces as a streaming provider would, always the same for the same text, surrogate pairs whole. */
export function splitText(text: string): string[] {
  const pieceChars = Math.max(PIECE_CHARS, Math.ceil(text.length / MAX_PIECES));
  const pieces: string[] = [];
  for (let start = 0; start < text.length;) {
    let end = start + pieceChars;
    if (/[\uD800-\uDBFF]/.test(text.charAt(end - 1))) end++;
    pieces.push(text.slice(start, end));
    start = end;
  }
  return pieces;
}
