import type { JsonSchema } from "@tare/messages";
import { type TProperties, Type } from "typebox";
import type { AgentOptions } from "./agent_options.ts";
import { approvalRoutes } from "./api/approval_routes.ts";
import { fileRoutes, undoRoutes } from "./api/file_routes.ts";
import type { health } from "./api/health_routes.ts";
import { keyRoutes } from "./api/key_routes.ts";
import { metricsRoutes } from "./api/metrics_routes.ts";
import { ledgerRoutes, promptRoutes } from "./api/prompt_routes.ts";
import { type ServerSessions, SUPPORTS_IMAGES } from "./api/session_body.ts";
import { agentSessionRoutes, sessionRoutes } from "./api/session_routes.ts";
import { transferRoutes } from "./api/transfer_routes.ts";
import { turnRoutes } from "./api/turn_routes.ts";
import { webhookRoutes } from "./api/webhook_routes.ts";
import { APPROVAL_RULES } from "./approvals/rules.ts";
import { asModelRoutes } from "./as_model/as_model_routes.ts";
import config from "./deno.json" with { type: "json" };
import { API_PATH } from "./http/api_path.ts";
import { type Heartbeat, LINES } from "./http/dispatcher.ts";
import { ERROR, HttpError, notSupported } from "./http/http_error.ts";
import { json, type Route, route, type RouteCall, type RouteResponse } from "./http/route.ts";
import { closed, optionalText } from "./http/schema.ts";
import type { Sessions } from "./sessions/sessions.ts";
import type { Deliverer } from "./webhooks/deliverer.ts";
import type { Webhooks } from "./webhooks/webhooks.ts";

export interface TableOptions extends Omit<AgentOptions, "webhooks"> {
  readonly sessions: Sessions;
  readonly registry: ServerSessions;
  readonly webhooks: Webhooks;
  /** Sends them. Absent: webhooks are off. */
  readonly deliverer: Deliverer | undefined;
  readonly healthRoutes: ReturnType<typeof health>["routes"];
  readonly heartbeat: Heartbeat;
  readonly onError: (error: unknown) => void;
}

/**
 * Returns every route of the server. At the root are only those of providers, which the agent as a model implements,
 * and those that monitor or describe the server: `/health`, `/metrics` and `/openapi.json`.
 */
export function routeTable(options: TableOptions): readonly Route[] {
  const { healthRoutes, http: { metrics } = {} } = options;
  const all: readonly Route[] = [
    ...ownRoutes(options).map((route) => ({ ...route, path: API_PATH + route.path })),
    ...asModelRoutes({ ...options, defaultModel: options.models.defaultModel }),
    ...healthRoutes,
    ...(metrics ? metricsRoutes(metrics) : []),
    documentRoute(() => all),
  ];
  return all;
}

/**
 * Returns the routes of Tare's own API, by their paths below {@linkcode API_PATH}. They define the types of the
 * client.
 */
export function ownRoutes(options: TableOptions) {
  const { sessions, registry, store, gateway } = options;
  const agentsOwn = [
    ...agentSessionRoutes(sessions),
    ...turnRoutes(options),
    ...approvalRoutes(sessions),
    ...undoRoutes(sessions, options.workspace?.checkpoints),
    ...transferRoutes(sessions, store),
  ].map((route) => gateway ? agentOnly(route, registry) : route);
  return [
    ...sessionRoutes(registry, sessions),
    ...promptRoutes(registry),
    ...agentsOwn,
    ...(gateway ? ledgerRoutes(registry) : []),
    ...keyRoutes(options.keys, options.webhooks),
    ...webhookRoutes(options),
    ...fileRoutes(options),
    agentRoute(options),
    modelsRoute(options),
  ];
}

/** Returns a route for the agent's sessions only: for others it responds with advice. */
function agentOnly<R extends Route>(route: R, registry: ServerSessions): R {
  if (!route.path.includes("{id}")) return route;
  return {
    ...route,
    responses: {
      501: "Not supported for a session of another agent.",
      ...route.responses,
    },
    explain: async (error: unknown, { path: { id = "" } }: RouteCall) => {
      const isNotFound = error instanceof HttpError && error.status === 404;
      if (!isNotFound || (await registry.find(id))?.kind !== "gateway") return undefined;
      const does = `${route.method} ${API_PATH}${route.path.replace("{id}", id)}`;
      return notSupported(
        `Cannot ${does}: the session is another agent's. Continue in that agent, or create a session of ` +
          `this one with POST ${API_PATH}/sessions.`,
      );
    },
  };
}

function agentRoute(
  { workspace: { folder: workspace, sandbox } = {}, models, http, sessions, approvals }: TableOptions,
) {
  const { defaultModel } = models;
  const { forwardsTo } = http ?? {};
  return route({
    method: "GET",
    path: "/agent",
    operationId: "getAgent",
    summary: "Returns the agent's workspace, model and context window.",
    responses: {
      200: json(
        "The agent.",
        closed({
          workspace: optionalText("Folder that its tools work in, on the server's machine."),
          sandbox: Type.Optional(closed({
            by: optionalText("Name of the sandbox; absent if there is none."),
            why: optionalText("Reason why there is none."),
            domains: Type.Array(Type.String(), {
              description: "Hosts that commands reach without approval.",
            }),
          }, "AgentSandbox")),
          approvalRules: APPROVAL_RULES,
          model: optionalText(
            "Default model of sessions; absent without an agent.",
          ),
          forwardsTo: Type.Optional(closed({
            chat: optionalText("Provider of chat completions and responses, if there is one."),
            messages: optionalText("Provider of Messages."),
          }, "ForwardsTo")),
          windowTokens: Type.Number({ description: "Context window in tokens." }),
          supportsImages: SUPPORTS_IMAGES,
        }, "Agent"),
      ),
    },
    answer: () => {
      const supportsImages = defaultModel === undefined ? undefined : sessions.supportsImages(defaultModel);
      return {
        json: {
          ...(workspace !== undefined && { workspace }),
          ...(sandbox !== undefined && { sandbox }),
          approvalRules: approvals?.rules ?? [],
          ...(defaultModel !== undefined && { model: defaultModel }),
          ...(forwardsTo !== undefined && { forwardsTo }),
          windowTokens: sessions.windowOf(defaultModel ?? ""),
          ...(supportsImages !== undefined && { supportsImages }),
        },
      };
    },
  });
}

function modelsRoute({ models: { list, defaultModel } }: TableOptions) {
  return route({
    method: "GET",
    path: "/agent/models",
    operationId: "listAgentModels",
    summary: "Returns the models that the agent's provider lists, which a session may choose.",
    responses: {
      200: json("The models.", closed({ models: Type.Array(Type.String()) }, "AgentModels")),
      501: "The provider doesn't list them.",
    },
    answer: async () => {
      const models = await list?.().catch((error) => {
        throw new HttpError(501, "not_supported", `Cannot list the models: ${error.message}.`);
      });
      return { json: { models: [...models ?? [defaultModel].filter((name) => name !== undefined)] } };
    },
  });
}

function documentRoute(routes: () => readonly Route[]): Route {
  return route({
    method: "GET",
    path: "/openapi.json",
    operationId: "getOpenapiDocument",
    summary: "Describes all routes: this document.",
    responses: {
      200: json("An OpenAPI 3.1 document.", Type.Object({})),
    },
    answer: () => ({ json: openapiDocument(routes()) }),
  });
}

const IDEMPOTENCY_KEY = {
  "Idempotency-Key": Type.String({
    minLength: 1,
    maxLength: 255,
    description:
      "A repeated request with the same key and body gets the same response, and takes effect once.",
  }),
};

const ANYTHING: JsonSchema = { description: "The provider's response." };

/** Errors of any route, besides its own. */
const GUARD_ERRORS: Readonly<Record<number, string>> = {
  403: "Forbidden: the origin of the page isn't allowed.",
  421: "Misdirected request: the host isn't this server's.",
  431: "Request headers too large.",
  500: "Internal server error.",
};

const BODY_ERRORS: Readonly<Record<number, string>> = {
  400: "Bad request.",
  413: "Payload too large.",
  415: "Unsupported media type.",
};

const KEY_ERRORS: Readonly<Record<number, string>> = {
  400: "Bad request.",
  409: "Conflict: a request with this Idempotency-Key is in progress, or was when the server stopped.",
  422: "The Idempotency-Key was used with another body.",
};

/**
 * Returns the OpenAPI 3.1 document of these routes, as plain JSON. Each schema with a `title` becomes a component of
 * that name, so a title belongs to one schema only. The schema under `text/event-stream` is that of each event's
 * `data`, the one under `application/x-ndjson` that of each line.
 *
 * @throws {Error} if two different schemas have one title.
 */
export function openapiDocument(routes: readonly Route[]): JsonSchema {
  const schemas: Record<string, JsonSchema> = {};
  const paths: Record<string, Record<string, JsonSchema>> = {};
  for (const route of routes) {
    (paths[route.path] ??= {})[route.method.toLowerCase()] = operation(route);
  }
  return {
    openapi: "3.1.1",
    info: {
      title: "Tare agent server",
      version: config.version,
      license: { name: config.license, identifier: config.license },
    },
    servers: [{ url: "/", description: "The server of this document." }],
    // With guests, some routes need no key.
    security: [{ token: [] }, {}],
    paths: hoistTitled(paths, schemas),
    components: { schemas, securitySchemes: { token: { type: "http", scheme: "bearer" } } },
  };
}

function operation(route: Route): JsonSchema {
  const { operationId, summary, body, lines, isPublic, isShared, method, query = {}, headers = {} } = route;
  const parameters = [
    ...Array.from(route.path.matchAll(/\{(\w+)\}/g), ([, name]) => ({
      name,
      in: "path",
      required: true,
      schema: Type.String(),
    })),
    ...parametersIn("query", query),
    ...parametersIn("header", { ...headers, ...(method !== "GET" && IDEMPOTENCY_KEY) }),
  ];
  const content = body ? { "application/json": { schema: body } } : lines && { [LINES]: { schema: lines } };
  return {
    operationId,
    summary: isShared ? `${summary} Other requests are forwarded to the configured provider.` : summary,
    ...(parameters.length > 0 && { parameters }),
    ...(content && { requestBody: { required: true, content } }),
    responses: Object.fromEntries(
      Object.entries(responsesOf(route)).map(([status, { description, content = {} }]) => {
        const media = Object.entries(content).map(([type, schema]) => {
          return [type, { schema: isShared ? { anyOf: [schema, ANYTHING] } : schema }];
        });
        const all = [...media, ...(isShared ? [["*/*", {}]] : [])];
        return [status, { description, ...(all.length > 0 && { content: Object.fromEntries(all) }) }];
      }),
    ),
    ...(isPublic && { security: [] }),
  };
}

function parametersIn(place: "query" | "header", schemas: TProperties): readonly JsonSchema[] {
  return Object.entries(schemas).map(([name, schema]) => {
    const { description, ...rest } = schema as JsonSchema;
    return { name, in: place, ...(description !== undefined && { description }), schema: rest };
  });
}

function responsesOf(route: Route): Readonly<Record<string, RouteResponse>> {
  const { body, lines, begins, isPublic, isShared, method, errors, responses, query, headers, path } = route;
  const common = {
    ...GUARD_ERRORS,
    ...((query || headers || path.includes("{")) && { 400: "Bad request." }),
    ...(!isPublic && {
      401: "Unauthorized: send a server key as `Authorization: Bearer KEY`.",
      429: "Rate limit exceeded for this key.",
      503: "The server is shutting down; retry.",
      507: "The store is full.",
    }),
    ...(begins && { 402: "The key's budget for today is spent." }),
    ...(method !== "GET" && KEY_ERRORS),
    ...((body || lines) && BODY_ERRORS),
  };
  // The guard doesn't know the route yet, so its errors have the common format.
  const schema = errors ? Type.Union([errors.schema, ERROR]) : ERROR;
  // The provider has its own descriptions of the same statuses.
  const theirs = isShared && { default: { description: "The provider's response." } };
  return Object.fromEntries(
    Object.entries({ ...theirs, ...common, ...responses }).map(([status, response]) => {
      if (typeof response !== "string") return [status, response];
      return [status, Number(status) < 400 ? { description: response } : json(response, schema)];
    }),
  );
}

/** Moves titled schemas to `schemas`, leaving references. */
function hoistTitled(value: unknown, schemas: Record<string, JsonSchema>): unknown {
  if (Array.isArray(value)) return value.map((item) => hoistTitled(item, schemas));
  if (typeof value !== "object" || value === null) return value;
  const copy: Record<string, unknown> = {};
  for (const [name, item] of Object.entries(value)) {
    // An example is not a schema, even with a title.
    copy[name] = name === "examples" ? item : hoistTitled(item, schemas);
  }
  const { title } = copy;
  if (typeof title !== "string") return copy;
  const known = schemas[title];
  if (known && JSON.stringify(known) !== JSON.stringify(copy)) {
    throw new Error(`Cannot document the routes: two different schemas have the title ${title}.`);
  }
  schemas[title] = copy;
  return { $ref: `#/components/schemas/${title}` };
}
