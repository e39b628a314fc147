import { Type } from "typebox";
import { errorResponses } from "../http/http_error.ts";
import { route } from "../http/route.ts";
import { closed, COUNT } from "../http/schema.ts";
import { chatCompletionsRoute } from "./chat_completions.ts";
import type { AsModelOptions } from "./continue_conversation.ts";
import { AGENT_MODEL, API_ERROR, API_ERRORS, noSuchModel } from "./errors.ts";
import { createResponseRoute } from "./responses.ts";
import { storedResponseRoutes } from "./stored_responses.ts";

const MODEL = closed(
  {
    id: Type.String(),
    object: Type.Literal("model"),
    created: COUNT,
    owned_by: Type.String(),
  },
  "Model",
  { id: AGENT_MODEL, object: "model", created: 1_767_322_800, owned_by: "tare" },
);

const MODEL_LIST = closed({ object: Type.Literal("list"), data: Type.Array(MODEL) }, "ModelList");

/** The routes that OpenAI clients call, with the agent as their only model, which is as old as this server. */
export function asModelRoutes(options: AsModelOptions) {
  const { now = Date.now } = options;
  const agent = {
    id: AGENT_MODEL,
    object: "model" as const,
    created: Math.floor(now() / 1000),
    owned_by: "tare",
  };
  return [
    route({
      method: "GET",
      path: "/v1/models",
      operationId: "listModels",
      summary: "Lists the models that the OpenAI-compatible routes take.",
      responses: { 200: { description: "The models.", content: { "application/json": MODEL_LIST } } },
      errors: API_ERRORS,
      answer: () => ({ json: { object: "list" as const, data: [agent] } }),
    }),
    route({
      method: "GET",
      path: "/v1/models/{id}",
      operationId: "getModel",
      summary: "Shows a model that the OpenAI-compatible routes take.",
      responses: {
        200: { description: "The model.", content: { "application/json": MODEL } },
        ...errorResponses({ 404: "There is no such model." }, API_ERROR),
      },
      errors: API_ERRORS,
      answer({ path: { id } }) {
        if (id === AGENT_MODEL) return { json: agent };
        throw noSuchModel(id);
      },
    }),
    chatCompletionsRoute(options),
    createResponseRoute(options),
    ...storedResponseRoutes(options),
  ];
}
