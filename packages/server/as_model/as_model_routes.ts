import { storedResponseRoutes } from "./stored_responses.ts";
import type { HttpGateway } from "@tare/gateway";
import { readBytes } from "@tare/gateway/internal";
import { ApiError, peekField, PROTOCOLS } from "@tare/wire/internal";
import { MAX_EVENT_BYTES } from "@tare/wire/internal/sse";
import { Type } from "typebox";
import { toResponse } from "../http/dispatcher.ts";
import { type Answered, json, type OtherAnswerer, type Route, route, type RouteCall } from "../http/route.ts";
import { closed, COUNT } from "../http/schema.ts";
import { chatCompletionsRoute } from "./chat_completions.ts";
import type { AsModelOptions } from "./continue_conversation.ts";
import { AGENT_MODEL, API_ERRORS, noSuchModel } from "./errors.ts";
import { createResponseRoute } from "./responses.ts";

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

/**
 * The routes that OpenAI clients call, with the agent as a model, which is as old as this server; as their only one unless
 * a gateway shares them. Beside a gateway it is listed only if it has a model of its own.
 */
export function asModelRoutes(
  { gateway, defaultModel, ...options }: AsModelOptions & {
    readonly gateway?: HttpGateway | undefined;
    readonly defaultModel?: string | undefined;
  },
) {
  const isListed = !gateway || defaultModel !== undefined;
  const agent = {
    id: AGENT_MODEL,
    object: "model" as const,
    created: Math.floor(options.store.now() / 1000),
    owned_by: "tare",
  };
  const routes = [
    route({
      method: "GET",
      path: "/v1/models",
      operationId: "listModels",
      summary: "Lists the models that the OpenAI-compatible routes take.",
      responses: { 200: json("The models.", MODEL_LIST) },
      errors: API_ERRORS,
      answer: () => ({ json: { object: "list" as const, data: isListed ? [agent] : [] } }),
    }),
    route({
      method: "GET",
      path: "/v1/models/{id}",
      operationId: "getModel",
      summary: "Shows a model that the OpenAI-compatible routes take.",
      responses: {
        200: json("The model.", MODEL),
        404: "There is no such model.",
      },
      errors: API_ERRORS,
      answer({ path: { id } }) {
        if (isListed && id === AGENT_MODEL) return { json: agent };
        throw noSuchModel(id);
      },
    }),
    chatCompletionsRoute(options),
    createResponseRoute(options),
    ...storedResponseRoutes(options),
  ];
  return gateway ? sharedRoutes(routes, gateway) : routes;
}

/**
 * The routes of the agent as a model, shared with a gateway: calls of the model `agent` are the agent's, those of any
 * other model the gateway's. Both list their models, and what the agent knows nothing of is asked of the provider.
 */
function sharedRoutes<R extends Route>(routes: readonly R[], gateway: HttpGateway): readonly R[] {
  const pass: OtherAnswerer["answer"] = (request, asked) => gateway.fetch(request, asked)!;
  return routes.map((route): R => {
    if (route.body) {
      const other = { maxBodyBytes: gateway.maxBodyBytes, isIts: isAnothers, answer: pass };
      return { ...route, isShared: true, other };
    }
    const own = (call: RouteCall): Promise<Answered> | Answered => route.answer(call);
    if (route.path === "/v1/models") {
      return { ...route, isShared: true, answer: (call: RouteCall) => listBoth(call, { own, pass }) };
    }
    return {
      ...route,
      isShared: true,
      async answer(call: RouteCall) {
        try {
          return await own(call);
        } catch (error) {
          const isUnknown = error instanceof ApiError && error.status === 404;
          if (!isUnknown || !gateway.takes(call.request)) throw error;
          const { request, asker, signal } = call;
          return await pass(request, { asker, signal });
        }
      },
    };
  });
}

/** Whether a body asks for another model than the agent; nothing if it doesn't name one, so far. */
function isAnothers(body: Uint8Array<ArrayBuffer>): boolean | undefined {
  const model = peekField(body, "model");
  if (model === undefined) return undefined;
  // Of what is no model the agent says what is wrong with it.
  return typeof model === "string" && model !== AGENT_MODEL;
}

/** The agent if there is one, then the provider's models; none of them if it doesn't tell, or more than anybody can read. */
async function listBoth(
  call: RouteCall,
  { own, pass }: {
    readonly own: (call: RouteCall) => Promise<Answered> | Answered;
    readonly pass: OtherAnswerer["answer"];
  },
): Promise<Answered> {
  const { request, asker, signal } = call;
  // A client of another protocol expects its provider's list alone.
  if (PROTOCOLS.some(({ speaks }) => speaks?.(request.headers))) {
    return await pass(request, { asker, signal });
  }
  const { data, ...list } = await toResponse(await own(call)).json();
  try {
    const told = await pass(request, { asker, signal });
    const bytes = await readBytes(told, MAX_EVENT_BYTES);
    const { data: more } = JSON.parse(new TextDecoder().decode(bytes));
    return { json: { ...list, data: told.ok && Array.isArray(more) ? [...data, ...more] : data } };
  } catch {
    // Its own models are there all the same.
    return { json: { ...list, data } };
  }
}
