/**
 * The agent server as a function from request to response: sessions, turns and their events over HTTP and
 * server-sent events. It has no port, key or file of its own; those who serve it hand in models, tools and a store.
 *
 * README.md shows it in use.
 *
 * @module
 */
import type { Asker } from "@tare/conversation";
import { Telemetry } from "@tare/conversation/telemetry";
import type { AgentOptions } from "./agent_options.ts";
import { health } from "./api/health_routes.ts";
import { measured, observeServer } from "./api/metrics_routes.ts";
import { SessionKinds } from "./api/session_kinds.ts";
import { respondAt } from "./as_model/errors.ts";
import { dispatcher } from "./http/dispatcher.ts";
import { admission, guard } from "./http/guard.ts";
import type { Route } from "./http/route.ts";
import { routeTable } from "./route_table.ts";
import type { Teller } from "./sessions/session_types.ts";
import { later, Sessions } from "./sessions/sessions.ts";
import { Deliverer } from "./webhooks/deliverer.ts";
import { Webhooks } from "./webhooks/webhooks.ts";

export type { AgentOptions } from "./agent_options.ts";
export { AGENT_MODEL } from "./as_model/errors.ts";
export { allowedHosts, isLoopback } from "./http/guard.ts";
export { ALLOW_EVERYTHING, type ApprovalRule, faultOfRules } from "./approvals/rules.ts";
export type { NumberedEvent, SessionEvent, SessionOptions, Workplace } from "./sessions/session_types.ts";
export type { ToolSource } from "./turns/session_tools.ts";
export type { Heartbeat } from "./http/sse_response.ts";

/** An agent server as a function from request to response, with no port of its own. */
export interface HttpAgent {
  /**
   * Answers a request. The `signal` is aborted if the client disconnects before the answer begins; later the client
   * cancels the answer's body. Default: it isn't reported. The request's own signal isn't used: `Deno.serve` aborts it
   * after every answer. Never rejects.
   */
  readonly fetch: (
    request: Request,
    client?: { readonly signal?: AbortSignal | undefined },
  ) => Promise<Response>;
  /** Answers likewise, with no guard before it: for those who have let the request in. */
  readonly unguarded: (
    request: Request,
    client: { readonly asker: Asker; readonly signal?: AbortSignal | undefined },
  ) => Promise<Response>;
  /** Deletes the sessions, chats' included, to which nothing happened for so many milliseconds. Gives how many. */
  readonly expire: (idleMs: number) => Promise<number>;
  /**
   * Sees to what earlier processes left: what was asked gets its answer in time, turns that had no end go on, and programs
   * are told what these owed them. To be called once requests are answered. @throws {StoreError}
   */
  readonly attend: () => Promise<void>;
  /**
   * Takes no more turns, and settles when none runs any more. What is asked waits for the next process, and with
   * `leaveWithinMs` so do turns: steps have so long to end, and whoever has the store next goes on behind them, or calls
   * `attend()`. Default: turns end, as interrupted, and can be continued.
   */
  readonly close: (options?: { readonly leaveWithinMs?: number | undefined }) => Promise<void>;
}

/**
 * Makes the agent server: sessions, turns and their events over HTTP and server-sent events, and with a `gateway` the
 * same for other agents, whose model calls pass through.
 *
 * | route | does |
 * |---|---|
 * | `POST /tare/v1/sessions` | makes a session |
 * | `GET /tare/v1/sessions?kind=K&limit=N&after=ID&search=TEXT&helpers=true` | lists them, page by page: the agent's (`agent`), those that pass through (`gateway`), or both |
 * | `GET /tare/v1/sessions/{id}` | one: the agent's with its messages, its helpers and its running turn; another's with what left its prompt and why |
 * | `DELETE /tare/v1/sessions/{id}` | cancels and forgets it, its helpers too |
 * | `GET /tare/v1/sessions/{id}/calls` | what each model call took, and what was rewritten before it and why |
 * | `GET /tare/v1/sessions/{id}/prompt` | what the model sees, a block for each tool and message |
 * | `GET /tare/v1/sessions/{id}/prompt/{block}` | a block: what stands there now, and what was said |
 * | `GET /tare/v1/sessions/{id}/pins` | what is asked of single messages |
 * | `POST /tare/v1/sessions/{id}/pins` | asks that a message comes back and stays, or that a result leaves |
 * | `DELETE /tare/v1/sessions/{id}/pins/{place}` | asks for nothing more of it |
 * | `POST /tare/v1/sessions/{id}/keep_warm` | keeps its newest prompt in the provider's cache for some minutes |
 * | `GET /tare/v1/sessions/{id}/archive/{ref}` | the original of what left the prompt |
 * | `GET /tare/v1/spend?by=B` | what calls have cost and what for, by day, model, session or agent |
 * | `GET /tare/v1/misses` | why prompts weren't read from the cache, what that has cost, and what would mend it |
 * | `GET /tare/v1/sessions/{id}/spend` | where a session's money went |
 * | `GET /tare/v1/overview?kind=K` | what was saved today and in all, and the newest warnings |
 * | `GET /tare/v1/ledger` | what sessions that pass through cost, planned and left as they are; only with a gateway |
 *
 * The agent's sessions alone have these, and of another's they are 501:
 *
 * | route | does |
 * |---|---|
 * | `POST /tare/v1/sessions/{id}/title` | names it |
 * | `POST /tare/v1/sessions/{id}/fork` | makes a session that goes on from it, or from before one of the user's messages |
 * | `GET /tare/v1/sessions/{id}/quote` | what its next request would cost |
 * | `GET /tare/v1/sessions/{id}/export` | its messages, one a line |
 * | `POST /tare/v1/sessions/{id}/turns` | starts, continues or steers a turn and streams its events, or queues one |
 * | `GET /tare/v1/sessions/{id}/queue`, `DELETE /tare/v1/sessions/{id}/queue/{turn}` | the turns that wait |
 * | `GET /tare/v1/sessions/{id}/events?after=N` | streams the events after number N, those of a running turn included |
 * | `POST /tare/v1/sessions/{id}/model` | lets the next turns ask another model, or with another effort |
 * | `POST /tare/v1/sessions/{id}/cancel` | cancels the running turn and waits for its end |
 * | `GET /tare/v1/sessions/{id}/approvals` | lists the calls that wait for an answer before they run |
 * | `POST /tare/v1/sessions/{id}/approvals/{approval}` | says whether a call may run |
 * | `GET /tare/v1/sessions/{id}/changes` | what its turns have changed of files |
 * | `POST /tare/v1/sessions/{id}/undo` | puts files back as they were before a turn |
 * | `POST /tare/v1/sessions/{id}/redo` | takes the last undo back |
 *
 * | route | does |
 * |---|---|
 * | `POST /tare/v1/sessions/import` | makes sessions of lines as `export` gives them |
 * | `GET /tare/v1/backup` | everything that the server keeps, as a file |
 * | `GET /tare/v1/key` | by which key the request came, and what that may |
 * | `GET /tare/v1/keys`, `POST /tare/v1/keys`, `DELETE /tare/v1/keys/{name}` | the keys beside the owner's |
 * | `GET /tare/v1/webhooks`, `POST /tare/v1/webhooks` | who is told of what happens in sessions |
 * | `GET`, `POST` and `DELETE /tare/v1/webhooks/{webhook}` | shows, changes, enables or removes one |
 * | `POST /tare/v1/webhooks/{webhook}/secret` | gives it another secret |
 * | `GET /tare/v1/webhooks/{webhook}/deliveries` | what it was told, and what came of it |
 * | `POST /tare/v1/webhooks/{webhook}/deliveries/{delivery}` | sends that once more |
 * | `POST /v1/chat/completions`, `POST /v1/responses` | the agent as an OpenAI-compatible model; other models are the gateway's |
 * | `GET /v1/responses/{id}`, `DELETE /v1/responses/{id}` | a stored response of the agent; forgets it |
 * | `GET /v1/responses/{id}/input_items` | what its request brought |
 * | `GET /v1/models`, `GET /v1/models/{id}` | the models of these routes, the provider's too |
 * | `GET /tare/v1/agent/files?search=TEXT` | files of the workspace, as the tool `list_files` shows them |
 * | `GET /tare/v1/agent` | where the agent works, the model that it asks, and how much a prompt may hold |
 * | `GET /health` | says that the server is up |
 * | `GET /health/ready` | says whether it can take requests now, and if not why |
 * | `GET /metrics` | the server's figures as Prometheus reads them; only with `metrics` |
 * | `GET /openapi.json` | describes all routes |
 *
 * A path of the table with another method is 405, which names the methods that it has. The gateway answers whatever else
 * is under `/v1`, and forwards what models are used with.
 */
export function agentHandler(options: AgentOptions): HttpAgent {
  const { store, gateway, keys, files, heartbeat = {}, maxBodyBytes = 10 * 2 ** 20, onError = () => {} } =
    options;
  const { figures } = options.metrics ?? {};
  const { webhooks, ...told } = webhooksOf(options);
  const sessions = new Sessions(
    { telemetry: new Telemetry("@tare/server", { figures }), ...options },
    told.teller,
  );
  const kinds = new SessionKinds({ sessions, store, gateway });
  const { routes: healthRoutes, end } = health(options);
  const routes: readonly Route[] = routeTable({
    ...options,
    ...{ sessions, kinds, healthRoutes, heartbeat, onError, webhooks, deliverer: told.deliverer },
  });
  const admit = admission({ sessions: kinds, keys });
  const { answer, isPublic, placeOf } = dispatcher(routes, {
    ...{ maxBodyBytes, store, files, onError, admit, gateway, respondAt },
  });
  const fetch = guard(answer, { ...options.guard, ...(keys && { keys }), isPublic, respondAt, onError });
  if (figures) observeServer(figures, { store, sessions });
  return {
    fetch: figures ? measured(figures, fetch, placeOf) : fetch,
    unguarded: answer,
    expire: (idleMs) => sessions.expire(idleMs),
    attend: () => {
      told.deliverer?.wake();
      return sessions.attend();
    },
    close: async (options) => {
      end();
      await sessions.close(options);
      await told.deliverer?.close();
    },
  };
}

/** What is kept of webhooks in any case, and what sends them where some may be told. */
function webhooksOf({ store, onError = () => {}, webhooks: settings }: AgentOptions): {
  readonly webhooks: Webhooks;
  readonly deliverer?: Deliverer;
  readonly teller?: Teller;
} {
  const { after = later, random, ...reach } = settings ?? { hosts: [] };
  const webhooks = new Webhooks({ store, reach, onError });
  if (!settings) return { webhooks };
  const deliverer = new Deliverer({ webhooks, store, after, random, onError });
  return {
    webhooks,
    deliverer,
    teller: {
      refresh: () => webhooks.ready().catch(onError),
      isHeard: () => webhooks.enabled().length > 0,
      onError,
      recordsOf: (session, committed) => webhooks.recordsOf(session, committed),
      wake: () => deliverer.wake(),
    },
  };
}
