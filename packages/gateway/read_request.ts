import { ApiError, joinBytes } from "@tare/wire/internal";
import { promisify } from "node:util";
import * as zlib from "node:zlib";

type Decode = (bytes: Uint8Array, options: { readonly maxOutputLength: number }) => Promise<Uint8Array>;

/** Ways in which a body can be compressed, as `content-encoding` names them, as far as this platform knows them. */
const DECODERS: Readonly<Record<string, Decode | undefined>> = {
  gzip: promisify(zlib.gunzip) as Decode,
  "x-gzip": promisify(zlib.gunzip) as Decode,
  deflate: promisify(zlib.inflate) as Decode,
  br: promisify(zlib.brotliDecompress) as Decode,
  zstd: zlib.zstdDecompress && promisify(zlib.zstdDecompress) as Decode,
};

/**
 * The parts of a path, each decoded once: `/v1/a%2Fb` has the parts `v1` and `a/b`. Nothing of one that isn't encoded as
 * UTF-8.
 */
export function readPath(pathname: string): readonly string[] | undefined {
  try {
    return pathname.slice(1).split("/").map((part) => part.includes("%") ? decodeURIComponent(part) : part);
  } catch {
    return undefined;
  }
}

/**
 * A request's body as it was before its client compressed it, read once. Nothing, and the body stays unread, if it is
 * compressed in a way that isn't known here.
 *
 * @throws {ApiError} if the body has too many bytes, compressed or not (413), or isn't what it says it is (400).
 */
export async function readBody(
  request: Request,
  limits: {
    /** Most bytes that it may have, compressed or not. */
    readonly maxBytes: number;
    /**
     * Told what has come once that is more than `bytes`, a first piece of it before all: gives a limit in place of
     * `maxBytes`, or nothing if it can't tell.
     */
    readonly early?: {
      readonly bytes: number;
      readonly limit: (begin: Uint8Array<ArrayBuffer>) => number | undefined;
    };
  },
): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const encoding = request.headers.get("content-encoding");
  if (encoding === null) {
    const declared = request.headers.get("content-length");
    // A server's runtime holds a body to its declared length, and reads it at once faster than in pieces.
    const atOnce = Math.min(limits.maxBytes, limits.early?.bytes ?? Infinity);
    if (declared === null || Number(declared) > atOnce) return await read(request, limits);
    const bytes = new Uint8Array(await request.arrayBuffer());
    if (bytes.length > atOnce) throw tooLarge(atOnce);
    return bytes;
  }
  const names = encoding.toLowerCase().split(",").map((name) => name.trim()).filter((name) =>
    name !== "identity"
  );
  const decoders = names.map((name) => Object.hasOwn(DECODERS, name) ? DECODERS[name] : undefined);
  if (decoders.includes(undefined)) return undefined;
  const { maxBytes } = limits;
  let body = await readBytes(request, maxBytes);
  try {
    for (const decode of decoders.toReversed()) {
      const decoded = await decode!(body, { maxOutputLength: maxBytes });
      body = new Uint8Array(decoded.buffer as ArrayBuffer, decoded.byteOffset, decoded.byteLength);
    }
  } catch (error) {
    if ((error as { readonly code?: unknown }).code === "ERR_BUFFER_TOO_LARGE") throw tooLarge(maxBytes);
    const reason = `its content-encoding is ${encoding}, but it can't be read as that`;
    throw new ApiError(400, `Cannot read the body: ${reason}.`, { code: "invalid_body" });
  }
  return body;
}

/** The body of a request or a reply. @throws {ApiError} if it has more bytes (413). */
export async function readBytes(
  message: Pick<Response, "headers" | "body">,
  maxBytes: number,
): Promise<Uint8Array<ArrayBuffer>> {
  return await read(message, { maxBytes });
}

async function read(
  { headers, body }: Pick<Response, "headers" | "body">,
  { maxBytes, early }: Parameters<typeof readBody>[1],
): Promise<Uint8Array<ArrayBuffer>> {
  if (Number(headers.get("content-length") ?? 0) > maxBytes) throw tooLarge(maxBytes);
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  let length = 0;
  let most = maxBytes;
  let isTold = early === undefined;
  for await (const chunk of body ?? []) {
    length += chunk.length;
    chunks.push(chunk);
    if (!isTold && early && length > early.bytes) {
      isTold = true;
      // What is asked for stands in front mostly: the rest isn't joined twice.
      most = early.limit(chunks[0]!) ?? early.limit(joinBytes(chunks)) ?? maxBytes;
    }
    if (length > most) throw tooLarge(most);
  }
  return joinBytes(chunks);
}

function tooLarge(maxBytes: number): ApiError {
  return new ApiError(413, `Cannot read the body: it has more than ${maxBytes} bytes.`, {
    code: "body_too_large",
  });
}

/**
 * Runs `work` with a controller that is aborted if the client of a request disconnects before `work` settles, as the
 * signal reports. A client that disconnects later cancels the response's body; `Deno.serve` aborts a request's signal
 * then too, and after each response that was sent.
 *
 * @throws The error of `work`.
 */
export async function withClientSignal<T>(
  signal: AbortSignal | undefined,
  work: (abort: AbortController) => Promise<T>,
): Promise<T> {
  const abort = new AbortController();
  const follow = () => abort.abort(signal?.reason);
  if (signal?.aborted) follow();
  else signal?.addEventListener("abort", follow, { once: true });
  try {
    return await work(abort);
  } finally {
    signal?.removeEventListener("abort", follow);
  }
}
