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
 * Returns the OpenAI-compatible routes, with the agent as a model. A gateway shares them; next to it the agent is
 * listed only with a model of its own.
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
      summary: "Lists the models of the OpenAI-compatible routes.",
      responses: { 200: json("The models.", MODEL_LIST) },
      errors: API_ERRORS,
      answer: () => ({ json: { object: "list" as const, data: isListed ? [agent] : [] } }),
    }),
    route({
      method: "GET",
      path: "/v1/models/{id}",
      operationId: "getModel",
      summary: "Returns a model of the OpenAI-compatible routes.",
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

/** Forwards calls of other models to the gateway. */
function sharedRoutes<R extends Route>(routes: readonly R[], gateway: HttpGateway): readonly R[] {
  const pass: OtherAnswerer["answer"] = (request, caller) => gateway.fetch(request, caller)!;
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
          const { request, caller, signal } = call;
          return await pass(request, { caller, signal });
        }
      },
    };
  });
}

/** Returns whether a body requests another model; `undefined` if it doesn't name one yet. */
function isAnothers(body: Uint8Array<ArrayBuffer>): boolean | undefined {
  const model = peekField(body, "model");
  if (model === undefined) return undefined;
  return typeof model === "string" && model !== AGENT_MODEL;
}

/** The provider's models are omitted if their list fails or is too long. */
async function listBoth(
  call: RouteCall,
  { own, pass }: {
    readonly own: (call: RouteCall) => Promise<Answered> | Answered;
    readonly pass: OtherAnswerer["answer"];
  },
): Promise<Answered> {
  const { request, caller, signal } = call;
  // A client of another protocol expects only its provider's list.
  if (PROTOCOLS.some(({ speaks }) => speaks?.(request.headers))) {
    return await pass(request, { caller, signal });
  }
  const { data, ...list } = await toResponse(await own(call)).json();
  try {
    const reply = await pass(request, { caller, signal });
    const bytes = await readBytes(reply, MAX_EVENT_BYTES);
    const { data: more } = JSON.parse(new TextDecoder().decode(bytes));
    return { json: { ...list, data: reply.ok && Array.isArray(more) ? [...data, ...more] : data } };
  } catch {
    return { json: { ...list, data } };
  }
}
