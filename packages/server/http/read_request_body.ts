import { readBody } from "@tare/gateway";
import { ApiError, jsonExcess } from "@tare/wire";
import { type ErrorCode, HttpError } from "./http_error.ts";
import type { OtherAnswerer } from "./route.ts";

/** Media type of JSON values, one a line. */
export const LINES = "application/x-ndjson";

/**
 * Reads a request's body once, as it was before its client compressed it. If somebody `other` may answer, then up to
 * what that one takes, and no more than `maxBytes` of what is known not to be its own. Nothing, and the body is unread,
 * if it is compressed in a way that isn't known here.
 *
 * @throws {HttpError} 413 if it is too large, 400 if it isn't compressed as it says.
 */
export async function readRequestBytes(
  request: Request,
  { maxBytes, other }: { readonly maxBytes: number; readonly other?: OtherAnswerer | undefined },
): Promise<Uint8Array<ArrayBuffer> | undefined> {
  try {
    if (!other) return await readBody(request, { maxBytes });
    return await readBody(request, {
      maxBytes: other.maxBodyBytes,
      early: {
        bytes: maxBytes,
        limit(begin) {
          const isIts = other.isIts(begin);
          return isIts === undefined ? undefined : isIts ? other.maxBodyBytes : maxBytes;
        },
      },
    });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const { status, message, details: { code } } = error;
    throw new HttpError(status, code as ErrorCode, message);
  }
}

/**
 * What the bytes of a body say: JSON that `check` finds no faults in, where no bytes count as `{}`, or lines of it as
 * text.
 *
 * @throws {HttpError} 415 if it isn't declared as what is wanted (so that no web page can send it without asking), 413 if
 * it is too large, 400 if it isn't UTF-8 or JSON, is nested too deep or holds too many values
 * ({@linkcode jsonExcess}), or `check` finds faults.
 */
export function parseRequestBody(
  { headers }: Request,
  { bytes, maxBytes, lines = false, check }: {
    /** Absent: compressed in an unknown way. */
    readonly bytes: Uint8Array<ArrayBuffer> | undefined;
    readonly maxBytes: number;
    readonly lines?: boolean;
    readonly check: (value: unknown) => string | undefined;
  },
): unknown {
  if (!bytes) {
    throw new HttpError(
      415,
      "unsupported_media_type",
      `Cannot read the body: its content-encoding is ${
        headers.get("content-encoding")
      }, which can't be decoded here.`,
    );
  }
  if (bytes.length > maxBytes) {
    throw new HttpError(413, "body_too_large", `Cannot read the body: it has more than ${maxBytes} bytes.`);
  }
  const wanted = lines ? LINES : "application/json";
  const declared = headers.get("content-type") ?? "none";
  if (bytes.length > 0 && declared.split(";")[0]?.trim().toLowerCase() !== wanted) {
    throw new HttpError(
      415,
      "unsupported_media_type",
      `Cannot read the body: its content-type is ${declared}, and ${wanted} is wanted.`,
    );
  }
  const excess = jsonExcess(bytes);
  if (excess !== undefined) throw new HttpError(400, "invalid_request", `Cannot use the body: ${excess}.`);
  return lines ? decode(bytes) : parseJson(bytes, check);
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
