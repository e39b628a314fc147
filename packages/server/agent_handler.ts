/**
 * The agent server as a function from request to response: sessions, turns and their events over HTTP and
 * server-sent events. It has no port, key or file of its own; models, tools and a store are injected.
 *
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { estimateTokens } from "@tare/messages";
 * import { profileNamed } from "@tare/planner";
 * import { agentHandler } from "@tare/server";
 * import { memoryStore } from "@tare/session/sqlite";
 *
 * const agent = agentHandler({
 *   models: {
 *     model: () =>
 *       async function* () {
 *         yield { type: "completed", message: { role: "assistant", content: "Hello." }, finishReason: "stop" };
 *       },
 *     defaultModel: "greeter",
 *     countTokens: () => Promise.resolve(estimateTokens),
 *     profile: profileNamed("none"),
 *     windowTokens: 128_000,
 *   },
 *   tools: [],
 *   store: memoryStore(),
 * });
 * // Deno.serve((request) => agent.fetch(request)) would give it a port.
 * const session = await agent.fetch(new Request("http://localhost/tare/v1/sessions", { method: "POST" }));
 * assertEquals(session.status, 201);
 * ```
 *
 * @module
 */
import { SessionRegistry } from "@tare/session/internal";
import { Telemetry } from "@tare/session/telemetry";
import { systemClock } from "@tare/loop/internal";
import { type AgentOptions, checkAgentOptions } from "./agent_options.ts";
import { health } from "./api/health_routes.ts";
import { measured, observeServer } from "./api/metrics_routes.ts";
import { assertSees, type ServerSessions } from "./api/session_body.ts";
import { respondAt } from "./as_model/errors.ts";
import { dispatcher } from "./http/dispatcher.ts";
import { admission, guard } from "./http/guard.ts";
import type { RequestClient, Route } from "./http/route.ts";
import { routeTable } from "./route_table.ts";
import type { CloseOptions } from "./sessions/session_options.ts";
import type { Notifier } from "./sessions/session_types.ts";
import { Sessions } from "./sessions/sessions.ts";
import { Deliverer } from "./webhooks/deliverer.ts";
import { Webhooks } from "./webhooks/webhooks.ts";

export type { AgentOptions, HttpOptions, WebhookOptions } from "./agent_options.ts";
export { ALLOW_EVERYTHING, type ApprovalRule } from "./approvals/rules.ts";
export type { SessionEvent } from "./sessions/session_types.ts";
export type {
  AdvancedOptions,
  ApprovalOptions,
  CloseOptions,
  ModelOptions,
  ServerLimits,
  SessionOptions,
  WorkspaceOptions,
} from "./sessions/session_options.ts";
export type { ToolSource } from "./turns/session_tools.ts";
export type { RequestClient } from "./http/route.ts";
export type { Heartbeat } from "./http/dispatcher.ts";

/** An agent server as a function from request to response, with no port of its own. */
export interface HttpAgent {
  /** Handles a request. Its own signal isn't used: `Deno.serve` aborts it after every response. Never rejects. */
  readonly fetch: (request: Request, client?: Pick<RequestClient, "signal">) => Promise<Response>;
  /** Handles a request of a caller that has checked host, origin and key. */
  readonly unguarded: (request: Request, client: RequestClient) => Promise<Response>;
  /** Deletes the sessions, including chats, that have been idle for `idleMs`. Returns their number. */
  readonly expire: (idleMs: number) => Promise<number>;
  /**
   * Continues the work of earlier processes: approvals time out, unfinished turns continue, and due webhooks are
   * sent. Call it once the server accepts requests. @throws {StoreError}
   */
  readonly attend: () => Promise<void>;
  /** Stops accepting turns, and settles when none runs. Pending approvals wait for the next process. */
  readonly close: (options?: CloseOptions) => Promise<void>;
}

/**
 * Returns an agent server: sessions, turns and their events over HTTP and server-sent events, and with a `gateway` the
 * sessions of other agents. `GET /openapi.json` describes the routes: Tare's own below `/tare/v1`, the agent as an
 * OpenAI-compatible model below `/v1`, and `/health`, `/metrics` and the document at the root.
 *
 * A wrong method is 405 with the allowed methods. The gateway handles all other paths under `/v1`.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { memoryStore } from "@tare/session/sqlite";
 * import { estimateTokens } from "@tare/messages";
 * import { profileNamed } from "@tare/planner";
 * import { agentHandler } from "@tare/server";
 *
 * const agent = agentHandler({
 *   models: {
 *     model: () => async function* () {},
 *     countTokens: () => Promise.resolve(estimateTokens),
 *     profile: profileNamed("none"),
 *     windowTokens: 128_000,
 *   },
 *   tools: [],
 *   store: memoryStore(),
 *   limits: { maxSessions: 100 },
 *   http: { hosts: ["agent.example"] },
 * });
 * const { status } = await agent.fetch(new Request("http://agent.example/health"));
 * assertEquals(status, 200);
 * ```
 *
 * @throws {TypeError} if an option is unknown, missing or of the wrong kind.
 */
export function agentHandler(options: AgentOptions): HttpAgent {
  checkAgentOptions(options);
  const { store, gateway, keys, http = {}, onError = () => {} } = options;
  const { files, heartbeat = {}, maxBodyBytes = 10 * 2 ** 20 } = http;
  const { metricRegistry } = http.metrics ?? {};
  const { webhooks, ...rest } = webhooksOf(options);
  const sessions = new Sessions(
    { telemetry: new Telemetry("@tare/server", { metricRegistry }), ...options },
    rest.notifier,
  );
  const registry: ServerSessions = new SessionRegistry([sessions, ...gateway?.sessions.kinds ?? []]);
  const { routes: healthRoutes, end } = health(options);
  const routes: readonly Route[] = routeTable({
    ...options,
    ...{ sessions, registry, healthRoutes, heartbeat, onError, webhooks, deliverer: rest.deliverer },
  });
  const admit = admission({ assertSees: (id, caller) => assertSees(registry, id, caller), keys });
  const { answer, isPublic, placeOf } = dispatcher(routes, {
    ...{ maxBodyBytes, store, files, onError, admit, gateway, respondAt },
  });
  const fetch = guard(answer, { ...http, ...(keys && { keys }), isPublic, respondAt, onError });
  if (metricRegistry) observeServer(metricRegistry, { store, sessions });
  return {
    fetch: metricRegistry ? measured(metricRegistry, fetch, placeOf) : fetch,
    unguarded: answer,
    expire: (idleMs) => sessions.expire(idleMs),
    attend: () => {
      rest.deliverer?.wake();
      return sessions.attend();
    },
    close: async (options) => {
      end();
      await sessions.close(options);
      await rest.deliverer?.close();
    },
  };
}

function webhooksOf({ store, onError = () => {}, webhooks: settings }: AgentOptions): {
  readonly webhooks: Webhooks;
  readonly deliverer?: Deliverer;
  readonly notifier?: Notifier;
} {
  const { after = systemClock.after, random, ...reach } = settings ?? { hosts: [] };
  const webhooks = new Webhooks({ store, reach, onError });
  if (!settings) return { webhooks };
  const deliverer = new Deliverer({ webhooks, store, after, random, onError });
  return {
    webhooks,
    deliverer,
    notifier: {
      refresh: () => webhooks.ready().catch(onError),
      hasWebhooks: () => webhooks.enabled().length > 0,
      onError,
      recordsOf: (session, committed) => webhooks.recordsOf(session, committed),
      wake: () => deliverer.wake(),
    },
  };
}
