import { HttpError } from "./http_error.ts";
import { readBody } from "./read_body.ts";

/** Faults of a value in one line, or nothing for a valid one. */
export type Check = (value: unknown) => string | undefined;

/** A JSON body, read. */
export interface JsonBody {
  /** What it says. */
  readonly value: unknown;
  /** How it was sent. */
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/**
 * Reads a request's JSON body of at most `maxBytes` bytes and validates it. An empty body counts as `{}`.
 *
 * @throws {HttpError} 415 if the body isn't declared as JSON (so that no web page can send it without asking), 413 if
 * it is too large, 400 if it isn't JSON or `check` finds faults.
 */
export async function readJson(
  request: Request,
  options: { readonly maxBytes: number; readonly check: Check },
): Promise<JsonBody> {
  const { maxBytes, check } = options;
  const bytes = await readBody(request, { maxBytes, type: "application/json" });
  let value: unknown;
  try {
    value = bytes.length === 0 ? {} : JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (error) {
    throw new HttpError(400, "invalid_json", `Cannot read the body: ${(error as Error).message}.`);
  }
  const faults = check(value);
  if (faults !== undefined) throw new HttpError(400, "invalid_request", `Cannot use the body: ${faults}.`);
  return { value, bytes };
}
