import type { JsonSchema } from "@tare/messages";
import { ApiError } from "@tare/wire";
import {
  closedSchema as closed,
  listOf as list,
  REWRITE_REPORT,
  sumOfDays,
  SUMS,
} from "@tare/conversation/report";
import type { DatedRewrite } from "@tare/conversation";
import type { Compaction, GatewaySession } from "./session.ts";

const NUMBER: JsonSchema = { type: "number" };
const TEXT: JsonSchema = { type: "string" };
const TIME: JsonSchema = { type: "string", format: "date-time" };
const FLAG: JsonSchema = { type: "boolean" };

const FIELDS = {
  id: TEXT,
  title: TEXT,
  protocol: TEXT,
  model: TEXT,
  startedAt: TIME,
  lastAt: TIME,
  control: FLAG,
  reverted: FLAG,
  epoch: NUMBER,
  ...SUMS.properties as Readonly<Record<string, JsonSchema>>,
  savedTokenUnits: NUMBER,
};

const SESSION = closed("GatewaySession", FIELDS);
const COMPACTION = closed("GatewayCompaction", {
  at: TIME,
  promptTokens: NUMBER,
  cachedTokens: NUMBER,
  outputTokens: NUMBER,
  tokenUnits: NUMBER,
}, { usd: NUMBER });
const { properties, required } = REWRITE_REPORT as {
  readonly properties: JsonSchema;
  readonly required: readonly string[];
};
const REWRITE: JsonSchema = {
  ...REWRITE_REPORT,
  title: "GatewayRewrite",
  properties: { at: TIME, ...properties },
  required: ["at", ...required],
};
const PROMPT = closed("GatewayPrompt", {
  tokens: NUMBER,
  left: closed("GatewayLeft", { context: NUMBER, prune: NUMBER, schemas: NUMBER, truncate: NUMBER }),
});

/** JSON Schema of a page of sessions. */
export const SESSION_LIST: JsonSchema = closed("GatewaySessionList", {
  sessions: list(SESSION),
  hasMore: FLAG,
});

/** JSON Schema of a session with all that is known of it. */
export const SESSION_DETAILS: JsonSchema = closed("GatewaySessionDetails", {
  ...FIELDS,
  archiveBytes: NUMBER,
  prompt: { anyOf: [PROMPT, { type: "null" }] },
  rewrites: list(REWRITE),
  compactionCalls: list(COMPACTION),
});

/** Sessions in a list that asks for no number of them, and most in any. */
const PAGE = { usual: 100, most: 1_000 };

/**
 * A page of sessions, the newest first: at most `limit`, behind the one with the id `after`, and with a `search` only
 * those whose title holds it.
 *
 * @throws {ApiError} if the limit isn't one (400), or there is no session `after` (404).
 */
export function sessionList(sessions: readonly GatewaySession[], query: URLSearchParams): Response {
  const asked = query.get("limit") ?? String(PAGE.usual);
  const limit = Number(asked);
  if (!/^\d+$/.test(asked) || limit < 1 || limit > PAGE.most) {
    const right = `it must be a whole number from 1 to ${PAGE.most}`;
    throw new ApiError(400, `Cannot list sessions: limit is ${JSON.stringify(asked)}, but ${right}.`, {
      code: "invalid_request",
      param: "limit",
    });
  }
  const after = query.get("after");
  const search = (query.get("search") ?? "").toLowerCase();
  const from = after === null ? 0 : 1 + sessions.indexOf(knownSession(sessions, after));
  const found = sessions.slice(from).filter(({ conversation: { state: { title } } }) =>
    title.toLowerCase().includes(search)
  );
  return Response.json({ sessions: found.slice(0, limit).map(summary), hasMore: limit < found.length });
}

/** A session with what left its prompt and why. @throws {ApiError} if there is none of this id (404). */
export function sessionDetails(sessions: readonly GatewaySession[], id: string): Response {
  const session = knownSession(sessions, id);
  const { archive, facts: { compactions }, conversation: { state: { figures, rewrites } } } = session;
  return Response.json({
    ...summary(session),
    archiveBytes: archive.bytes,
    prompt: figures ? { tokens: figures.promptTokens, left: figures.saved } : null,
    rewrites: rewrites.map(dated),
    compactionCalls: compactions.map(dated),
  });
}

function summary({ id, facts, conversation: { state } }: GatewaySession) {
  const { protocol, startedMs, lastMs, control, isReverted } = facts;
  const { title, model, epoch, days, savedTokenUnits } = state;
  return {
    ...{ id, title, protocol, model, startedAt: time(startedMs), lastAt: time(lastMs), control },
    ...{ reverted: isReverted, epoch, ...sumOfDays(days), savedTokenUnits },
  };
}

function dated({ atMs, ...rest }: DatedRewrite | Compaction) {
  return { at: time(atMs), ...rest };
}

function time(ms: number): string {
  return new Date(ms).toISOString();
}

/** The session with this id. @throws {ApiError} if there is none (404). */
export function knownSession(sessions: readonly GatewaySession[], id: string): GatewaySession {
  const session = sessions.find((one) => one.id === id);
  if (session) return session;
  throw new ApiError(
    404,
    `Cannot find the session ${JSON.stringify(id)}: the gateway knows none of this id.`,
    {
      code: "not_found",
    },
  );
}
