import { API_PATH } from "../http/api_path.ts";
import { HttpError, notFound } from "../http/http_error.ts";

export function sessionNotFound(id: string): HttpError {
  return notFound(`Cannot find session ${id}: there is no such session.`);
}

export function tooManySessions(
  more: number,
  { count, maxSessions }: { readonly count: number; readonly maxSessions: number },
): HttpError {
  const wanted = more === 1 ? "a session" : `${more} sessions`;
  return new HttpError(
    507,
    "too_many_sessions",
    `Cannot create ${wanted}: ${count} of at most ${maxSessions} are stored. Delete some, or let idle ` +
      "ones expire.",
  );
}

export function callsOpen(id: string): HttpError {
  const state = `calls of session ${id}'s last turn have no result yet`;
  return new HttpError(409, "approval_open", `Conflict: ${state}. Answer or cancel them first.`);
}

export function sessionLeft(id: string): HttpError {
  return new HttpError(
    503,
    "server_ending",
    `Cannot use session ${id} here: the server is shutting down, and another process continues the ` +
      `turn. Retry: GET ${API_PATH}/sessions/${id}/events follows it.`,
    { "retry-after": "1" },
  );
}

export function turnRunning(id: string): HttpError {
  return new HttpError(
    409,
    "turn_running",
    `Cannot start a turn in session ${id}: one is running. Wait for its turn_end, cancel it, or send the input with ` +
      "steer.",
  );
}

export function queueFull(id: string, most: number): HttpError {
  return new HttpError(
    429,
    "too_many_turns",
    `Cannot queue the turn: the limit of queued turns in session ${id} (${most}) is reached. Retry later.`,
    { "retry-after": "30" },
  );
}

export function serverEnding(): HttpError {
  const state = "the server is shutting down. Retry: another server takes it, or this one after its restart";
  return new HttpError(503, "server_ending", `Cannot start a turn: ${state}.`, { "retry-after": "1" });
}
