import { checkSessionLimit } from "./check_session_limit.ts";
import { errorResponses } from "../http/error_responses.ts";
import { HttpError } from "../http/http_error.ts";
import { CREATE_SESSION, type CreateSession } from "./request_schemas.ts";
import { QUOTE, SESSION, SESSION_LIST, SESSION_WITH_MESSAGES } from "./response_schemas.ts";
import type { Route } from "../http/route.ts";
import { sessionBody } from "../sessions/session.ts";
import type { Sessions } from "../sessions/sessions.ts";

/** What {@linkcode sessionRoutes} work on. */
export interface SessionRoutesOptions {
  /** The server's sessions. */
  readonly sessions: Sessions;
  /** Most sessions that the server keeps. */
  readonly maxSessions: number;
}

const NO_SESSION = errorResponses({ 404: "There is no such session." });

/** The routes that make, show, quote and delete sessions. */
export function sessionRoutes({ sessions, maxSessions }: SessionRoutesOptions): readonly Route[] {
  const create: Route<CreateSession> = {
    method: "POST",
    path: "/v1/sessions",
    operationId: "createSession",
    summary: "Makes a session.",
    body: CREATE_SESSION,
    responses: {
      201: { description: "The session.", content: { "application/json": SESSION } },
      ...errorResponses({
        507: "The server keeps as many sessions as it may, or its store has no room left.",
      }),
    },
    async answer({ body, keep }) {
      checkSessionLimit({ sessions, maxSessions }, 1);
      const session = await sessions.create(body);
      keep({ sessionId: session.id });
      return Response.json(sessionBody(session), {
        status: 201,
        headers: { location: `/v1/sessions/${session.id}` },
      });
    },
  };
  const list: Route = {
    method: "GET",
    path: "/v1/sessions",
    operationId: "listSessions",
    summary: "Lists all sessions, the newest first.",
    responses: {
      200: {
        description: "The sessions.",
        content: { "application/json": SESSION_LIST },
      },
    },
    answer: () => Response.json({ sessions: sessions.list().map(sessionBody) }),
  };
  const show: Route = {
    method: "GET",
    path: "/v1/sessions/{id}",
    operationId: "getSession",
    summary: "Shows a session with its messages.",
    responses: {
      200: { description: "The session.", content: { "application/json": SESSION_WITH_MESSAGES } },
      ...NO_SESSION,
    },
    async answer({ path: { id = "" } }) {
      const session = await sessions.get(id);
      return Response.json({ ...sessionBody(session), messages: session.history });
    },
  };
  const remove: Route = {
    method: "DELETE",
    path: "/v1/sessions/{id}",
    operationId: "deleteSession",
    summary: "Cancels what runs in a session and forgets it.",
    responses: { 204: { description: "It is gone." }, ...NO_SESSION },
    async answer({ path: { id = "" } }) {
      await sessions.delete(await sessions.get(id));
      return new Response(null, { status: 204 });
    },
  };
  const archived: Route = {
    method: "GET",
    path: "/v1/sessions/{id}/archive/{ref}",
    operationId: "getArchived",
    summary: "Gives the original of what left the prompt.",
    responses: {
      200: { description: "The original.", content: { "text/plain": { type: "string" } } },
      ...errorResponses({ 404: "There is no such session, or it archived nothing so named." }),
    },
    async answer({ path: { id = "", ref = "" } }) {
      const session = await sessions.get(id);
      const content = await session.archive.get(ref);
      if (content === undefined) {
        throw new HttpError(
          404,
          "not_found",
          `Cannot find ${ref}: session ${session.id} archived nothing so named.`,
        );
      }
      return new Response(content, { headers: { "content-type": "text/plain; charset=utf-8" } });
    },
  };
  const quote: Route = {
    method: "GET",
    path: "/v1/sessions/{id}/quote",
    operationId: "quoteSession",
    summary:
      "Says what resending the turns that have ended would cost, as they stand and without all that could leave now, " +
      "with a warm and a cold cache. Costs are in the price of one uncached input token.",
    responses: {
      200: { description: "The quote.", content: { "application/json": QUOTE } },
      ...errorResponses({
        404: "There is no such session.",
        501: "The server's policy knows nothing of costs.",
      }),
    },
    async answer({ path: { id = "" } }) {
      const { context, history, tools } = await sessions.get(id);
      if (!context.quote) {
        throw new HttpError(
          501,
          "not_supported",
          `Cannot quote session ${id}: the server's policy knows nothing of costs. The planner does.`,
        );
      }
      return Response.json(
        context.quote({ messages: history, tools: tools.map(({ definition }) => definition) }),
      );
    },
  };
  return [create, list, show, remove, archived, quote];
}
