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

const FILE = "application/vnd.sqlite3";

export function transferRoutes(sessions: Sessions, store: Pick<Store, "copy">) {
  return [
    route({
      method: "GET",
      path: "/backup",
      operationId: "backUp",
      who: "owner",
      summary:
        "Returns a copy of the store as a file that a server can be started with. A file shorter than " +
        "its length is incomplete.",
      responses: {
        200: {
          description: "The file: a SQLite database.",
          content: { [FILE]: Type.Unsafe<string>({ type: "string", format: "binary" }) },
        },
        404: "The store isn't a file: back up its database.",
        409: "A backup is running already.",
      },
      async answer() {
        if (!store.copy) {
          throw notFound(
            "Cannot back up here: the store is a database, not a file of this server. Use the " +
              "database's own tools, such as pg_dump.",
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
        "Returns the messages of the turns that have ended: one per line, the system message first; or, " +
        "without it, one HTML file without scripts and external content.",
      query: {
        format: Type.Enum(["lines", "html"], {
          default: "lines",
          description: "`lines`: JSON. `html`: for reading.",
        }),
      },
      responses: {
        200: { description: "The messages.", content: { [LINES]: MESSAGE, "text/html": Type.String() } },
        404: "There is no such session.",
      },
      async answer({ path: { id }, query: { format } }) {
        const session = await sessions.get(id);
        if (format === "html") {
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
        "Creates a session from messages, one per line, or several sessions from lines with their messages.",
      lines: SESSION_LINE,
      responses: {
        201: json(
          "The sessions, in the order of the lines.",
          closed({ sessions: SESSIONS }, "ImportedSessions"),
        ),
        400: "Some lines are invalid: the error names each by its number. Nothing was imported.",
        507: "The limit of stored sessions is reached, or the store is full. Nothing was imported.",
      },
      async answer({ body, keep, caller }) {
        const answerOf = (made: readonly ListedSession[]) => ({
          status: 201,
          json: { sessions: made.map(sessionBody) },
        });
        const made = await sessions.create(parseSessions(String(body)).map(asNewSession), {
          by: Keys.nameOf(caller),
          keep: (made) => keep({ answer: answerOf(made) }),
        });
        return answerOf(made);
      },
    }),
  ];
}

function fileNameOf({ title }: { readonly title: string }): string {
  const words = title.normalize("NFKD").replaceAll(/[^A-Za-z0-9]+/g, "-").slice(0, 60);
  return `${words.replaceAll(/^-+|-+$/g, "") || "session"}.html`;
}

function asNewSession(messages: readonly Message[]): NewSession {
  const [first] = messages;
  const instructions = first && instructionsOf(first);
  return { instructions: instructions ?? "", messages: messages.slice(instructions === undefined ? 0 : 1) };
}

function instructionsOf({ role, content, ...rest }: Message): string | undefined {
  if (role !== "system" || typeof content !== "string" || Object.keys(rest).length > 0) return undefined;
  return content === "" ? undefined : content;
}

const SESSION_LINE = Type.Union([MESSAGE, Type.Object({ messages: Type.Array(MESSAGE) })], {
  title: "SessionLine",
  examples: [{ role: "user", content: "Which files are there?" }],
});

/** Fields of recordings that no API accepts. */
const NOTES = ["ts", "usage", "meta", "error"];

const MAX_FAULTS = 20;

type Fields = Readonly<Record<string, unknown>>;

interface PlacedMessage {
  readonly place: string;
  readonly message: unknown;
}

/**
 * Reads sessions from lines of JSON. Either each line is a chat message of one session, or each line is a session: an
 * object with `messages`, whose other fields are ignored, as are the fields `ts`, `usage`, `meta` and `error` of its
 * messages. Empty lines are skipped. Each call must be answered once, immediately after its reply, and each answer
 * must have its call. Only calls of a session's last reply may be open.
 *
 * @throws {HttpError} 400 that names each invalid line, from 1, and its fault.
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
  // Unreadable lines leave calls without answers, so that their faults are reported first.
  if (faults.length === 0) { for (const messages of sessions) faults.push(...pairFaults(messages)); }
  if (faults.length === 0 && sessions.length === 0) faults.push("it holds no messages");
  if (faults.length > 0) throw invalidRequest(describe(faults));
  return sessions.map((messages) => messages.map(({ message }) => message as Message));
}

function describe(faults: readonly string[]): string {
  const detail = faults.slice(0, MAX_FAULTS).join("; ");
  const more = faults.length > MAX_FAULTS ? `; and ${faults.length - MAX_FAULTS} more` : "";
  return `Cannot import: ${detail}${more}. Nothing was imported.`;
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
    const entry = message as Message;
    if (entry.role === "tool") {
      const id = entry.tool_call_id;
      const at = open.findIndex((call) => call.id === id);
      if (at >= 0) open.splice(at, 1);
      else {faults.push(
          `${place}: it answers call ${JSON.stringify(id)}, which the reply before it didn't make`,
        );}
      continue;
    }
    faults.push(...open.map(unanswered));
    const calls = entry.role === "assistant" ? entry.tool_calls ?? [] : [];
    open = calls.map(({ id }) => ({ id, place }));
  }
  return faults;
}

function unanswered({ id, place }: { readonly id: string; readonly place: string }): string {
  return `${place}: its call ${JSON.stringify(id)} isn't answered immediately after it`;
}
