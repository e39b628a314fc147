/**
 * Refusals of the tests' providers. Contains no tests.
 *
 * @module
 */
import { type Dialect, DIALECTS, refusalIn } from "@tare/simulator";

/** Returns the rules for requests to a path; none if it isn't a model call's. */
export function dialectsOf(path: string): readonly Dialect[] {
  if (path.endsWith("/chat/completions")) return DIALECTS.chat;
  if (path.endsWith("/responses")) return DIALECTS.responses;
  return path.endsWith("/messages") ? DIALECTS.messages : [];
}

/** Returns a provider's refusal of a request to this path; `undefined` if it is legal. */
export function refusedBy(path: string, body: unknown): Response | undefined {
  const message = refusalIn(body, dialectsOf(path));
  if (message === undefined) return undefined;
  const error = { type: "invalid_request_error", message };
  return Response.json({ type: "error", error }, { status: 400 });
}
