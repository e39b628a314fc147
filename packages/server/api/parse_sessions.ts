import type { Message } from "@tare/messages";
import { Type } from "typebox";
import { HttpError } from "../http/http_error.ts";
import { checker } from "../http/schema.ts";
import { MESSAGE, MESSAGE_BY_ROLE } from "./message_schemas.ts";

/** A line that {@linkcode parseSessions} reads. */
export const SESSION_LINE = Type.Union([MESSAGE, Type.Object({ messages: Type.Array(MESSAGE) })], {
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
  if (faults.length > 0) throw new HttpError(400, "invalid_request", describe(faults));
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

const checkers = new Map<string, (message: unknown) => string | undefined>();

/** Compiling a schema takes milliseconds, which a server has no need to spend before somebody imports. */
function checkerOf(role: keyof typeof MESSAGE_BY_ROLE): (message: unknown) => string | undefined {
  const check = checkers.get(role) ?? checker(MESSAGE_BY_ROLE[role], "the message");
  checkers.set(role, check);
  return check;
}

function messageFaults({ place, message }: PlacedMessage): string[] {
  const role = (message as Fields | null)?.role;
  const roles = Object.keys(MESSAGE_BY_ROLE).join(", ");
  const fault = isRole(role)
    ? checkerOf(role)(message)
    : `role is ${JSON.stringify(role) ?? "missing"} and must be one of ${roles}`;
  return fault === undefined ? [] : [`${place}: ${fault}`];
}

function isRole(role: unknown): role is keyof typeof MESSAGE_BY_ROLE {
  return typeof role === "string" && Object.hasOwn(MESSAGE_BY_ROLE, role);
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
