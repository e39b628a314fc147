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
  { promptTokens: COUNT, cachedTokens: COUNT, warmTokenUnits: COST, coldTokenUnits: COST },
  "QuotedPrompt",
);

const NO_SESSION = { 404: "There is no such session." };

/** Which kind is asked for. */
export const KIND = Type.Optional(Type.Enum(["agent", "gateway"], {
  description:
    "`agent`: sessions of this server's agent; `gateway`: those of others, whose model calls pass through. Default: both.",
}));

/** Body of `POST /tare/v1/sessions/{id}/title`. */
const RENAME = closed(
  {
    title: Type.String({
      maxLength: 120,
      pattern: "\\S",
      description: "Line breaks and the like become spaces.",
    }),
  },
  "Rename",
  { title: "The notes" },
);

/** The routes that make, list, show, name and delete sessions. */
export function sessionRoutes(registry: ServerSessions, sessions: Sessions) {
  return [
    route({
      method: "POST",
      path: "/sessions",
      operationId: "createSession",
      isAtomic: true,
      begins: true,
      summary: "Makes a session.",
      body: CREATE_SESSION,
      responses: {
        201: json("The session.", SESSION),
        507: "The server keeps as many sessions as it may, or its store has no room left.",
      },
      async answer({ body, keep, asker }) {
        // A rule may say yes in advance.
        if (body.approvalRules?.length) assertFor("approve", asker);
        const answerOf = (session: ListedSession) => ({
          status: 201,
          headers: { location: `${API_PATH}/sessions/${session.id}` },
          json: sessionBody(session),
        });
        const made = await sessions.create([body], {
          by: Keys.nameOf(asker),
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
        limit: limitOf(1_000, 100, "Most sessions in the answer."),
        after: optionalText(
          "Id of the last session of the page before. Default: the list begins with the newest.",
        ),
        search: Type.String({
          maxLength: 200,
          default: "",
          description:
            "Only sessions whose title holds this text, letters in either case. What was said behind it isn't searched: " +
            "of other agents' sessions it stays with them. Default: all.",
        }),
        helpers: Type.Boolean({
          default: false,
          description: "Whether the sessions of helpers are listed too, beside those that they work for.",
        }),
      },
      responses: {
        200: json(
          "The sessions, and whether there are more behind them.",
          closed(
            { sessions: Type.Array(ANY_SESSION), hasMore: Type.Boolean() },
            "SessionList",
          ),
        ),
        404: "There is no session `after`.",
      },
      async answer({ query: { helpers: forks, ...query }, asker }) {
        const page = await registry.list({ ...query, forks, by: Keys.nameOf(asker) });
        if (!page) throw sessionNotFound(query.after ?? "");
        return { json: page };
      },
    }),
    route({
      method: "GET",
      path: "/sessions/{id}",
      operationId: "getSession",
      summary:
        "Shows a session: the agent's with its messages and the turn that runs in it, another's with what left its " +
        "prompt and why.",
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
        "Cancels what runs in a session and its helpers, and forgets all of them; of another agent's what is known here.",
      responses: { 204: "It is gone.", ...NO_SESSION },
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
      summary: "Gives a session a title, which it keeps.",
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
      summary: "Gives the original of what left the prompt.",
      responses: {
        200: { description: "The original.", content: { "text/plain": Type.String() } },
        404: "There is no such session, or it archived nothing so named.",
      },
      async answer({ path: { id, ref } }) {
        const content = await (await openSession(registry, id)).archived(ref);
        if (content === undefined) {
          throw notFound(`Cannot find ${ref}: session ${id} archived nothing so named.`);
        }
        return new Response(content, { headers: { "content-type": "text/plain; charset=utf-8" } });
      },
    }),
  ];
}

/** Body of `POST /tare/v1/sessions/{id}/fork`. */
const FORK = closed(
  {
    before: Type.Optional(
      count(
        "Place of one of the user's messages, from 0, as `messages` of the session has them: it goes on from before that. " +
          "Default: from all that was said in the turns that have ended.",
      ),
    ),
  },
  "Fork",
  { before: 1 },
);

/** What can be done with the agent's own sessions alone. */
export function agentSessionRoutes(sessions: Sessions) {
  return [
    route({
      method: "POST",
      path: "/sessions/{id}/fork",
      operationId: "forkSession",
      isAtomic: true,
      begins: true,
      summary:
        "Makes a session that goes on from what was said in this one, whole or before one of the user's messages: to say " +
        "that otherwise, or again. This one stays as it is, and so do files. A turn that runs isn't stopped, and isn't in it.",
      body: FORK,
      responses: {
        201: json(
          "The session, and what the message says that it goes on from before.",
          closed({ session: SESSION, input: Type.Optional(CONTENT) }, "ForkedSession"),
        ),
        400: "The message isn't one of the user's.",
        404: "There is no such session.",
        409: "Calls wait for an answer, or the message was said to a turn that runs.",
        507: "The server keeps as many sessions as it may, or its store has no room left.",
      },
      async answer({ path: { id }, body: { before }, keep, asker }) {
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
          ...{ length, by: Keys.nameOf(asker) },
          keep: (made) => keep({ sessionId: made.id, answer: answerOf(made) }),
        });
        return answerOf(made);
      },
    }),
    route({
      method: "GET",
      path: "/sessions/{id}/quote",
      operationId: "quoteSession",
      summary:
        "Says what resending the turns that have ended would cost, as they stand and without all that could leave now, " +
        "with a warm and a cold cache. Costs are in token units: the price of one uncached input token is 1.",
      responses: {
        200: json(
          "The quote.",
          closed({
            asIs: QUOTED_PROMPT,
            rewritten: QUOTED_PROMPT,
            alive: Type.Number({ minimum: 0, maximum: 1 }),
          }, "Quote"),
        ),
        404: "There is no such session.",
        501: "The server's policy knows nothing of costs.",
      },
      async answer({ path: { id } }) {
        const session = await sessions.get(id);
        const quote = session.prompt.quote(session.history);
        if (quote) return { json: quote };
        throw notSupported(
          `Cannot quote session ${id}: the server's policy knows nothing of costs. The planner does.`,
        );
      },
    }),
  ];
}

/** Where a fork begins that goes on from it. */
interface ForkPoint {
  /** How many messages it begins with. */
  readonly length: number;
  /** What the message behind them says. */
  readonly input?: Content;
}

/** @throws {HttpError} 409 if calls wait for an answer. */
function wholeOf(session: AgentSession): ForkPoint {
  session.assertSettled();
  return { length: session.history.length };
}

/** @throws {HttpError} 400 if no message of the user stands there, 409 if it was said to a turn that runs. */
function partBefore(
  { messages }: Transcript,
  { id, before, ended }: { readonly id: string; readonly before: number; readonly ended: number },
): ForkPoint {
  const message = messages[before];
  if (message?.role !== "user") {
    const places = messages.flatMap(({ role }, place) => role === "user" ? [place] : []);
    const right = places.length === 0
      ? "it has none"
      : `those are at ${places.slice(-MOST_PLACES).join(", ")}`;
    throw invalidRequest(
      `Cannot fork session ${id} before message ${before}: it isn't one of the user's, and ${right}.`,
    );
  }
  // What a turn that runs tells of tools and place stands in front of what opened it, and isn't history yet.
  if (messages.slice(ended, before).every(({ role }) => role === "system")) {
    return { length: Math.min(before, ended), input: message.content };
  }
  throw new HttpError(
    409,
    "turn_running",
    `Cannot fork session ${id} before message ${before}: it was said to the turn that runs. Wait for its turn_end, or ` +
      "cancel it.",
  );
}

/** So many places are told of whoever has named another one. */
const MOST_PLACES = 20;
