import type { Message } from "@tare/messages";
import { Keys, type Store, StoreError } from "@tare/session";
import { Type } from "typebox";
import { HttpError, invalidRequest, notFound } from "../http/http_error.ts";
import { LINES } from "../http/dispatcher.ts";
import { json, route } from "../http/route.ts";
import { checker, closed } from "../http/schema.ts";
import type { ListedSession } from "@tare/session/internal";
import type { NewSession, Sessions } from "../sessions/sessions.ts";
import { MESSAGE, MESSAGE_BY_ROLE } from "./message_schemas.ts";
import { sessionBody, SESSIONS } from "./session_body.ts";

/** What a copy of the store is. */
const FILE = "application/vnd.sqlite3";

/** The routes by which sessions leave and enter: as lines of chat messages, and all together as a file. */
export function transferRoutes(sessions: Sessions, store: Pick<Store, "copy">) {
  return [
    route({
      method: "GET",
      path: "/backup",
      operationId: "backUp",
      who: "owner",
      summary:
        "Gives everything that the server keeps, as of now, as a file from which a server can go on. It isn't whole if it comes to an end before its length.",
      responses: {
        200: {
          description: "The file: a SQLite database.",
          content: { [FILE]: Type.Unsafe<string>({ type: "string", format: "binary" }) },
        },
        404: "The server keeps nothing in a file: what it does keep is backed up where it is.",
        409: "It is being copied already.",
      },
      async answer() {
        if (!store.copy) {
          throw notFound(
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
      path: "/sessions/{id}/export",
      operationId: "exportSession",
      summary:
        "Gives the messages of the turns that have ended: one a line, the system message first; or without that as one " +
        "HTML file for people, in which nothing runs or is fetched.",
      query: {
        format: Type.Enum(["lines", "html"], {
          default: "lines",
          description: "`lines`: as they are, in JSON. `html`: for people.",
        }),
      },
      responses: {
        200: { description: "The messages.", content: { [LINES]: MESSAGE, "text/html": Type.String() } },
        404: "There is no such session.",
      },
      async answer({ path: { id }, query: { format } }) {
        const session = await sessions.get(id);
        if (format === "html") {
          // Most servers are never asked for one.
          const { sharedOf, sharePage } = await import("../share/share_page.ts");
          const { html, policy } = await sharePage(await sharedOf(session, sessions.store));
          return new Response(html, {
            headers: {
              "content-type": "text/html; charset=utf-8",
              "content-disposition": `attachment; filename="${fileNameOf(session)}"`,
              "content-security-policy": `sandbox; ${policy}`,
            },
          });
        }
        const { history } = session;
        const lines = history.map((message) => `${JSON.stringify(message)}\n`).join("");
        return new Response(lines, { headers: { "content-type": LINES } });
      },
    }),
    route({
      method: "POST",
      path: "/sessions/import",
      operationId: "importSessions",
      isAtomic: true,
      begins: true,
      summary:
        "Makes a session of messages, one a line, or several of lines that each hold one with its messages.",
      lines: SESSION_LINE,
      responses: {
        201: json(
          "The sessions, in the order of the lines.",
          closed({ sessions: SESSIONS }, "ImportedSessions"),
        ),
        400: "Some lines are bad: each is named by its number. Nothing was imported.",
        507:
          "The server keeps as many sessions as it may, or its store has no room left. Nothing was imported.",
      },
      async answer({ body, keep, asker }) {
        const answerOf = (made: readonly ListedSession[]) => ({
          status: 201,
          json: { sessions: made.map(sessionBody) },
        });
        const made = await sessions.create(parseSessions(String(body)).map(asNewSession), {
          by: Keys.nameOf(asker),
          keep: (made) => keep({ answer: answerOf(made) }),
        });
        return answerOf(made);
      },
    }),
  ];
}

/** A name for a file that every system takes. */
function fileNameOf({ title }: { readonly title: string }): string {
  const words = title.normalize("NFKD").replaceAll(/[^A-Za-z0-9]+/g, "-").slice(0, 60);
  return `${words.replaceAll(/^-+|-+$/g, "") || "session"}.html`;
}

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

/** A line that {@linkcode parseSessions} reads. */
const SESSION_LINE = Type.Union([MESSAGE, Type.Object({ messages: Type.Array(MESSAGE) })], {
  title: "SessionLine",
  examples: [{ role: "user", content: "Which files are there?" }],
});

/** What recordings note of a message; no API knows these fields. */
const NOTES = ["ts", "usage", "meta", "error"];

/** So many faults are told. */
const MAX_FAULTS = 20;

type Fields = Readonly<Record<string, unknown>>;

/** A message, and how people find it in the file. */
interface PlacedMessage {
  readonly place: string;
  readonly message: unknown;
}

/**
 * Reads sessions from lines of JSON. Either each line is a chat message, and all are one session; or each line is a
 * session, an object with `messages`, where whatever else it holds is ignored, and so are the fields `ts`, `usage`,
 * `meta` and `error` of its messages. Empty lines are skipped.
 *
 * Each call must be answered once, right after the reply that made it, and each answer must have its call. Only calls of
 * a session's last reply may be open: they are answered when it goes on.
 *
 * @throws {HttpError} 400 that names each bad line, from 1, and says what is wrong with it.
 */
export function parseSessions(text: string): readonly (readonly Message[])[] {
  const faults: string[] = [];
  const sessions: PlacedMessage[][] = [];
  let kind: "message" | "session" | undefined;
  for (const [index, line] of text.replace(/^\ufeff/, "").split("\n").entries()) {
    if (line.trim() === "") continue;
    const place = `line ${index + 1}`;
    const value = parseObject(line);
    if (typeof value === "string") {
      faults.push(`${place}: ${value}`);
      continue;
    }
    const messages = Array.isArray(value.messages) ? recordedMessages(value.messages, place) : undefined;
    const found = messages ? "session" : "message";
    kind ??= found;
    if (found !== kind) {
      faults.push(`${place}: it is a ${found}, but the lines before are ${kind}s`);
      continue;
    }
    const placed = messages ?? [{ place, message: value }];
    faults.push(...placed.flatMap(messageFaults));
    const [session] = sessions;
    if (messages || !session) sessions.push(placed);
    else session.push(...placed);
  }
  // Lines that can't be read leave calls without their answers: what is told first is what is wrong.
  if (faults.length === 0) { for (const messages of sessions) faults.push(...pairFaults(messages)); }
  if (faults.length === 0 && sessions.length === 0) faults.push("it holds no messages");
  if (faults.length > 0) throw invalidRequest(describe(faults));
  return sessions.map((messages) => messages.map(({ message }) => message as Message));
}

function describe(faults: readonly string[]): string {
  const told = faults.slice(0, MAX_FAULTS).join("; ");
  const more = faults.length > MAX_FAULTS ? `; and ${faults.length - MAX_FAULTS} more` : "";
  return `Cannot import: ${told}${more}. Nothing was imported.`;
}

function parseObject(line: string): Fields | string {
  try {
    const value: unknown = JSON.parse(line);
    const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
    return isObject ? value as Fields : "it isn't a JSON object";
  } catch (error) {
    return `it isn't JSON (${(error as Error).message})`;
  }
}

function recordedMessages(messages: readonly unknown[], place: string): PlacedMessage[] {
  return messages.map((message, index) => ({
    place: `${place}, message ${index + 1}`,
    message: typeof message === "object" && message !== null
      ? Object.fromEntries(Object.entries(message).filter(([name]) => !NOTES.includes(name)))
      : message,
  }));
}

const CHECKS = new Map<unknown, ReturnType<typeof checker>>(
  Object.entries(MESSAGE_BY_ROLE).map(([role, schema]) => [role, checker(schema, "the message")]),
);

function messageFaults({ place, message }: PlacedMessage): string[] {
  const role = (message as Fields | null)?.role;
  const check = CHECKS.get(role);
  const fault = check
    ? check(message)
    : `role is ${JSON.stringify(role) ?? "missing"} and must be one of ${[...CHECKS.keys()].join(", ")}`;
  return fault === undefined ? [] : [`${place}: ${fault}`];
}

function pairFaults(messages: readonly PlacedMessage[]): string[] {
  const faults: string[] = [];
  let open: { readonly id: string; readonly place: string }[] = [];
  for (const { place, message } of messages) {
    const said = message as Message;
    if (said.role === "tool") {
      const id = said.tool_call_id;
      const at = open.findIndex((call) => call.id === id);
      if (at >= 0) open.splice(at, 1);
      else {faults.push(
          `${place}: it answers call ${JSON.stringify(id)}, which no reply right before it made`,
        );}
      continue;
    }
    faults.push(...open.map(unanswered));
    const calls = said.role === "assistant" ? said.tool_calls ?? [] : [];
    open = calls.map(({ id }) => ({ id, place }));
  }
  return faults;
}

function unanswered({ id, place }: { readonly id: string; readonly place: string }): string {
  return `${place}: its call ${JSON.stringify(id)} isn't answered right after it`;
}
