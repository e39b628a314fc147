import { checkGiven } from "@tare/messages";
import { promisify } from "node:util";
import * as zlib from "node:zlib";
import { ApiError, joinBytes } from "@tare/wire";

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
 * A request with its body as it was before its client compressed it. The same request if it isn't compressed, or in a
 * way that isn't known here.
 *
 * @throws {ApiError} if the body has more than `maxBytes`, compressed or not (413), or isn't what it says it is (400).
 */
export async function decodeRequest(
  request: Request,
  options: { readonly maxBytes: number },
): Promise<Request> {
  const given = { request, options };
  checkGiven("decodeRequest()", given, { request: { headers: "object" }, options: { maxBytes: "number" } });
  const { maxBytes } = options;
  const encoding = request.headers.get("content-encoding");
  if (encoding === null) return request;
  const names = encoding.toLowerCase().split(",").map((name) => name.trim()).filter((name) =>
    name !== "identity"
  );
  const decoders = names.map((name) => Object.hasOwn(DECODERS, name) ? DECODERS[name] : undefined);
  if (decoders.includes(undefined)) return request;
  let body = await readBytes(request, maxBytes);
  try {
    for (const decode of decoders.toReversed()) {
      body = new Uint8Array(await decode!(body, { maxOutputLength: maxBytes }));
    }
  } catch (error) {
    if ((error as { readonly code?: unknown }).code === "ERR_BUFFER_TOO_LARGE") throw tooLarge(maxBytes);
    const reason = `its content-encoding is ${encoding}, but it can't be read as that`;
    throw new ApiError(400, `Cannot read the body: ${reason}.`, { code: "invalid_body" });
  }
  const headers = new Headers(request.headers);
  headers.delete("content-encoding");
  headers.delete("content-length");
  const { url, method, signal } = request;
  return new Request(url, { method, headers, body, signal });
}

/** The body of a request or a reply. @throws {ApiError} if it has more bytes (413). */
export async function readBytes(
  message: Pick<Response, "headers" | "body">,
  maxBytes: number,
): Promise<Uint8Array<ArrayBuffer>> {
  checkGiven("readBytes()", { message, maxBytes }, { message: { headers: "object" }, maxBytes: "number" });
  const { headers, body } = message;
  if (Number(headers.get("content-length") ?? 0) > maxBytes) throw tooLarge(maxBytes);
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  let length = 0;
  for await (const chunk of body ?? []) {
    length += chunk.length;
    if (length > maxBytes) throw tooLarge(maxBytes);
    chunks.push(chunk);
  }
  return joinBytes(chunks);
}

function tooLarge(maxBytes: number): ApiError {
  return new ApiError(413, `Cannot read the body: it has more than ${maxBytes} bytes.`, {
    code: "body_too_large",
  });
}
