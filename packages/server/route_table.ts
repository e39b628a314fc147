import type { JsonSchema } from "@tare/messages";
import { type TProperties, Type } from "typebox";
import type { AgentOptions } from "./agent_options.ts";
import { approvalRoutes } from "./api/approval_routes.ts";
import { fileRoutes, undoRoutes } from "./api/file_routes.ts";
import type { health } from "./api/health_routes.ts";
import { keyRoutes } from "./api/key_routes.ts";
import { metricsRoutes } from "./api/metrics_routes.ts";
import { ledgerRoutes, promptRoutes } from "./api/prompt_routes.ts";
import { SEES_PICTURES, type ServerSessions } from "./api/session_body.ts";
import { agentSessionRoutes, sessionRoutes } from "./api/session_routes.ts";
import { transferRoutes } from "./api/transfer_routes.ts";
import { turnRoutes } from "./api/turn_routes.ts";
import { webhookRoutes } from "./api/webhook_routes.ts";
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

/** What all routes work on. */
export interface TableOptions extends Omit<AgentOptions, "webhooks"> {
  readonly sessions: Sessions;
  /** Its sessions of all kinds. */
  readonly registry: ServerSessions;
  readonly webhooks: Webhooks;
  /** Sends them. Absent: nothing may be told. */
  readonly deliverer: Deliverer | undefined;
  readonly healthRoutes: ReturnType<typeof health>["routes"];
  readonly heartbeat: Heartbeat;
  readonly onError: (error: unknown) => void;
}

/**
 * Returns every route of the server. At the root are only those that providers have too, which the agent as a model
 * answers, and those that watch or describe the server: `/health`, `/metrics` and `/openapi.json`.
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

/** Returns the routes of Tare's own API, by their paths below {@linkcode API_PATH}. The types of its client are theirs. */
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
  ];
}

/** Returns a route that only the agent's sessions have: of another one it responds what to do instead. */
function agentOnly<R extends Route>(route: R, registry: ServerSessions): R {
  if (!route.path.includes("{id}")) return route;
  return {
    ...route,
    responses: {
      501: "The session is another agent's, whose calls pass through.",
      ...route.responses,
    },
    explain: async (error: unknown, { path: { id = "" } }: RouteCall) => {
      const isNotFound = error instanceof HttpError && error.status === 404;
      if (!isNotFound || (await registry.find(id))?.kind !== "gateway") return undefined;
      const does = `${route.method} ${API_PATH}${route.path.replace("{id}", id)}`;
      return notSupported(
        `Cannot ${does}: the session is another agent's, whose calls pass through. Go on in that agent, or ` +
          `make a session of this one with POST ${API_PATH}/sessions.`,
      );
    },
  };
}

/** Returns the route that describes the agent. */
function agentRoute(
  { workspace: { folder: workspace, sandbox } = {}, models, http, sessions }: TableOptions,
) {
  const { defaultModel } = models;
  const { passesOn } = http ?? {};
  return route({
    method: "GET",
    path: "/agent",
    operationId: "getAgent",
    summary: "Says where the agent works, which model it asks, and how much a prompt may hold.",
    responses: {
      200: json(
        "The agent.",
        closed({
          workspace: optionalText("The folder that its tools work in, on the server's machine."),
          sandbox: Type.Optional(closed({
            by: optionalText("What makes it; absent where there is none."),
            why: optionalText("Why there is none."),
            domains: Type.Array(Type.String(), { description: "The hosts that commands reach unasked." }),
          }, "AgentSandbox")),
          model: optionalText(
            "The model of sessions that name no other; absent where there is no agent, only a gateway.",
          ),
          passesOn: Type.Optional(closed({
            chat: optionalText("The provider of chat completions and responses, if there is one."),
            messages: optionalText("The provider of Messages."),
          }, "PassesOn")),
          windowTokens: Type.Number({ description: "How much a prompt may hold at most." }),
          seesPictures: SEES_PICTURES,
        }, "Agent"),
      ),
    },
    answer: () => {
      const seesPictures = defaultModel === undefined ? undefined : sessions.seesPictures(defaultModel);
      return {
        json: {
          ...(workspace !== undefined && { workspace }),
          ...(sandbox !== undefined && { sandbox }),
          ...(defaultModel !== undefined && { model: defaultModel }),
          ...(passesOn !== undefined && { passesOn }),
          windowTokens: sessions.windowOf(defaultModel ?? ""),
          ...(seesPictures !== undefined && { seesPictures }),
        },
      };
    },
  });
}

/** Returns the route that describes all that `routes` returns. */
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
    description: "The same key with the same body gets the same answer, and the request acts only once.",
  }),
};

/** What the provider gives where a request isn't the agent's. */
const ANYTHING: JsonSchema = { description: "What the provider gives." };

/** Errors that any route may answer with, beside those that it names itself. */
const GUARD_ERRORS: Readonly<Record<number, string>> = {
  403: "The request comes from a page of an origin that isn't allowed.",
  421: "The request names a host that isn't the server's.",
  431: "The request's headers are too large.",
  500: "The server met an unexpected error.",
};

const BODY_ERRORS: Readonly<Record<number, string>> = {
  400: "The request isn't valid.",
  413: "The body is too large.",
  415: "The body isn't declared as what it must be.",
};

const KEY_ERRORS: Readonly<Record<number, string>> = {
  400: "The request isn't valid.",
  409: "A request with this Idempotency-Key is being worked on, or was when the server stopped.",
  422: "The Idempotency-Key came with another body before.",
};

/**
 * The OpenAPI 3.1 document of these routes, as plain JSON. Each schema that has a `title` becomes a component of that
 * name, so a title stands for one schema only. The schema under `text/event-stream` is that of each event's `data`,
 * the one under `application/x-ndjson` that of each line.
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
    servers: [{ url: "/", description: "The server that gave this document." }],
    // Where guests may ask some routes want no key.
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
    summary: isShared
      ? `${summary} Whatever isn't the agent's is asked of the configured provider.`
      : summary,
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
    ...((query || headers || path.includes("{")) && { 400: "The request isn't valid." }),
    ...(!isPublic && {
      401: "The request carries no key of the server's, or one that isn't known.",
      429: "The key has asked as often in this minute as it may.",
      503: "The server is ending: ask again.",
      507: "The store has no room left.",
    }),
    ...(begins && { 402: "The key has spent its budget for today." }),
    ...(method !== "GET" && KEY_ERRORS),
    ...((body || lines) && BODY_ERRORS),
  };
  // The guard doesn't know the route yet, so it tells its errors in the common shape.
  const schema = errors ? Type.Union([errors.schema, ERROR]) : ERROR;
  // The provider has words of its own for the statuses that the agent answers with.
  const theirs = isShared && { default: { description: "What the provider gives." } };
  return Object.fromEntries(
    Object.entries({ ...theirs, ...common, ...responses }).map(([status, response]) => {
      if (typeof response !== "string") return [status, response];
      return [status, Number(status) < 400 ? { description: response } : json(response, schema)];
    }),
  );
}

/** Copies JSON, and puts a reference in place of each schema with a title, which goes to `schemas`. */
function hoistTitled(value: unknown, schemas: Record<string, JsonSchema>): unknown {
  if (Array.isArray(value)) return value.map((item) => hoistTitled(item, schemas));
  if (typeof value !== "object" || value === null) return value;
  const copy: Record<string, unknown> = {};
  for (const [name, item] of Object.entries(value)) {
    // An example is no schema, whatever it has for a title.
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
