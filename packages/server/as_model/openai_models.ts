import type { JsonSchema } from "@tare/messages";
import { objectSchema } from "../http/object_schema.ts";
import { OPENAI_ERRORS } from "./openai_error.ts";
import { AGENT_MODEL } from "./openai_request.ts";
import type { Route } from "../http/route.ts";

/** JSON Schema of the list of models. */
export const MODEL_LIST: JsonSchema = {
  title: "ModelList",
  ...objectSchema({
    object: { const: "list" },
    data: {
      type: "array",
      items: objectSchema({
        id: { type: "string" },
        object: { const: "model" },
        created: { type: "integer", minimum: 0 },
        owned_by: { type: "string" },
      }),
    },
  }),
};

/** `GET /v1/models`: the one model, `agent`, which is as old as this server. */
export function modelsRoute({ now = Date.now }: { readonly now?: () => number } = {}): Route {
  const agent = {
    id: AGENT_MODEL,
    object: "model",
    created: Math.floor(now() / 1000),
    owned_by: "tare",
  };
  return {
    method: "GET",
    path: "/v1/models",
    operationId: "listModels",
    summary: "Lists the models that the OpenAI-compatible routes take.",
    responses: { 200: { description: "The models.", content: { "application/json": MODEL_LIST } } },
    errors: OPENAI_ERRORS,
    answer: () => Response.json({ object: "list", data: [agent] }),
  };
}
