import { Keys } from "@tare/session";
import type { Content } from "@tare/messages";
import { firstWords } from "@tare/messages/internal";
import { Type } from "typebox";
import { API_PATH } from "../http/api_path.ts";
import { assertFor } from "../http/guard.ts";
import { HttpError, invalidRequest, notFound, notSupported } from "../http/http_error.ts";
import { json, route } from "../http/route.ts";
import { closed, COUNT, count, limitOf, optionalText } from "../http/schema.ts";
import { readTranscript, type Transcript } from "../sessions/history.ts";
import type { AgentSession } from "../sessions/agent_session.ts";
import type { ListedSession } from "@tare/session/internal";
import { sessionNotFound } from "../sessions/session_errors.ts";
import { CREATE_SESSION } from "../sessions/session_settings.ts";
import type { Sessions } from "../sessions/sessions.ts";
import { CONTENT } from "./message_schemas.ts";
import {
  ANY_SESSION,
  ANY_SESSION_DETAILS,
  openSession,
  type ServerSessions,
  SESSION,
  sessionBody,
} from "./session_body.ts";

const COST = Type.Number({ minimum: 0 });
const QUOTED_PROMPT = closed(
  { promptTokens: COUNT, cachedTokens: COUNT, warmCostUnits: COST, coldCostUnits: COST },
  "QuotedPrompt",
);

const NO_SESSION = { 404: "There is no such session." };

export const KIND = Type.Optional(Type.Enum(["agent", "gateway"], {
  description:
    "`agent`: sessions of this server's agent; `gateway`: sessions of other agents. Default: both.",
}));

const RENAME = closed(
  {
    title: Type.String({
      maxLength: 120,
      pattern: "\\S",
      description: "Line breaks and other white space become spaces.",
    }),
  },
  "Rename",
  { title: "The notes" },
);

export function sessionRoutes(registry: ServerSessions, sessions: Sessions) {
  return [
    route({
      method: "POST",
      path: "/sessions",
      operationId: "createSession",
      isAtomic: true,
      begins: true,
      summary: "Creates a session.",
      body: CREATE_SESSION,
      responses: {
        201: json("The session.", SESSION),
        507: "The limit of stored sessions is reached, or the store is full.",
      },
      async answer({ body, keep, caller }) {
        // A rule may allow calls in advance.
        if (body.approvalRules?.length) assertFor("approve", caller);
        const answerOf = (session: ListedSession) => ({
          status: 201,
          headers: { location: `${API_PATH}/sessions/${session.id}` },
          json: sessionBody(session),
        });
        const made = await sessions.create([body], {
          by: Keys.nameOf(caller),
          keep: (made) => made.flatMap((one) => keep({ sessionId: one.id, answer: answerOf(one) })),
        });
        return answerOf(made[0]!);
      },
    }),
    route({
      method: "GET",
      path: "/sessions",
      operationId: "listSessions",
      who: "key",
      summary: "Lists sessions of both kinds, the newest first.",
      query: {
        kind: KIND,
        limit: limitOf(1_000, 100, "Most sessions in the response."),
        after: optionalText(
          "Id of the last session of the previous page. Default: the first page.",
        ),
        search: Type.String({
          maxLength: 200,
          default: "",
          description:
            "Text that titles must contain, in either case. Messages aren't searched. Default: all sessions.",
        }),
        subagents: Type.Boolean({
          default: false,
          description: "Whether to list the sessions of subagents too.",
        }),
      },
      responses: {
        200: json(
          "The sessions, and whether there are more.",
          closed(
            { sessions: Type.Array(ANY_SESSION), hasMore: Type.Boolean() },
            "SessionList",
          ),
        ),
        404: "There is no session `after`.",
      },
      async answer({ query: { subagents: forks, ...query }, caller }) {
        const page = await registry.list({ ...query, forks, by: Keys.nameOf(caller) });
        if (!page) throw sessionNotFound(query.after ?? "");
        return { json: page };
      },
    }),
    route({
      method: "GET",
      path: "/sessions/{id}",
      operationId: "getSession",
      summary:
        "Returns a session: the agent's with its messages and running turn, another agent's with its " +
        "evicted content and the reasons.",
      responses: {
        200: json("The session.", ANY_SESSION_DETAILS),
        ...NO_SESSION,
      },
      answer: async ({ path: { id } }) => ({ json: await (await openSession(registry, id)).details() }),
    }),
    route({
      method: "DELETE",
      path: "/sessions/{id}",
      operationId: "deleteSession",
      summary:
        "Cancels the turns of a session and its subagents, and deletes all of them; of another agent's, " +
        "the data stored here.",
      responses: { 204: "The session is deleted.", ...NO_SESSION },
      async answer({ path: { id } }) {
        await (await openSession(registry, id)).delete();
        return new Response(null, { status: 204 });
      },
    }),
    route({
      method: "POST",
      path: "/sessions/{id}/title",
      operationId: "renameSession",
      isAtomic: true,
      summary: "Sets the title of a session.",
      body: RENAME,
      responses: {
        200: json("The session.", ANY_SESSION),
        ...NO_SESSION,
      },
      async answer({ path: { id }, body: { title }, keep }) {
        const session = await openSession(registry, id);
        const named = await session.rename(
          firstWords(title),
          (json) => keep({ sessionId: id, answer: { json } }),
        );
        return { json: named };
      },
    }),
    route({
      method: "GET",
      path: "/sessions/{id}/archive/{ref}",
      operationId: "getArchived",
      summary: "Returns the original of evicted content.",
      responses: {
        200: { description: "The original.", content: { "text/plain": Type.String() } },
        404: "There is no such session, or no such reference in its archive.",
      },
      async answer({ path: { id, ref } }) {
        const content = await (await openSession(registry, id)).archived(ref);
        if (content === undefined) {
          throw notFound(`Cannot find ${ref}: the archive of session ${id} has no such reference.`);
        }
        return new Response(content, { headers: { "content-type": "text/plain; charset=utf-8" } });
      },
    }),
  ];
}

const FORK = closed(
  {
    before: Type.Optional(
      count(
        "Position of a user message, from 0, in the session's `messages`: the fork ends before it. " +
          "Default: after all turns that have ended.",
      ),
    ),
  },
  "Fork",
  { before: 1 },
);

export function agentSessionRoutes(sessions: Sessions) {
  return [
    route({
      method: "POST",
      path: "/sessions/{id}/fork",
      operationId: "forkSession",
      isAtomic: true,
      begins: true,
      summary:
        "Creates a session that continues from this one, as a whole or before a user message, to change " +
        "or repeat it. This session and its files are unchanged. A running turn continues, and isn't " +
        "included.",
      body: FORK,
      responses: {
        201: json(
          "The session, and the content of the message that it ends before.",
          closed({ session: SESSION, input: Type.Optional(CONTENT) }, "ForkedSession"),
        ),
        400: "The message isn't the user's.",
        404: "There is no such session.",
        409: "Approvals are pending, or the message belongs to the running turn.",
        507: "The limit of stored sessions is reached, or the store is full.",
      },
      async answer({ path: { id }, body: { before }, keep, caller }) {
        const session = await sessions.get(id);
        const { length, input } = before === undefined
          ? wholeOf(session)
          : partBefore(await readTranscript(session, sessions.store), {
            id,
            before,
            ended: session.history.length,
          });
        const answerOf = (made: ListedSession) => ({
          status: 201,
          headers: { location: `${API_PATH}/sessions/${made.id}` },
          json: { session: sessionBody(made), ...(input !== undefined && { input }) },
        });
        const made = await sessions.fork(session, {
          ...{ length, by: Keys.nameOf(caller) },
          keep: (made) => keep({ sessionId: made.id, answer: answerOf(made) }),
        });
        return answerOf(made);
      },
    }),
    route({
      method: "GET",
      path: "/sessions/{id}/quote",
      operationId: "quoteSession",
      summary: "Returns the cost of sending the ended turns again, as they are and fully rewritten, with a " +
        "warm and a cold cache. Costs are in cost units (one unit is the price of one uncached input " +
        "token).",
      responses: {
        200: json(
          "The quote.",
          closed({
            asIs: QUOTED_PROMPT,
            rewritten: QUOTED_PROMPT,
            cacheHitProbability: Type.Number({
              minimum: 0,
              maximum: 1,
              description: "Probability of a cache hit.",
            }),
          }, "Quote"),
        ),
        404: "There is no such session.",
        501: "The server's policy has no costs.",
      },
      async answer({ path: { id } }) {
        const session = await sessions.get(id);
        const quote = session.prompt.quote(session.history);
        if (quote) return { json: quote };
        throw notSupported(
          `Cannot quote session ${id}: the server's policy has no costs. Use the planner.`,
        );
      },
    }),
  ];
}

interface ForkPoint {
  readonly length: number;
  readonly input?: Content;
}

/** @throws {HttpError} 409 if calls have no result. */
function wholeOf(session: AgentSession): ForkPoint {
  session.assertSettled();
  return { length: session.history.length };
}

/** @throws {HttpError} 400 if no user message is there, 409 if it belongs to the running turn. */
function partBefore(
  { messages }: Transcript,
  { id, before, ended }: { readonly id: string; readonly before: number; readonly ended: number },
): ForkPoint {
  const message = messages[before];
  if (message?.role !== "user") {
    const places = messages.flatMap(({ role }, place) => role === "user" ? [place] : []);
    const right = places.length === 0
      ? "there is none"
      : `user messages are at ${places.slice(-MAX_PLACES).join(", ")}`;
    throw invalidRequest(
      `Cannot fork session ${id} before message ${before}: it isn't the user's, and ${right}.`,
    );
  }
  // A running turn's messages about tools and environment precede its input, and aren't history yet.
  if (messages.slice(ended, before).every(({ role }) => role === "system")) {
    return { length: Math.min(before, ended), input: message.content };
  }
  throw new HttpError(
    409,
    "turn_running",
    `Cannot fork session ${id} before message ${before}: it belongs to the running turn. Wait for its ` +
      "turn_end, or cancel it.",
  );
}

const MAX_PLACES = 20;
