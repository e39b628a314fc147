import { inTraceOf, Telemetry } from "@tare/conversation/telemetry";
import { Type } from "typebox";
import { approvalRoutes } from "./api/approval_routes.ts";
import { health } from "./api/health_routes.ts";
import { promptRoutes } from "./api/prompt_routes.ts";
import { turnRoutes } from "./api/turn_routes.ts";
import { sessionRoutes } from "./api/session_routes.ts";
import { transferRoutes } from "./api/transfer_routes.ts";
import { asModelRoutes } from "./as_model/as_model_routes.ts";
import { respondAt } from "./as_model/errors.ts";
import { dispatcher, methodOf, patternOf } from "./http/dispatcher.ts";
import { guard, type GuardOptions } from "./http/guard.ts";
import { openapiDocument } from "./http/openapi_document.ts";
import { type Route, route } from "./http/route.ts";
import { closed } from "./http/schema.ts";
import type { Heartbeat } from "./http/sse_response.ts";
import { Sessions } from "./sessions/sessions.ts";
import type { SessionOptions } from "./sessions/session_types.ts";

/** What an agent server is made of. */
export interface AgentOptions extends SessionOptions {
  /** Who may use it. Default: whoever reaches it under a name of loopback, without a token. */
  readonly guard?: GuardOptions;
  /** How event streams show that they are alive. Default: a comment after each 15 s of silence. */
  readonly heartbeat?: Heartbeat;
  /** Largest request body in bytes. Default: 10 MiB. */
  readonly maxBodyBytes?: number;
  /** The folder that its tools work in, as clients are told it. Default: they aren't. */
  readonly workspace?: string;
}

/** An agent server as a function from request to response, with no port of its own. */
export interface AgentHandler {
  /** Answers a request. Never rejects. */
  readonly fetch: (request: Request) => Promise<Response>;
  /** Answers likewise, with no guard before it: for those who put {@linkcode guard} before more than the agent. */
  readonly unguarded: (request: Request) => Promise<Response>;
  /** Whether a request is to one of its routes. */
  readonly handles: (request: Request) => boolean;
  /** Whether a request needs no token. */
  readonly isPublic: (request: Request) => boolean;
  /** Deletes the sessions, chats' included, to which nothing happened for so many milliseconds. Gives how many. */
  readonly expire: (idleMs: number) => Promise<number>;
  /** Sees to it that what was asked in an earlier process gets its answer in time. @throws {StoreError} */
  readonly watchApprovals: () => Promise<void>;
  /** Cancels every running turn and waits until they have ended. What is asked waits for the next process. */
  readonly close: () => Promise<void>;
}

/**
 * Makes the agent server: sessions, turns and their events over HTTP and server-sent events.
 *
 * | route | does |
 * |---|---|
 * | `POST /v1/sessions` | makes a session |
 * | `GET /v1/sessions?limit=N&after=ID&search=TEXT&helpers=true` | lists them, page by page |
 * | `GET /v1/sessions/{id}` | one, with its messages, its helpers and its running turn |
 * | `DELETE /v1/sessions/{id}` | cancels and forgets it, its helpers too |
 * | `GET /v1/sessions/{id}/quote` | what its next request would cost |
 * | `GET /v1/sessions/{id}/export` | its messages, one a line |
 * | `POST /v1/sessions/import` | makes sessions of such lines |
 * | `GET /v1/backup` | everything that the server keeps, as a file |
 * | `POST /v1/sessions/{id}/turns` | starts, continues or steers a turn and streams its events |
 * | `GET /v1/sessions/{id}/events?after=N` | streams the events after number N, those of a running turn included |
 * | `POST /v1/sessions/{id}/cancel` | cancels the running turn and waits for its end |
 * | `GET /v1/sessions/{id}/approvals` | lists the calls that wait for an answer before they run |
 * | `POST /v1/sessions/{id}/approvals/{call}` | says whether a call may run |
 * | `GET /v1/sessions/{id}/calls` | what each model call took, and what was rewritten before it and why |
 * | `GET /v1/sessions/{id}/prompt` | what the model sees, a block for each tool and message |
 * | `GET /v1/sessions/{id}/prompt/{block}` | a block: what stands there now, and what was said |
 * | `GET /v1/sessions/{id}/pins` | what is asked of single messages |
 * | `POST /v1/sessions/{id}/pins` | asks that a message comes back and stays, or that a result leaves |
 * | `DELETE /v1/sessions/{id}/pins/{place}` | asks for nothing more of it |
 * | `GET /v1/overview` | what was saved today and in all, and the newest warnings |
 * | `GET /v1/sessions/{id}/archive/{ref}` | the original of what left the prompt |
 * | `POST /v1/chat/completions` | the agent as an OpenAI-compatible model |
 * | `POST /v1/responses` | likewise |
 * | `GET /v1/responses/{id}` | a stored response of the agent |
 * | `GET /v1/responses/{id}/input_items` | what its request brought |
 * | `DELETE /v1/responses/{id}` | forgets it |
 * | `GET /v1/models`, `GET /v1/models/{id}` | the models of these routes |
 * | `GET /v1/agent` | where the agent works, the model that it asks, and how much a prompt may hold |
 * | `GET /health` | says that the server is up |
 * | `GET /health/ready` | says whether it can take requests now, and if not why |
 * | `GET /openapi.json` | describes all routes |
 */
export function agentHandler(options: AgentOptions): AgentHandler {
  const { store, heartbeat = {}, maxBodyBytes = 10 * 2 ** 20, onError = () => {} } = options;
  const sessions = new Sessions({ telemetry: new Telemetry("@tare/server"), ...options });
  const { routes: healthRoutes, end } = health(options);
  const streaming = { sessions, heartbeat, onError };
  const routes: readonly Route[] = [
    ...sessionRoutes(sessions),
    ...transferRoutes(sessions, store),
    ...promptRoutes(sessions),
    ...turnRoutes(streaming),
    ...approvalRoutes(sessions),
    ...asModelRoutes({ ...options, ...streaming }),
    ...healthRoutes,
    ...systemRoutes(options, () => routes),
  ];
  const dispatch = dispatcher(routes, { maxBodyBytes, store, respondAt, onError });
  const unguarded = (request: Request) => inTraceOf(request, () => dispatch(request));
  const patterns = routes.map((route) => ({ method: route.method, pattern: patternOf(route) }));
  const isPublic = ({ url }: Request) =>
    routes.some(({ isPublic, path }) => isPublic && path === new URL(url).pathname);
  return {
    fetch: guard(unguarded, { ...options.guard, isPublic, onError }),
    unguarded,
    handles: ({ method, url }) =>
      patterns.some((route) =>
        route.method === methodOf({ method }) && route.pattern.test({ pathname: new URL(url).pathname })
      ),
    isPublic,
    expire: (idleMs) => sessions.expire(idleMs),
    watchApprovals: () => sessions.watchApprovals(),
    close: () => {
      end();
      return sessions.close();
    },
  };
}

/** The routes about the server itself; `routes` gives all that there are. */
function systemRoutes(
  { workspace, defaultModel, windowTokens }: AgentOptions,
  routes: () => readonly Route[],
): readonly Route[] {
  return [
    route({
      method: "GET",
      path: "/v1/agent",
      operationId: "getAgent",
      summary: "Says where the agent works, which model it asks, and how much a prompt may hold.",
      responses: {
        200: {
          description: "The agent.",
          content: {
            "application/json": closed({
              workspace: Type.Optional(
                Type.String({ description: "The folder that its tools work in, on the server's machine." }),
              ),
              model: Type.String({ description: "The model of sessions that name no other." }),
              windowTokens: Type.Number({ description: "How much a prompt may hold at most." }),
            }, "Agent"),
          },
        },
      },
      answer: () => ({
        json: { ...(workspace !== undefined && { workspace }), model: defaultModel, windowTokens },
      }),
    }),
    route({
      method: "GET",
      path: "/openapi.json",
      operationId: "getOpenapiDocument",
      summary: "Describes all routes: this document.",
      responses: {
        200: { description: "An OpenAPI 3.1 document.", content: { "application/json": Type.Object({}) } },
      },
      answer: () => ({ json: openapiDocument(routes()) }),
    }),
  ];
}
