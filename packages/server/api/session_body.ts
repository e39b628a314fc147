import { EMPTY_LEDGER } from "@tare/loop";
import { type Static, Type } from "typebox";
import { closed, COUNT } from "../http/schema.ts";
import { SESSION_SETTINGS } from "../sessions/session_settings.ts";
import type { SessionInfo } from "../sessions/session_types.ts";
import { LEDGER } from "./event_schema.ts";

const FIELDS = {
  id: Type.String(),
  createdAt: Type.String({ format: "date-time" }),
  status: Type.Enum(["idle", "running"]),
  title: Type.String({ description: "What the user said first, in one line of at most 120 characters." }),
  ...SESSION_SETTINGS.properties,
  parent: Type.Optional(closed({
    session: Type.String({ description: "Id of the session whose helper it is." }),
    call: Type.String({ description: "Id of the call that it was made for." }),
  }, "HelperParent")),
  turns: COUNT,
  lastEvent: COUNT,
  ledger: LEDGER,
};

/** A session as its clients see it. */
export const SESSION = closed(FIELDS, "Session", {
  id: "0b7a4ce5-6c4f-4c7a-9a31-5a3f9b2d7c11",
  createdAt: "2026-01-02T03:04:05.678Z",
  status: "idle",
  instructions: "You are an agent that works in a folder of files.",
  model: "some-model",
  tools: ["read_file", "recall"],
  metadata: {},
  budget: {},
  approvalRules: [],
  title: "Which files are there?",
  turns: 0,
  lastEvent: 0,
  ledger: EMPTY_LEDGER,
});

/** A session as its clients see it, and more of it. */
export const sessionWith = <More extends Parameters<typeof closed>[0]>(more: More, title: string) =>
  closed({ ...FIELDS, ...more }, title);

/** Several sessions. */
export const SESSIONS = Type.Array(SESSION);

/** The JSON that clients get of a session. */
export function sessionBody(session: SessionInfo): Static<typeof SESSION> {
  const { id, createdAtMs, isRunning, title, settings, parent, turns, lastEvent, ledger } = session;
  return {
    id,
    createdAt: new Date(createdAtMs).toISOString(),
    status: isRunning ? "running" : "idle",
    title,
    ...settings,
    ...(parent && { parent }),
    turns,
    lastEvent,
    ledger,
  };
}
