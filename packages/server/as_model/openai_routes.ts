import { chatCompletionsRoute } from "./chat_completions.ts";
import { modelsRoute } from "./openai_models.ts";
import type { OpenaiOptions } from "./openai_options.ts";
import { createResponseRoute, getResponseRoute } from "./openai_responses.ts";
import type { Route } from "../http/route.ts";

/** The routes that OpenAI clients call, with the agent as their model. */
export function openaiRoutes(options: OpenaiOptions): readonly Route[] {
  return [
    modelsRoute(options),
    chatCompletionsRoute(options) as Route,
    createResponseRoute(options) as Route,
    getResponseRoute(options),
  ];
}
