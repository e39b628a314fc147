import { Type } from "typebox";
import { openapiDocument } from "../http/openapi_document.ts";
import { type Route, route } from "../http/route.ts";
import { closed } from "../http/schema.ts";

/** The routes about the server itself; `routes` gives all that there are. */
export function systemRoutes(routes: () => readonly Route[]): readonly Route[] {
  return [
    route({
      method: "GET",
      path: "/health",
      operationId: "getHealth",
      summary: "Says that the server is up.",
      isPublic: true,
      responses: {
        200: {
          description: "It is up.",
          content: { "application/json": closed({ status: Type.Literal("ok") }) },
        },
      },
      answer: () => ({ json: { status: "ok" } }),
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
