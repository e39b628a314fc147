import { Type } from "typebox";
import { HttpError } from "./http_error.ts";
import type { RouteParameter } from "./route.ts";

/** A whole number in a route's query. */
export interface QueryNumber {
  /** What the document says of it. */
  readonly parameter: RouteParameter;
  /**
   * What a request says, or the usual number.
   *
   * @param doing What can't be done without it, in words that follow "Cannot".
   * @throws {HttpError} 400 if it is no whole number, or out of its range.
   */
  read(request: Request, doing: string): number;
}

/** A whole number in a route's query, described and read by the same bounds. */
export function queryNumber(
  { name, says, usual = 0, least = 0, most = Number.MAX_SAFE_INTEGER }: {
    readonly name: string;
    /** What it says, in one sentence. */
    readonly says: string;
    /** What it is if it isn't there. Default: 0. */
    readonly usual?: number;
    /** Default: 0. */
    readonly least?: number;
    /** Default: as much as a number holds. */
    readonly most?: number;
  },
): QueryNumber {
  const isBounded = most < Number.MAX_SAFE_INTEGER;
  return {
    parameter: {
      name,
      in: "query",
      description: `${says} Default: ${usual}.`,
      schema: Type.Integer({ minimum: least, ...(isBounded && { maximum: most }) }),
    },
    read({ url }, doing) {
      const text = new URL(url).searchParams.get(name) ?? String(usual);
      const number = Number(text);
      if (/^\d{1,15}$/.test(text) && number >= least && number <= most) return number;
      const right = isBounded ? `from ${least} to ${most}` : `from ${least}`;
      const why = `${name} is ${JSON.stringify(text)}, and a number ${right} is wanted`;
      throw new HttpError(400, "invalid_request", `Cannot ${doing}: ${why}.`);
    },
  };
}
