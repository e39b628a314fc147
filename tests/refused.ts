/**
 * What the providers of tests refuse. Holds no tests.
 *
 * @module
 */
import { type Dialect, DIALECTS, refusalIn } from "@tare/simulator";

/** Whose rules requests to a path are held to. Nothing of a path that is no model call's. */
export function dialectsOf(path: string): readonly Dialect[] {
  if (path.endsWith("/chat/completions")) return DIALECTS.chat;
  if (path.endsWith("/responses")) return DIALECTS.responses;
  return path.endsWith("/messages") ? DIALECTS.messages : [];
}

/** The answer of a provider that refuses a request to this path; nothing if it is legal. */
export function refusedBy(path: string, body: unknown): Response | undefined {
  const message = refusalIn(body, dialectsOf(path));
  if (message === undefined) return undefined;
  const error = { type: "invalid_request_error", message };
  return Response.json({ type: "error", error }, { status: 400 });
}
