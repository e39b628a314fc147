import { HttpError } from "./http_error.ts";

/**
 * A whole number of a request's query.
 *
 * @throws {HttpError} 400 if it is none, or out of its range.
 */
export function readNumber(
  { searchParams }: URL,
  { name, usual, least = 0, most = Number.MAX_SAFE_INTEGER, doing }: {
    readonly name: string;
    /** What it is if it isn't there. */
    readonly usual: number;
    readonly least?: number;
    readonly most?: number;
    /** What can't be done without it, in words that follow "Cannot". */
    readonly doing: string;
  },
): number {
  const text = searchParams.get(name) ?? String(usual);
  const number = Number(text);
  if (/^\d{1,15}$/.test(text) && number >= least && number <= most) return number;
  const right = most === Number.MAX_SAFE_INTEGER ? `from ${least}` : `from ${least} to ${most}`;
  throw new HttpError(
    400,
    "invalid_request",
    `Cannot ${doing}: ${name} is ${JSON.stringify(text)}, and a number ${right} is wanted.`,
  );
}
