import { Type } from "typebox";
import { errorResponses, HttpError } from "../http/http_error.ts";
import { queryNumber } from "../http/query_number.ts";
import { type Route, route } from "../http/route.ts";
import { closed, COUNT } from "../http/schema.ts";
import type { SessionInfo } from "../sessions/session_types.ts";
import { CREATE_SESSION } from "../sessions/session_settings.ts";
import type { Sessions } from "../sessions/sessions.ts";
import { approvalBodies, APPROVALS } from "./approval_routes.ts";
import { LEDGER } from "./event_schema.ts";
import { MESSAGE } from "./message_schemas.ts";
import { SESSION, sessionBody, SESSIONS, sessionWith } from "./session_body.ts";

const COST = Type.Number({ minimum: 0 });
const QUOTED_PROMPT = closed(
  { promptTokens: COUNT, cachedTokens: COUNT, warmTokenUnits: COST, coldTokenUnits: COST },
  "QuotedPrompt",
);

const NO_SESSION = errorResponses({ 404: "There is no such session." });

const LIMIT = queryNumber({
  name: "limit",
  says: "Most sessions in the answer.",
  usual: 100,
  least: 1,
  most: 1000,
});

/** Longest text that is searched for, in UTF-16 code units. */
const MAX_SEARCH = 200;

/** The routes that make, show, quote and delete sessions. */
export function sessionRoutes(sessions: Sessions): readonly Route[] {
  return [
    route({
      method: "POST",
      path: "/v1/sessions",
      operationId: "createSession",
      summary: "Makes a session.",
      body: CREATE_SESSION,
      responses: {
        201: { description: "The session.", content: { "application/json": SESSION } },
        ...errorResponses({
          507: "The server keeps as many sessions as it may, or its store has no room left.",
        }),
      },
      async answer({ body, keep }) {
        const answerOf = (session: SessionInfo) => ({
          status: 201,
          headers: { location: `/v1/sessions/${session.id}` },
          json: sessionBody(session),
        });
        const made = await sessions.create([body], {
          keep: (made) => made.flatMap((one) => keep({ sessionId: one.id, answer: answerOf(one) })),
        });
        return answerOf(made[0]!);
      },
    }),
    route({
      method: "GET",
      path: "/v1/sessions",
      operationId: "listSessions",
      summary: "Lists sessions, the newest first.",
      parameters: [
        LIMIT.parameter,
        {
          name: "after",
          in: "query",
          description: "Id of the last session of the page before. Default: the list begins with the newest.",
          schema: Type.String(),
        },
        {
          name: "search",
          in: "query",
          description: "Only sessions whose title holds this text, A to Z in either case. Default: all.",
          schema: Type.String({ maxLength: MAX_SEARCH }),
        },
        {
          name: "helpers",
          in: "query",
          description:
            "Whether the sessions of helpers are listed too, beside those that they work for. Default: false.",
          schema: Type.Enum(["true", "false"]),
        },
      ],
      responses: {
        200: {
          description: "The sessions, and whether there are more behind them.",
          content: {
            "application/json": closed({ sessions: SESSIONS, hasMore: Type.Boolean() }, "SessionList"),
          },
        },
        ...errorResponses({ 400: "A parameter isn't right.", 404: "There is no session `after`." }),
      },
      async answer({ request }) {
        const url = new URL(request.url);
        const after = url.searchParams.get("after");
        const search = url.searchParams.get("search") ?? "";
        const doing = "list sessions";
        const limit = LIMIT.read(request, doing);
        if (search.length > MAX_SEARCH) {
          const why = `search has ${search.length} characters, and at most ${MAX_SEARCH} are looked for`;
          throw new HttpError(400, "invalid_request", `Cannot ${doing}: ${why}.`);
        }
        const helpers = url.searchParams.get("helpers") ?? "false";
        if (helpers !== "true" && helpers !== "false") {
          const why = `helpers is ${JSON.stringify(helpers)}, and must be true or false`;
          throw new HttpError(400, "invalid_request", `Cannot ${doing}: ${why}.`);
        }
        const page = await sessions.list({
          ...{ limit, search, forks: helpers === "true" },
          ...(after !== null && { after }),
        });
        return { json: { ...page, sessions: page.sessions.map(sessionBody) } };
      },
    }),
    route({
      method: "GET",
      path: "/v1/sessions/{id}",
      operationId: "getSession",
      summary: "Shows a session with its messages, and the turn that runs in it.",
      responses: {
        200: {
          description: "The session.",
          content: {
            "application/json": sessionWith({
              messages: Type.Array(MESSAGE, {
                description: "What was said, by the running turn too: its replies and results so far.",
              }),
              helpers: Type.Array(
                closed({
                  id: Type.String({ description: "Id of the call that it was made for." }),
                  session: Type.String({ description: "Id of its session." }),
                }, "Helper"),
                { description: "The sessions of its helpers, the oldest first." },
              ),
              approvals: APPROVALS,
              turn: Type.Optional(closed({
                after: Type.Integer({ minimum: 0, description: "Number of the last event before it." }),
                firstMessage: Type.Integer({ minimum: 0, description: "Index of its first message." }),
                step: Type.Integer({ minimum: 1, description: "The model call that it is at." }),
                ledger: LEDGER,
              }, "RunningTurn")),
            }, "SessionWithMessages"),
          },
        },
        ...NO_SESSION,
      },
      async answer({ path: { id = "" } }) {
        const session = await sessions.get(id);
        const helpers = await sessions.helpers(session);
        const approvals = approvalBodies(session.questions);
        return {
          json: { ...sessionBody(session), helpers, approvals, ...await sessions.transcript(session) },
        };
      },
    }),
    route({
      method: "DELETE",
      path: "/v1/sessions/{id}",
      operationId: "deleteSession",
      summary: "Cancels what runs in a session and its helpers, and forgets all of them.",
      responses: { 204: { description: "It is gone." }, ...NO_SESSION },
      async answer({ path: { id = "" } }) {
        await sessions.delete(id);
        return new Response(null, { status: 204 });
      },
    }),
    route({
      method: "GET",
      path: "/v1/sessions/{id}/archive/{ref}",
      operationId: "getArchived",
      summary: "Gives the original of what left the prompt.",
      responses: {
        200: { description: "The original.", content: { "text/plain": Type.String() } },
        ...errorResponses({ 404: "There is no such session, or it archived nothing so named." }),
      },
      async answer({ path: { id = "", ref = "" } }) {
        const { archive } = await sessions.get(id);
        const content = await archive.get(ref);
        if (content === undefined) {
          throw new HttpError(
            404,
            "not_found",
            `Cannot find ${ref}: session ${id} archived nothing so named.`,
          );
        }
        return new Response(content, { headers: { "content-type": "text/plain; charset=utf-8" } });
      },
    }),
    route({
      method: "GET",
      path: "/v1/sessions/{id}/quote",
      operationId: "quoteSession",
      summary:
        "Says what resending the turns that have ended would cost, as they stand and without all that could leave now, " +
        "with a warm and a cold cache. Costs are in token units: the price of one uncached input token is 1.",
      responses: {
        200: {
          description: "The quote.",
          content: {
            "application/json": closed({
              asIs: QUOTED_PROMPT,
              rewritten: QUOTED_PROMPT,
              alive: Type.Number({ minimum: 0, maximum: 1 }),
            }, "Quote"),
          },
        },
        ...errorResponses({
          404: "There is no such session.",
          501: "The server's policy knows nothing of costs.",
        }),
      },
      async answer({ path: { id = "" } }) {
        const session = await sessions.get(id);
        const quote = session.prompt.quote(session.history);
        if (quote) return { json: quote };
        throw new HttpError(
          501,
          "not_supported",
          `Cannot quote session ${id}: the server's policy knows nothing of costs. The planner does.`,
        );
      },
    }),
  ];
}
