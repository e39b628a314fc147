import { HttpError } from "../http/http_error.ts";
import type { SessionRoutesOptions } from "./session_routes.ts";

/** Refuses to make so many more sessions if no more may be kept. @throws {HttpError} 507. */
export function checkSessionLimit(
  { sessions: { count }, maxSessions }: SessionRoutesOptions,
  more: number,
): void {
  if (count + more <= maxSessions) return;
  const wanted = more === 1 ? "a session" : `${more} sessions`;
  throw new HttpError(
    507,
    "too_many_sessions",
    `Cannot make ${wanted}: there are ${count}, and at most ${maxSessions} may be kept. Delete some first.`,
  );
}
