import { HttpError } from "./http_error.ts";

/** What a body may be. */
export interface BodyLimits {
  /** Most bytes. */
  readonly maxBytes: number;
  /** The media type as which it must be declared. */
  readonly type: string;
}

/**
 * Reads a request's body.
 *
 * @throws {HttpError} 415 if it isn't declared as what is wanted (so that no web page can send it without asking), 413
 * if it is too large.
 */
export async function readBody(
  request: Request,
  { maxBytes, type }: BodyLimits,
): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = await readBytes(request, maxBytes);
  const declared = request.headers.get("content-type") ?? "none";
  if (bytes.length === 0 || declared.split(";")[0]?.trim().toLowerCase() === type) return bytes;
  throw new HttpError(
    415,
    "unsupported_media_type",
    `Cannot read the body: its content-type is ${declared}, and ${type} is wanted.`,
  );
}

async function readBytes(request: Request, maxBytes: number): Promise<Uint8Array<ArrayBuffer>> {
  const tooLarge = () =>
    new HttpError(413, "body_too_large", `Cannot read the body: it has more than ${maxBytes} bytes.`);
  if (Number(request.headers.get("content-length") ?? 0) > maxBytes) throw tooLarge();
  let length = 0;
  const limit = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
    transform(chunk, controller) {
      length += chunk.length;
      if (length > maxBytes) throw tooLarge();
      controller.enqueue(chunk);
    },
  });
  return await new Response(request.body?.pipeThrough(limit)).bytes();
}
