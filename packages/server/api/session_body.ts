import { type Caller, Keys } from "@tare/session";
import type { ListedSession, OpenSession, SessionRegistry } from "@tare/session/internal";
import { usageTotals } from "@tare/session/internal/report";
import { EMPTY_LEDGER } from "@tare/loop/internal";
import { type Static, Type } from "typebox";
import type { Reads } from "../http/route.ts";
import { closed, COUNT, count, optionalText, text } from "../http/schema.ts";
import {
  parentOf,
  SESSION_SETTINGS,
  type StoredSettings,
  storedSettings,
} from "../sessions/session_settings.ts";
import { sessionNotFound } from "../sessions/session_errors.ts";
import { NO_TURNS, type PendingApproval, type SessionTotals } from "../sessions/session_types.ts";
import { BEGUN, EFFECTS, FILE_CHANGE, LEDGER, PARENT, WHY } from "./event_schema.ts";
import { MESSAGE } from "./message_schemas.ts";
import { GATEWAY_SESSION, GATEWAY_SESSION_DETAILS, TOTAL_FIELDS } from "./report_schemas.ts";

const FIELDS = {
  kind: Type.Literal("agent"),
  id: Type.String(),
  key: optionalText("Name of the key that created it; absent: the owner's."),
  createdAt: Type.String({ format: "date-time" }),
  status: Type.Enum(["idle", "running"]),
  awaitsApproval: Type.Optional(
    Type.Literal(true, { description: "Calls of its last turn wait for approval." }),
  ),
  title: text(
    "The user's title, else the creator's (`metadata.title`), else the first message: one line of at " +
      "most 120 characters.",
  ),
  ...SESSION_SETTINGS.properties,
  parent: Type.Optional(closed({
    session: text("Id of the session that the subagent works for."),
    call: text("Id of the call that it was started for."),
  }, "SubagentParent")),
  forkedFrom: Type.Optional(closed({
    session: text("Id of the session that it was forked from, which is unchanged."),
    messages: count("Number of inherited messages."),
  }, "ForkedFrom")),
  turns: COUNT,
  lastEvent: COUNT,
  ledger: LEDGER,
  totals: closed(TOTAL_FIELDS, "UsageTotals"),
};

export const SESSION = closed(FIELDS, "Session", {
  kind: "agent",
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
  totals: usageTotals.nothing,
});

export const SESSIONS = Type.Array(SESSION);

const MS = Type.Number({ minimum: 0, description: "In milliseconds since the epoch." });

export const APPROVAL = closed({
  id: text("Id of the approval, to answer it by."),
  callId: text("Id of the call, which may repeat."),
  name: text("Tool of the call."),
  arguments: text("Arguments of the call, as JSON."),
  why: Type.Optional(WHY),
  begun: Type.Optional(BEGUN),
  parent: PARENT,
  effects: Type.Optional(EFFECTS),
  change: Type.Optional(FILE_CHANGE),
  requestedAtMs: MS,
  expiresAtMs: Type.Number({
    minimum: 0,
    description: "Time at which it is denied without an answer, in milliseconds since the epoch.",
  }),
}, "Approval");

const SUBAGENT = closed({
  id: text("Id of the call that it was started for."),
  session: text("Id of its session."),
}, "Subagent");

const RUNNING_TURN = closed({
  after: count("Number of the last event before it."),
  firstMessage: count("Index of its first message."),
  step: Type.Integer({ minimum: 1, description: "Current model call." }),
  ledger: LEDGER,
}, "RunningTurn");

export const SUPPORTS_IMAGES = Type.Optional(Type.Boolean({
  description:
    "Whether its model is known to receive images; if unknown, its provider decides. Absent: unknown " +
    "for all models.",
}));

const SESSION_WITH_MESSAGES = closed({
  ...FIELDS,
  messages: Type.Array(MESSAGE, {
    description: "Messages, including the running turn's replies and results.",
  }),
  subagents: Type.Array(SUBAGENT, { description: "Sessions of its subagents, the oldest first." }),
  approvals: Type.Array(APPROVAL),
  plan: Type.Optional(closed({
    steps: Type.Array(Type.String()),
    done: count("Number of completed steps: the next one is in progress."),
  }, "Plan")),
  turn: Type.Optional(RUNNING_TURN),
  supportsImages: SUPPORTS_IMAGES,
  prompt: closed({
    tokens: count("Tokens of the newest call's prompt; zero before it."),
    windowTokens: Type.Number({ description: "Context window in tokens." }),
  }, "NewestPrompt"),
}, "SessionWithMessages");

export const ANY_SESSION = Type.Union([SESSION, GATEWAY_SESSION]);

export const ANY_SESSION_DETAILS = Type.Union([SESSION_WITH_MESSAGES, GATEWAY_SESSION_DETAILS]);

export type SessionSummary = Reads<Static<typeof ANY_SESSION>>;

export type SessionDetails = Reads<Static<typeof ANY_SESSION_DETAILS>>;

/** The sessions of a server: the agent's, and with a gateway those of other agents. */
export type ServerSessions = SessionRegistry<SessionSummary, SessionDetails>;

/** Opens a session of either kind. @throws {HttpError} 404 if there is none. */
export async function openSession(
  registry: ServerSessions,
  id: string,
): Promise<OpenSession<SessionSummary, SessionDetails>> {
  const session = await registry.open(id);
  if (!session) throw sessionNotFound(id);
  return session;
}

/** @throws {HttpError} 404 if there is no such session, or the key may not see it. */
export async function assertSees(registry: ServerSessions, id: string, caller: Caller): Promise<void> {
  const found = await registry.find(id);
  if (!found || !Keys.sees(caller, found.by)) throw sessionNotFound(id);
}

export function approvalBodies(questions: readonly PendingApproval[]) {
  return questions.map(({ approvalId, id: callId, pin: _pin, beganAtMs: _began, ...question }) => ({
    id: approvalId,
    callId,
    ...question,
  }));
}

export function sessionBody(
  { id, by, createdAtMs, title = "", lastEvent, isHeld = false, settings, totals, parent: of }: ListedSession,
): Static<typeof SESSION> {
  const { turns, ledger, days, chosen, pendingApproval } = {
    ...NO_TURNS,
    ...totals as SessionTotals | undefined,
  };
  const parent = parentOf({ settings, ...(of !== undefined && { parent: of }) });
  const { forkedFrom } = settings as StoredSettings;
  return {
    kind: "agent",
    id,
    ...(by !== undefined && { key: by }),
    createdAt: new Date(createdAtMs).toISOString(),
    status: isHeld ? "running" : "idle",
    ...(pendingApproval && { awaitsApproval: true as const }),
    title: title as string,
    ...storedSettings(settings, chosen),
    ...(parent && { parent }),
    ...(forkedFrom && { forkedFrom }),
    turns,
    lastEvent,
    ledger,
    totals: usageTotals.days(days),
  };
}
