import type { Asker } from "@tare/conversation";
import { inTraceOf, Telemetry } from "@tare/conversation/telemetry";
import type { AgentOptions } from "./agent_options.ts";
import { health } from "./api/health_routes.ts";
import { SessionKinds } from "./api/session_kinds.ts";
import { respondAt } from "./as_model/errors.ts";
import { dispatcher } from "./http/dispatcher.ts";
import { admission, guard } from "./http/guard.ts";
import { errorResponse } from "./http/http_error.ts";
import type { Route } from "./http/route.ts";
import { routeTable } from "./route_table.ts";
import { Sessions } from "./sessions/sessions.ts";

/** An agent server as a function from request to response, with no port of its own. */
export interface AgentHandler {
  /** Answers a request. Never rejects. */
  readonly fetch: (request: Request) => Promise<Response>;
  /** Answers likewise, with no guard before it: for those who put {@linkcode guard} before more than the agent. */
  readonly unguarded: (request: Request, asker: Asker) => Promise<Response>;
  /** Whether a request needs no key. */
  readonly isPublic: (request: Request) => boolean;
  /** How what is refused at a path is told: as clients of that path expect it. */
  readonly respondAt: (pathname: string) => (error: unknown) => Response;
  /** Deletes the sessions, chats' included, to which nothing happened for so many milliseconds. Gives how many. */
  readonly expire: (idleMs: number) => Promise<number>;
  /** Sees to it that what was asked in an earlier process gets its answer in time. @throws {StoreError} */
  readonly watchApprovals: () => Promise<void>;
  /** Cancels every running turn and waits until they have ended. What is asked waits for the next process. */
  readonly close: () => Promise<void>;
}

/**
 * Makes the agent server: sessions, turns and their events over HTTP and server-sent events, and with a `gateway` the
 * same for other agents, whose model calls pass through.
 *
 * | route | does |
 * |---|---|
 * | `POST /v1/sessions` | makes a session |
 * | `GET /v1/sessions?kind=K&limit=N&after=ID&search=TEXT&helpers=true` | lists them, page by page: the agent's (`agent`), those that pass through (`gateway`), or both |
 * | `GET /v1/sessions/{id}` | one: the agent's with its messages, its helpers and its running turn; another's with what left its prompt and why |
 * | `DELETE /v1/sessions/{id}` | cancels and forgets it, its helpers too |
 * | `GET /v1/sessions/{id}/calls` | what each model call took, and what was rewritten before it and why |
 * | `GET /v1/sessions/{id}/prompt` | what the model sees, a block for each tool and message |
 * | `GET /v1/sessions/{id}/prompt/{block}` | a block: what stands there now, and what was said |
 * | `GET /v1/sessions/{id}/pins` | what is asked of single messages |
 * | `POST /v1/sessions/{id}/pins` | asks that a message comes back and stays, or that a result leaves |
 * | `DELETE /v1/sessions/{id}/pins/{place}` | asks for nothing more of it |
 * | `POST /v1/sessions/{id}/keep_warm` | keeps its newest prompt in the provider's cache for some minutes |
 * | `GET /v1/sessions/{id}/archive/{ref}` | the original of what left the prompt |
 * | `GET /v1/spend?by=B` | what calls have cost and what for, by day, model, session or agent |
 * | `GET /v1/misses` | why prompts weren't read from the cache, what that has cost, and what would mend it |
 * | `GET /v1/sessions/{id}/spend` | where a session's money went |
 * | `GET /v1/overview?kind=K` | what was saved today and in all, and the newest warnings |
 * | `GET /v1/ledger` | what sessions that pass through cost, planned and left as they are; only with a gateway |
 *
 * The agent's sessions alone have these, and of another's they are 501:
 *
 * | route | does |
 * |---|---|
 * | `GET /v1/sessions/{id}/quote` | what its next request would cost |
 * | `GET /v1/sessions/{id}/export` | its messages, one a line |
 * | `POST /v1/sessions/{id}/turns` | starts, continues or steers a turn and streams its events |
 * | `GET /v1/sessions/{id}/events?after=N` | streams the events after number N, those of a running turn included |
 * | `POST /v1/sessions/{id}/cancel` | cancels the running turn and waits for its end |
 * | `GET /v1/sessions/{id}/approvals` | lists the calls that wait for an answer before they run |
 * | `POST /v1/sessions/{id}/approvals/{call}` | says whether a call may run |
 *
 * | route | does |
 * |---|---|
 * | `POST /v1/sessions/import` | makes sessions of lines as `export` gives them |
 * | `GET /v1/backup` | everything that the server keeps, as a file |
 * | `GET /v1/key` | by which key the request came, and what that may |
 * | `GET /v1/keys`, `POST /v1/keys`, `DELETE /v1/keys/{name}` | the keys beside the owner's |
 * | `POST /v1/chat/completions`, `POST /v1/responses` | the agent as an OpenAI-compatible model; other models are the gateway's |
 * | `GET /v1/responses/{id}`, `DELETE /v1/responses/{id}` | a stored response of the agent; forgets it |
 * | `GET /v1/responses/{id}/input_items` | what its request brought |
 * | `GET /v1/models`, `GET /v1/models/{id}` | the models of these routes, the provider's too |
 * | `GET /v1/agent` | where the agent works, the model that it asks, and how much a prompt may hold |
 * | `GET /health` | says that the server is up |
 * | `GET /health/ready` | says whether it can take requests now, and if not why |
 * | `GET /openapi.json` | describes all routes |
 *
 * A path of ours with another method is 405 and says which it takes. Whatever else is under `/v1` is the gateway's, which
 * passes on by what models are used.
 */
export function agentHandler(options: AgentOptions): AgentHandler {
  const { store, gateway, heartbeat = {}, maxBodyBytes = 10 * 2 ** 20, onError = () => {} } = options;
  const sessions = new Sessions({ telemetry: new Telemetry("@tare/server"), ...options });
  const kinds = new SessionKinds({ sessions, store, gateway });
  const { keys } = options;
  const admit = admission({ assertSees: (id, asker) => kinds.assertSees(id, asker), keys });
  const { routes: healthRoutes, end } = health(options);
  const routes: readonly Route[] = routeTable({
    ...options,
    ...{ sessions, kinds, healthRoutes, heartbeat, onError },
  });
  const isOurs = ownPaths(routes);
  const respond = (pathname: string) =>
    isOurs(pathname.split("/").slice(1)) ? errorResponse : respondAt(pathname);
  const dispatch = dispatcher(routes, {
    ...{ maxBodyBytes, store, onError, admit },
    respondAt: respond,
    ...(gateway && {
      otherwise: ({ request, asker }, path, allowed) => {
        if (isOurs(path) || (allowed.length > 0 && !gateway.takes(request))) return undefined;
        return gateway.fetch(request, { asker });
      },
    }),
  });
  const unguarded = (request: Request, asker: Asker) => inTraceOf(request, () => dispatch(request, asker));
  const isPublic = ({ url }: Request) =>
    routes.some(({ isPublic, path }) => isPublic && path === new URL(url).pathname);
  return {
    fetch: guard(unguarded, {
      ...options.guard,
      ...(keys && { keys }),
      isPublic,
      respondAt: respond,
      onError,
    }),
    unguarded,
    isPublic,
    respondAt: respond,
    expire: (idleMs) => sessions.expire(idleMs),
    watchApprovals: () => sessions.watchApprovals(),
    close: () => {
      end();
      return sessions.close();
    },
  };
}

/**
 * Makes a function that tells whether a path, by its decoded parts, is one of ours or below one, however it is written:
 * `/v1/ledger/`, `/v1//ledger` and `/v1/sessions%2Fx` are. Those of the agent as a model, which a provider has too, aren't.
 */
function ownPaths(routes: readonly Route[]): (parts: readonly string[]) => boolean {
  const firstOf = (path: readonly string[]) => {
    const [first, second] = path.join("/").split("/").filter((part) => part !== "");
    return first === "v1" ? second : undefined;
  };
  // Those that tell their errors in another shape are for clients of a provider.
  const own = routes.filter(({ errors }) => errors === undefined);
  const names = new Set(own.map(({ path }) => firstOf(path.split("/"))));
  return (parts) => {
    const name = firstOf(parts);
    return name !== undefined && names.has(name);
  };
}
