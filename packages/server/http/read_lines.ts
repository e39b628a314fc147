import { HttpError } from "./http_error.ts";
import { readBody } from "./read_body.ts";

/** Media type of JSON values, one a line. */
export const LINES = "application/x-ndjson";

/**
 * Reads a request's body of at most `maxBytes` bytes that is JSON values, one a line, as text.
 *
 * @throws {HttpError} 415 or 413 as `readBody` does; 400 if it isn't UTF-8.
 */
export async function readLines(
  request: Request,
  maxBytes: number,
): Promise<{ readonly value: string; readonly bytes: Uint8Array<ArrayBuffer> }> {
  const bytes = await readBody(request, { maxBytes, type: LINES });
  try {
    return { value: new TextDecoder("utf-8", { fatal: true }).decode(bytes), bytes };
  } catch {
    throw new HttpError(400, "invalid_json", "Cannot read the body: it isn't UTF-8.");
  }
}
