import { HttpError } from "./http_error.ts";

/** Faults of a value in one line, or nothing for a valid one. */
export type Check = (value: unknown) => string | undefined;

/**
 * Reads JSON and validates it. No bytes count as `{}`.
 *
 * @throws {HttpError} 400 if it isn't JSON or `check` finds faults.
 */
export function parseJson(bytes: Uint8Array<ArrayBuffer>, check: Check): unknown {
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
