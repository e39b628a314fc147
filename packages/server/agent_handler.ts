import { ServerSentEventStream } from "@std/http";
import { schemaChecker } from "@tare/messages/arguments";
import type { EventLog, NumberedEvent } from "./event_log.ts";
import { errorResponse, HttpError } from "./http_error.ts";
import { readJson } from "./read_json.ts";
import { CREATE_SESSION, type CreateSession, START_TURN, type StartTurn } from "./request_schemas.ts";
import { startTurn } from "./run_turn.ts";
import { type Session, sessionBody } from "./session.ts";
import { type SessionOptions, Sessions } from "./sessions.ts";
import type { TurnOptions } from "./run_turn.ts";
import type { Model } from "@tare/loop";

/** What an agent server is made of. */
export interface AgentOptions extends SessionOptions, Pick<TurnOptions, "limits"> {
  /** The model port for a model's name. */
  readonly model: (name: string) => Model;
  /** Largest request body in bytes. Default: 10 MiB. */
  readonly maxBodyBytes?: number;
  /** Told of every error that clients don't get to read. Default: such errors are dropped. */
  readonly onError?: (error: unknown) => void;
}

/** An agent server as a function from request to response, with no port of its own. */
export interface AgentHandler {
  /** Answers a request. Never rejects. */
  readonly fetch: (request: Request) => Promise<Response>;
  /** Cancels every running turn and waits until they have ended. */
  readonly close: () => Promise<void>;
}

interface Route {
  readonly method: string;
  readonly pattern: URLPattern;
  readonly answer: (request: Request, parameters: Parameters) => Promise<Response> | Response;
}

type Parameters = Readonly<Record<string, string | undefined>>;

const checkSession = schemaChecker(CREATE_SESSION, "the body");
const checkTurn = schemaChecker(START_TURN, "the body");

/**
 * Makes the agent server: sessions, turns and their events over HTTP and server-sent events.
 *
 * | route | does |
 * |---|---|
 * | `POST /v1/sessions` | makes a session |
 * | `GET /v1/sessions` | lists them |
 * | `GET /v1/sessions/{id}` | one, with its messages |
 * | `DELETE /v1/sessions/{id}` | cancels and forgets it |
 * | `POST /v1/sessions/{id}/turns` | starts a turn and streams its events |
 * | `GET /v1/sessions/{id}/events?after=N` | streams the events after number N, those of a running turn included |
 * | `POST /v1/sessions/{id}/cancel` | cancels the running turn and waits for its end |
 * | `GET /v1/sessions/{id}/archive/{ref}` | the original of what left the prompt |
 * | `GET /health` | says that the server is up |
 */
export function agentHandler(options: AgentOptions): AgentHandler {
  const { model, limits, maxBodyBytes = 10 * 2 ** 20, onError = () => {}, countTokens } = options;
  const sessions = new Sessions(options);
  const withSession =
    (answer: (session: Session, request: Request, parameters: Parameters) => Promise<Response> | Response) =>
    (request: Request, parameters: Parameters) =>
      answer(sessions.get(parameters.id ?? ""), request, parameters);

  const routes: Route[] = [
    route("GET", "/health", () => Response.json({ status: "ok" })),
    route("POST", "/v1/sessions", async (request) => {
      const settings = await readJson<CreateSession>(request, {
        maxBytes: maxBodyBytes,
        check: checkSession,
      });
      const session = await sessions.create(settings);
      return Response.json(sessionBody(session), {
        status: 201,
        headers: { location: `/v1/sessions/${session.id}` },
      });
    }),
    route("GET", "/v1/sessions", () => Response.json({ sessions: sessions.list().map(sessionBody) })),
    route(
      "GET",
      "/v1/sessions/:id",
      withSession((session) => Response.json({ ...sessionBody(session), messages: session.history })),
    ),
    route(
      "DELETE",
      "/v1/sessions/:id",
      withSession(async (session) => {
        await sessions.delete(session);
        return new Response(null, { status: 204 });
      }),
    ),
    route(
      "POST",
      "/v1/sessions/:id/turns",
      withSession(async (session, request) => {
        const { input } = await readJson<StartTurn>(request, { maxBytes: maxBodyBytes, check: checkTurn });
        if (session.running) {
          throw new HttpError(
            409,
            "turn_running",
            `Cannot start a turn in session ${session.id}: one is running. Wait for its turn_end, or cancel it.`,
          );
        }
        const before = session.events.last;
        startTurn(session, input, {
          model: model(session.settings.model),
          countTokens,
          onError,
          ...(limits && { limits }),
        });
        return eventStream(session.events, before);
      }),
    ),
    route(
      "GET",
      "/v1/sessions/:id/events",
      withSession((session, request) => eventStream(session.events, eventNumber(request))),
    ),
    route(
      "POST",
      "/v1/sessions/:id/cancel",
      withSession(async (session) => {
        const { running } = session;
        running?.cancel();
        await running?.done;
        return Response.json({ cancelled: running !== undefined, session: sessionBody(session) });
      }),
    ),
    route(
      "GET",
      "/v1/sessions/:id/archive/:ref",
      withSession(async (session, _request, { ref = "" }) => {
        const content = await session.archive.get(ref);
        if (content === undefined) {
          throw new HttpError(
            404,
            "not_found",
            `Cannot find ${ref}: session ${session.id} archived nothing so named.`,
          );
        }
        return new Response(content, { headers: { "content-type": "text/plain; charset=utf-8" } });
      }),
    ),
  ];

  return {
    async fetch(request) {
      try {
        return await dispatch(routes, request);
      } catch (error) {
        if (!(error instanceof HttpError)) onError(error);
        return errorResponse(error);
      }
    },
    close: () => sessions.close(),
  };
}

function route(method: string, pathname: string, answer: Route["answer"]): Route {
  return { method, pattern: new URLPattern({ pathname }), answer };
}

function dispatch(routes: readonly Route[], request: Request): Promise<Response> | Response {
  const { pathname } = new URL(request.url);
  const allowed: string[] = [];
  for (const { method, pattern, answer } of routes) {
    const match = pattern.exec({ pathname });
    if (!match) continue;
    if (method === request.method) return answer(request, match.pathname.groups);
    allowed.push(method);
  }
  if (allowed.length === 0) {
    throw new HttpError(404, "not_found", `Cannot find ${pathname}: there is no such route.`);
  }
  const allow = allowed.join(", ");
  throw new HttpError(
    405,
    "method_not_allowed",
    `Cannot ${request.method} ${pathname}: it takes ${allow}.`,
    { allow },
  );
}

function eventNumber(request: Request): number {
  const text = new URL(request.url).searchParams.get("after") ?? request.headers.get("last-event-id") ?? "0";
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new HttpError(
    400,
    "invalid_request",
    `Cannot read events after ${JSON.stringify(text)}: a number from 0 is wanted.`,
  );
}

function eventStream(log: EventLog, after: number): Response {
  const messages = async function* (events: AsyncIterable<NumberedEvent>) {
    for await (const { number, event } of events) yield { id: number, data: JSON.stringify(event) };
  };
  const stream = ReadableStream.from(messages(log.read(after))).pipeThrough(new ServerSentEventStream());
  return new Response(stream, {
    headers: { "content-type": "text/event-stream", "cache-control": "no-store" },
  });
}
