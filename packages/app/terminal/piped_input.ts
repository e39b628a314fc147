/** So much of what is piped in is sent: some 60,000 tokens. */
const MOST_BYTES = 256 * 1024;

/** Where binary data is told from text, in bytes from the start. */
const HEAD_BYTES = 8 * 1024;

/** What was piped in. */
export interface PipedInput {
  readonly text: string;
  /** Whether there was more than is sent. */
  readonly isCut: boolean;
}

/**
 * Reads what is piped in to its end, or as much as is sent: of more whole lines, and no further.
 *
 * @returns Nothing if nothing but blanks was piped in.
 * @throws {Error} if it is no text.
 */
export async function readPiped(
  stream: ReadableStream<Uint8Array>,
  { mostBytes = MOST_BYTES }: { readonly mostBytes?: number } = {},
): Promise<PipedInput | undefined> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of stream) {
    chunks.push(chunk);
    length += chunk.length;
    if (length > mostBytes) break;
  }
  const isCut = length > mostBytes;
  const bytes = new Uint8Array(await new Blob(chunks.map((chunk) => new Uint8Array(chunk))).arrayBuffer());
  const text = textOf(bytes.subarray(0, mostBytes), isCut);
  if (text.trim() === "") return undefined;
  return { text: isCut && text.includes("\n") ? text.slice(0, text.lastIndexOf("\n")) : text, isCut };
}

function textOf(bytes: Uint8Array, isCut: boolean): string {
  try {
    if (bytes.subarray(0, HEAD_BYTES).includes(0)) throw new TypeError("there is a NUL byte in it");
    // A letter that is cut in two isn't sent.
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: isCut });
  } catch (cause) {
    throw new Error(
      "Cannot send what is piped in: it isn't text in UTF-8. Name the file in the question, or convert it.",
      { cause },
    );
  }
}

/** A question with what was piped in behind it; without a question that is the question. */
export function withPiped(question: string, { text, isCut }: PipedInput): string {
  const note = isCut ? ` (only its first ${text.length} characters)` : "";
  if (question === "") return isCut ? `${text}\n\n${note.trim()}` : text;
  const fence = "`".repeat(Math.max(3, ...[...text.matchAll(/`+/g)].map(([run]) => run.length + 1)));
  return `${question}\n\nFrom standard input${note}:\n\n${fence}\n${text.replace(/\n$/, "")}\n${fence}`;
}
