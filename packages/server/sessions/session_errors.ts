import { API_PATH } from "../http/api_path.ts";
import { HttpError, notFound } from "../http/http_error.ts";

/** Returns the error for a session that doesn't exist. */
export function sessionNotFound(id: string): HttpError {
  return notFound(`Cannot find session ${id}: there is no such session.`);
}

/** Returns the error for new sessions beyond the limit. */
export function tooManySessions(
  more: number,
  { count, maxSessions }: { readonly count: number; readonly maxSessions: number },
): HttpError {
  const wanted = more === 1 ? "a session" : `${more} sessions`;
  return new HttpError(
    507,
    "too_many_sessions",
    `Cannot make ${wanted}: there are ${count}, and at most ${maxSessions} may be kept. Delete some first, or let idle ones expire.`,
  );
}

/** Returns the error for a change while calls of the last turn have no result. */
export function callsOpen(id: string): HttpError {
  const state = `calls of session ${id}'s last turn have no result yet`;
  return new HttpError(409, "approval_open", `Cannot do this now: ${state}. Answer or cancel them first.`);
}

/** Returns the error for a session whose turn is left to another process. */
export function sessionLeft(id: string): HttpError {
  return new HttpError(
    503,
    "server_ending",
    `Cannot use session ${id} here: the server is ending, and the session's turn goes on by itself. ` +
      `Ask again: GET ${API_PATH}/sessions/${id}/events follows it.`,
    { "retry-after": "1" },
  );
}

/** Returns the error for a turn that is requested while another one runs. */
export function turnRunning(id: string): HttpError {
  return new HttpError(
    409,
    "turn_running",
    `Cannot start a turn in session ${id}: one is running. Wait for its turn_end, cancel it, or send the input with ` +
      "steer.",
  );
}

/** Returns the error for a turn beyond those that may wait in a session. */
export function queueFull(id: string, most: number): HttpError {
  return new HttpError(
    429,
    "too_many_turns",
    `Cannot take the turn: ${most} wait in session ${id} already, and no more may.`,
    { "retry-after": "30" },
  );
}

/** Returns the error for a turn that is requested while the server ends. */
export function serverEnding(): HttpError {
  const state = "the server is ending. Ask again: another one, or its next start, takes it";
  return new HttpError(503, "server_ending", `Cannot start a turn: ${state}.`, { "retry-after": "1" });
}
