/** Text of bytes that need not be valid. */
export interface DecodedText {
  readonly text: string;
  /** True if bytes that are no UTF-8, or NUL, were replaced by U+FFFD. */
  readonly replaced: boolean;
}

const strict = new TextDecoder("utf-8", { fatal: true });
const lenient = new TextDecoder();

/**
 * Decodes UTF-8. What is not valid, and NUL characters, which providers refuse, become U+FFFD; a byte order mark at
 * the start is left out.
 */
export function decodeText(bytes: Uint8Array): DecodedText {
  let text: string;
  let replaced = false;
  try {
    text = strict.decode(bytes);
  } catch {
    text = lenient.decode(bytes);
    replaced = true;
  }
  return text.includes("\0") ? { text: text.replaceAll("\0", "\uFFFD"), replaced: true } : { text, replaced };
}
