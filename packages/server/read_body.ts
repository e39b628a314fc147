import { HttpError } from "./http_error.ts";

/** Faults of a value in one line, or nothing for a valid one. */
export type Check = (value: unknown) => string | undefined;

/**
 * Reads the bytes of a request's JSON body.
 *
 * @throws {HttpError} 415 if the body isn't declared as JSON (so that no web page can send it without asking), 413 if
 * it has more than `maxBytes` bytes.
 */
export async function readBody(request: Request, maxBytes: number): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = await readBytes(request, maxBytes);
  const type = request.headers.get("content-type") ?? "none";
  if (bytes.length > 0 && !/^application\/json\b/i.test(type)) {
    throw new HttpError(
      415,
      "unsupported_media_type",
      `Cannot read the body: its content-type is ${type}, and application/json is wanted.`,
    );
  }
  return bytes;
}

/** Reads a JSON body and validates it; an empty one counts as `{}`. @throws {HttpError} 400 if it isn't JSON or `check` finds faults. */
export function parseBody(bytes: Uint8Array<ArrayBuffer>, check: Check): unknown {
  let value: unknown;
  try {
    value = bytes.length === 0 ? {} : JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (error) {
    throw new HttpError(400, "invalid_json", `Cannot read the body: ${(error as Error).message}.`);
  }
  const faults = check(value);
  if (faults !== undefined) throw new HttpError(400, "invalid_request", `Cannot use the body: ${faults}.`);
  return value;
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
