import { ERROR } from "../api/response_schemas.ts";
import type { RouteResponse } from "./route.ts";

/** Responses that tell of an error, by status: when each is given, in one sentence. */
export function errorResponses(
  descriptions: Readonly<Record<number, string>>,
): Readonly<Record<string, RouteResponse>> {
  return Object.fromEntries(
    Object.entries(descriptions).map(([status, description]) => [
      status,
      { description, content: { "application/json": ERROR } },
    ]),
  );
}
