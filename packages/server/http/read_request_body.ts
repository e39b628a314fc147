import { jsonExcess } from "@tare/wire";
import { HttpError } from "./http_error.ts";

/** Media type of JSON values, one a line. */
export const LINES = "application/x-ndjson";

/** What a request brought. */
export interface ReadBody {
  /** As it was sent. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** What it says: JSON, or text if lines were wanted. */
  readonly value: unknown;
}

/**
 * Reads a request's body: JSON that `check` finds no faults in, where no bytes count as `{}`, or lines of it as text.
 *
 * @throws {HttpError} 415 if it isn't declared as what is wanted (so that no web page can send it without asking) or is
 * compressed, 413 if it is too large, 400 if it isn't UTF-8 or JSON, is nested too deep or holds too many values
 * ({@linkcode jsonExcess}), or `check` finds faults.
 */
export async function readRequestBody(
  request: Request,
  { maxBytes, lines = false, check }: {
    readonly maxBytes: number;
    readonly lines?: boolean;
    readonly check: (value: unknown) => string | undefined;
  },
): Promise<ReadBody> {
  const encoding = request.headers.get("content-encoding") ?? "identity";
  if (encoding.toLowerCase() !== "identity") {
    throw new HttpError(
      415,
      "unsupported_media_type",
      `Cannot read the body: its content-encoding is ${encoding}, which can't be decoded here.`,
    );
  }
  const bytes = await readBytes(request, maxBytes);
  const wanted = lines ? LINES : "application/json";
  const declared = request.headers.get("content-type") ?? "none";
  if (bytes.length > 0 && declared.split(";")[0]?.trim().toLowerCase() !== wanted) {
    throw new HttpError(
      415,
      "unsupported_media_type",
      `Cannot read the body: its content-type is ${declared}, and ${wanted} is wanted.`,
    );
  }
  const excess = jsonExcess(bytes);
  if (excess !== undefined) throw new HttpError(400, "invalid_request", `Cannot use the body: ${excess}.`);
  return { bytes, value: lines ? decode(bytes) : parseJson(bytes, check) };
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

function decode(bytes: Uint8Array<ArrayBuffer>): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new HttpError(400, "invalid_json", "Cannot read the body: it isn't UTF-8.");
  }
}

function parseJson(bytes: Uint8Array<ArrayBuffer>, check: (value: unknown) => string | undefined): unknown {
  let value: unknown;
  try {
    value = bytes.length === 0 ? {} : JSON.parse(decode(bytes));
  } catch (error) {
    if (error instanceof HttpError) throw error;
    throw new HttpError(400, "invalid_json", `Cannot read the body: ${(error as Error).message}.`);
  }
  const faults = check(value);
  if (faults !== undefined) throw new HttpError(400, "invalid_request", `Cannot use the body: ${faults}.`);
  return value;
}
