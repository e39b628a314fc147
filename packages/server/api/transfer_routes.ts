import type { Message } from "@tare/messages";
import { type Store, StoreError } from "@tare/conversation";
import { Type } from "typebox";
import { errorResponses, HttpError } from "../http/http_error.ts";
import { LINES } from "../http/dispatcher.ts";
import { route } from "../http/route.ts";
import { closed } from "../http/schema.ts";
import type { NewSession, SessionInfo } from "../sessions/session_types.ts";
import type { Sessions } from "../sessions/sessions.ts";
import { MESSAGE } from "./message_schemas.ts";
import { parseSessions, SESSION_LINE } from "./parse_sessions.ts";
import { sessionBody, SESSIONS } from "./session_body.ts";

/** What a copy of the store is. */
const FILE = "application/vnd.sqlite3";

/** The routes by which sessions leave and enter: as lines of chat messages, and all together as a file. */
export function transferRoutes(sessions: Sessions, store: Pick<Store, "copy">) {
  return [
    route({
      method: "GET",
      path: "/v1/backup",
      operationId: "backUp",
      summary:
        "Gives everything that the server keeps, as of now, as a file from which a server can go on. It isn't whole if it comes to an end before its length.",
      responses: {
        200: {
          description: "The file: a SQLite database.",
          content: { [FILE]: Type.Unsafe<string>({ type: "string", format: "binary" }) },
        },
        ...errorResponses({
          404: "The server keeps nothing in a file: what it does keep is backed up where it is.",
          409: "It is being copied already.",
        }),
      },
      async answer() {
        if (!store.copy) {
          throw new HttpError(
            404,
            "not_found",
            "Cannot back up here: the sessions aren't in a file of this server, but in a database, which has " +
              "programs of its own for that, such as pg_dump.",
          );
        }
        const { bytes, stream } = await store.copy().catch((error) => {
          if (!(error instanceof StoreError && error.code === "locked")) throw error;
          throw new HttpError(409, "backup_running", error.message);
        });
        return new Response(stream, { headers: { "content-type": FILE, "content-length": String(bytes) } });
      },
    }),
    route({
      method: "GET",
      path: "/v1/sessions/{id}/export",
      operationId: "exportSession",
      summary: "Gives the messages of the turns that have ended, one a line, the system message first.",
      responses: {
        200: { description: "The messages.", content: { [LINES]: MESSAGE } },
        ...errorResponses({ 404: "There is no such session." }),
      },
      async answer({ path: { id } }) {
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
      lines: SESSION_LINE,
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
