/** How much is read at once, in bytes: an event of a reply has a few hundred. */
const READ_BYTES = 16_384;

/**
 * The bytes of a body as they come. A piece is valid until the next one is asked for: where the runtime can, all are read
 * into the same memory, which else would be as much for each event as for a long file. Nothing more comes once `signal`
 * is aborted; whoever stops before the end cancels the body.
 *
 * @throws what the body fails with.
 */
export async function* bodyPieces(
  body: ReadableStream<Uint8Array<ArrayBuffer>> | null,
  signal?: AbortSignal,
): AsyncGenerator<Uint8Array<ArrayBuffer>, void> {
  if (!body) return;
  const reader = readerOf(body);
  const stop = () => void reader.cancel().catch(() => {});
  signal?.addEventListener("abort", stop);
  try {
    while (!signal?.aborted) {
      const piece = await reader.read();
      if (!piece || signal?.aborted) return;
      if (piece.length > 0) yield piece;
    }
  } finally {
    signal?.removeEventListener("abort", stop);
    stop();
  }
}

/** What reads a body. */
interface BodyReader {
  /** Nothing at the end. */
  readonly read: () => Promise<Uint8Array<ArrayBuffer> | undefined>;
  readonly cancel: () => Promise<void>;
}

function readerOf(body: ReadableStream<Uint8Array<ArrayBuffer>>): BodyReader {
  let reader: ReadableStreamBYOBReader;
  try {
    reader = body.getReader({ mode: "byob" });
  } catch {
    // One that a program made gives pieces of its own.
    const plain = body.getReader();
    return { read: async () => (await plain.read()).value, cancel: () => plain.cancel() };
  }
  let memory = new ArrayBuffer(READ_BYTES);
  return {
    async read() {
      const { done, value } = await reader.read(new Uint8Array(memory));
      if (done) return undefined;
      memory = value.buffer;
      return value;
    },
    cancel: () => reader.cancel(),
  };
}
