import { checkSessionLimit } from "./check_session_limit.ts";
import { errorResponses } from "../http/error_responses.ts";
import { exportSession } from "./export_session.ts";
import { importSessions } from "./import_sessions.ts";
import { MESSAGE } from "./message_schemas.ts";
import { parseSessions, SESSION_LINE } from "./parse_sessions.ts";
import { LINES } from "../http/read_lines.ts";
import { SESSION_LIST } from "./response_schemas.ts";
import type { Route } from "../http/route.ts";
import { sessionBody } from "../sessions/session.ts";
import type { SessionRoutesOptions } from "./session_routes.ts";

/** The routes by which sessions leave and enter as lines of chat messages. */
export function transferRoutes({ sessions, maxSessions }: SessionRoutesOptions): readonly Route[] {
  const exported: Route = {
    method: "GET",
    path: "/v1/sessions/{id}/export",
    operationId: "exportSession",
    summary: "Gives the messages of the turns that have ended, one a line, the system message first.",
    responses: {
      200: { description: "The messages.", content: { [LINES]: MESSAGE } },
      ...errorResponses({ 404: "There is no such session." }),
    },
    async answer({ path: { id = "" } }) {
      return new Response(exportSession(await sessions.get(id)), { headers: { "content-type": LINES } });
    },
  };
  const imported: Route<string> = {
    method: "POST",
    path: "/v1/sessions/import",
    operationId: "importSessions",
    summary:
      "Makes a session of messages, one a line, or several of lines that each hold one with its messages.",
    body: SESSION_LINE,
    lines: true,
    responses: {
      201: {
        description: "The sessions, in the order of the lines.",
        content: { "application/json": SESSION_LIST },
      },
      ...errorResponses({
        400: "Some lines are bad: each is named by its number. Nothing was imported.",
        507:
          "The server keeps as many sessions as it may, or its store has no room left. Nothing was imported.",
      }),
    },
    async answer({ body }) {
      const histories = parseSessions(body);
      checkSessionLimit({ sessions, maxSessions }, histories.length);
      const made = await importSessions(histories, sessions);
      return Response.json({ sessions: made.map(sessionBody) }, { status: 201 });
    },
  };
  return [exported, imported];
}
