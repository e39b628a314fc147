import type { Message } from "@tare/messages";
import { errorResponses } from "../http/http_error.ts";
import { LINES } from "../http/read_request_body.ts";
import { type Route, route } from "../http/route.ts";
import { closed } from "../http/schema.ts";
import type { SessionInfo } from "../sessions/session_options.ts";
import type { NewSession } from "../sessions/new_sessions.ts";
import type { Sessions } from "../sessions/sessions.ts";
import { MESSAGE } from "./message_schemas.ts";
import { parseSessions, SESSION_LINE } from "./parse_sessions.ts";
import { sessionBody, SESSIONS } from "./session_body.ts";

/** The routes by which sessions leave and enter as lines of chat messages. */
export function transferRoutes(sessions: Sessions): readonly Route[] {
  return [
    route({
      method: "GET",
      path: "/v1/sessions/{id}/export",
      operationId: "exportSession",
      summary: "Gives the messages of the turns that have ended, one a line, the system message first.",
      responses: {
        200: { description: "The messages.", content: { [LINES]: MESSAGE } },
        ...errorResponses({ 404: "There is no such session." }),
      },
      async answer({ path: { id = "" } }) {
        const { history } = await sessions.get(id);
        const lines = history.map((message) => `${JSON.stringify(message)}\n`).join("");
        return new Response(lines, { headers: { "content-type": LINES } });
      },
    }),
    route({
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
          content: { "application/json": closed({ sessions: SESSIONS }, "ImportedSessions") },
        },
        ...errorResponses({
          400: "Some lines are bad: each is named by its number. Nothing was imported.",
          507:
            "The server keeps as many sessions as it may, or its store has no room left. Nothing was imported.",
        }),
      },
      async answer({ body, keep }) {
        const answerOf = (made: readonly SessionInfo[]) => ({
          status: 201,
          json: { sessions: made.map(sessionBody) },
        });
        const made = await sessions.create(parseSessions(String(body)).map(asNewSession), {
          keep: (made) => keep({ answer: answerOf(made) }),
        });
        return answerOf(made);
      },
    }),
  ];
}

/** A session whose history is exactly these messages. */
function asNewSession(messages: readonly Message[]): NewSession {
  const [first] = messages;
  const instructions = first && instructionsOf(first);
  return { instructions: instructions ?? "", messages: messages.slice(instructions === undefined ? 0 : 1) };
}

/** What a session is told as its instructions, if the message is no more than these. */
function instructionsOf({ role, content, ...rest }: Message): string | undefined {
  if (role !== "system" || typeof content !== "string" || Object.keys(rest).length > 0) return undefined;
  return content === "" ? undefined : content;
}
