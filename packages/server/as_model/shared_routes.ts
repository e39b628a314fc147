import { type Gateway, readBytes } from "@tare/gateway";
import { ApiError, MAX_EVENT_BYTES, peekField, PROTOCOLS } from "@tare/wire";
import { toResponse } from "../http/idempotency.ts";
import type { Answered, Route, RouteCall } from "../http/route.ts";
import { AGENT_MODEL } from "./errors.ts";

/**
 * The routes of the agent as a model, shared with a gateway: calls of the model `agent` are the agent's, those of any
 * other model the gateway's. Both list their models, and what the agent knows nothing of is asked of the provider.
 */
export function sharedRoutes<R extends Route>(routes: readonly R[], gateway: Gateway): readonly R[] {
  const pass = (request: Request, body?: Uint8Array<ArrayBuffer>) => gateway.fetch(request, body)!;
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
          return await pass(call.request);
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

/** The agent, then the provider's models; none of them if it doesn't tell, or more than anybody can read. */
async function listBoth(
  call: RouteCall,
  { own, pass }: {
    readonly own: (call: RouteCall) => Promise<Answered> | Answered;
    readonly pass: (request: Request) => Promise<Response>;
  },
): Promise<Answered> {
  const { request } = call;
  // A client of another protocol expects its provider's list alone.
  if (PROTOCOLS.some(({ speaks }) => speaks?.(request.headers))) return await pass(request);
  const { data, ...list } = await toResponse(await own(call)).json();
  try {
    const told = await pass(request);
    const bytes = await readBytes(told, MAX_EVENT_BYTES);
    const { data: more } = JSON.parse(new TextDecoder().decode(bytes));
    return { json: { ...list, data: told.ok && Array.isArray(more) ? [...data, ...more] : data } };
  } catch {
    // Its own models are there all the same.
    return { json: { ...list, data } };
  }
}
