import type { JsonSchema } from "@tare/messages";
import { Type } from "typebox";
import { ERROR } from "./http_error.ts";
import { LINES } from "./read_request_body.ts";
import type { Route, RouteParameter, RouteResponse } from "./route.ts";
import config from "../deno.json" with { type: "json" };

const IDEMPOTENCY_KEY: RouteParameter = {
  name: "Idempotency-Key",
  in: "header",
  description: "The same key with the same body gets the same answer, and the request acts only once.",
  schema: Type.String({ minLength: 1, maxLength: 255 }),
};

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
    // A server that was started without a token asks for none.
    security: [{ token: [] }, {}],
    paths: hoistTitled(paths, schemas),
    components: { schemas, securitySchemes: { token: { type: "http", scheme: "bearer" } } },
  };
}

function operation(route: Route): JsonSchema {
  const { operationId, summary, body, lines, isPublic, method } = route;
  const parameters = [
    ...Array.from(route.path.matchAll(/\{(\w+)\}/g), ([, name]) => ({
      name,
      in: "path",
      required: true,
      schema: Type.String(),
    })),
    ...(route.parameters ?? []),
    ...(method === "GET" ? [] : [IDEMPOTENCY_KEY]),
  ];
  return {
    operationId,
    summary,
    ...(parameters.length > 0 && { parameters }),
    ...(body &&
      {
        requestBody: { required: true, content: { [lines ? LINES : "application/json"]: { schema: body } } },
      }),
    responses: Object.fromEntries(
      Object.entries(responsesOf(route)).map(([status, { description, content }]) => [status, {
        description,
        ...(content && {
          content: Object.fromEntries(Object.entries(content).map(([type, schema]) => [type, { schema }])),
        }),
      }]),
    ),
    ...(isPublic && { security: [] }),
  };
}

function responsesOf(route: Route): Readonly<Record<string, RouteResponse>> {
  const { body, isPublic, method, errors, responses } = route;
  const common = {
    ...GUARD_ERRORS,
    ...(!isPublic && {
      401: "The request doesn't carry the server's token.",
      507: "The store has no room left.",
    }),
    ...(method !== "GET" && KEY_ERRORS),
    ...(body && BODY_ERRORS),
  };
  // The guard doesn't know the route yet, so it tells its errors in the common shape.
  const schema = errors ? Type.Union([errors.schema, ERROR]) : ERROR;
  const told = ([status, description]: [string, string]): [string, RouteResponse] => [
    status,
    { description, content: { "application/json": schema } },
  ];
  return { ...Object.fromEntries(Object.entries(common).map(told)), ...responses };
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
