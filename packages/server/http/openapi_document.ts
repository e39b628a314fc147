import type { JsonSchema } from "@tare/messages";
import { type TProperties, Type } from "typebox";
import { ERROR } from "./http_error.ts";
import { LINES } from "./dispatcher.ts";
import type { Route, RouteResponse } from "./route.ts";
import config from "../deno.json" with { type: "json" };

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
  const told = ([status, description]: [string, string]): [string, RouteResponse] => [
    status,
    { description, content: { "application/json": schema } },
  ];
  // The provider has words of its own for the statuses that the agent answers with.
  const theirs = isShared && { default: { description: "What the provider gives." } };
  return { ...theirs, ...Object.fromEntries(Object.entries(common).map(told)), ...responses };
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
