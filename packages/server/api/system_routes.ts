import type { JsonSchema } from "@tare/messages";
import { objectSchema } from "../http/object_schema.ts";
import type { Route } from "../http/route.ts";

/** The routes about the server itself. `document` gives the OpenAPI document of all routes. */
export function systemRoutes(document: () => JsonSchema): readonly Route[] {
  return [
    {
      method: "GET",
      path: "/health",
      operationId: "getHealth",
      summary: "Says that the server is up.",
      isPublic: true,
      responses: {
        200: {
          description: "It is up.",
          content: { "application/json": objectSchema({ status: { const: "ok" } }) },
        },
      },
      answer: () => Response.json({ status: "ok" }),
    },
    {
      method: "GET",
      path: "/openapi.json",
      operationId: "getOpenapiDocument",
      summary: "Describes all routes: this document.",
      responses: {
        200: {
          description: "An OpenAPI 3.1 document.",
          content: { "application/json": { type: "object" } },
        },
      },
      answer: () => Response.json(document()),
    },
  ];
}
