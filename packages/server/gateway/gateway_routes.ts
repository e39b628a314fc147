import type { JsonSchema } from "@tare/messages";
import { objectSchema } from "../http/object_schema.ts";
import { OPENAI_ERRORS, OpenaiError } from "../as_model/openai_error.ts";
import { AGENT_MODEL } from "../as_model/openai_request.ts";
import type { Route, RouteResponse } from "../http/route.ts";
import { CHAT_FORMAT } from "@tare/wire";
import type { Gateway } from "./gateway.ts";
import { isRecord } from "@tare/wire";
import { responsesFormat } from "@tare/wire";
import type { WireBody, WireFormat } from "@tare/wire";
import { readField, readWireBody } from "@tare/wire";

/** Largest body that is passed on: prompts may hold pictures and recordings. */
const MAX_BODY_BYTES = 128 * 2 ** 20;

const ANYTHING: RouteResponse = {
  description: "The agent's answer, or for another model the upstream's, as it gave it.",
  content: { "application/json": {}, "text/event-stream": {}, "*/*": {} },
};

/** Statuses that this server answers with too, in its own words; an upstream has others for them. */
const SHARED_STATUSES = [200, 400, 401, 403, 404, 409, 413, 415, 422, 429, 431, 499, 500, 502, 504];

const OF_UPSTREAM: Route["responses"] = {
  ...Object.fromEntries(SHARED_STATUSES.map((status) => [status, ANYTHING])),
  default: ANYTHING,
};

/**
 * These routes, with every model but the agent passed on to the gateway's upstream.
 *
 * | header of a request | says |
 * |---|---|
 * | `x-tare-session` | name of its session; default: it is recognised by content |
 * | `x-tare: off` | it goes upstream as it is |
 *
 * | header of an answer | says |
 * |---|---|
 * | `x-tare-session` | the session |
 * | `x-tare-epoch` | how many times its prompt was rewritten |
 * | `x-tare-tokens-received`, `x-tare-tokens-sent` | tokens of the client's prompt and of the upstream's, counted here |
 * | `x-tare-cached-predicted` | tokens that the upstream's cache was expected to serve |
 * | `x-tare-cached-reported` | tokens that it did serve; only of an answer that isn't streamed |
 * | `x-tare-saved` | what the session has saved so far, in the price of one uncached input token; streamed: before this call |
 * | `x-tare-warning` | why the request went upstream as it came |
 */
export function gatewayed(routes: readonly Route[], gateway: Gateway): readonly Route[] {
  const formats: readonly WireFormat[] = [CHAT_FORMAT, responsesFormat()];
  return routes.map((route) => {
    if (route.path === "/v1/models") return withUpstreamModels(route, gateway);
    if (route.path === "/v1/responses/{id}") return withUpstreamResponse(route, gateway);
    const format = formats.find(({ path }) => `/v1${path}` === route.path && route.method === "POST");
    return format ? withUpstream(route, { gateway, format }) : route;
  });
}

function withUpstream(
  route: Route,
  { gateway, format }: { readonly gateway: Gateway; readonly format: WireFormat },
): Route {
  return {
    ...route,
    summary:
      `${route.summary} Requests for any other model than \`${AGENT_MODEL}\` go to the configured provider.`,
    responses: OF_UPSTREAM,
    maxBodyBytes: MAX_BODY_BYTES,
    divert(request, bytes) {
      const body = bodyForUpstream(bytes);
      return body && gateway.answer(format, { request, body }).catch((error) => {
        throw unreachable(error);
      });
    },
  };
}

/** The body of a request for another model than the agent. */
function bodyForUpstream(bytes: Uint8Array<ArrayBuffer>): WireBody | undefined {
  try {
    const body = readWireBody(bytes);
    const model = readField(body, "model");
    return typeof model === "string" && model !== AGENT_MODEL ? body : undefined;
  } catch {
    // The route itself says what is wrong with it.
    return undefined;
  }
}

function withUpstreamModels(route: Route, gateway: Gateway): Route {
  return {
    ...route,
    responses: {
      200: { description: "The agent, then the provider's models.", content: { "application/json": {} } },
    },
    async answer(call) {
      const own = await (await route.answer(call)).json();
      return Response.json({ ...own, data: [...own.data, ...await upstreamModels(gateway, call.request)] });
    },
  };
}

function withUpstreamResponse(route: Route, gateway: Gateway): Route {
  return {
    ...route,
    responses: OF_UPSTREAM,
    async answer(call) {
      try {
        return await route.answer(call);
      } catch (error) {
        if (!(error instanceof OpenaiError && error.status === 404)) throw error;
        const id = gateway.upstreamResponse(call.path.id ?? "");
        return await gateway.forward(`/responses/${encodeURIComponent(id)}`, call.request)
          .catch((error) => {
            throw unreachable(error);
          });
      }
    },
  };
}

/** The upstream's models; none if it doesn't tell. */
async function upstreamModels(gateway: Gateway, request: Request): Promise<readonly unknown[]> {
  try {
    const response = await gateway.forward("/models", request);
    const list: unknown = await response.json();
    return response.ok && isRecord(list) && Array.isArray(list.data) ? list.data : [];
  } catch {
    return [];
  }
}

function unreachable(error: unknown): OpenaiError {
  const reason = error instanceof Error ? error.message : String(error);
  return new OpenaiError(502, `Cannot reach the provider: ${reason}.`, { code: "upstream_unreachable" });
}

const number: JsonSchema = { type: "number" };
const GROUP: JsonSchema = {
  title: "GatewayLedgerGroup",
  ...objectSchema({
    sessions: number,
    calls: number,
    errors: number,
    recalls: number,
    prompt_tokens: number,
    cached_tokens: number,
    output_tokens: number,
    cost: number,
    cost_per_session: number,
    calls_per_session: number,
  }),
};

/** `GET /v1/ledger`: what the gateway's sessions cost, planned and left as they are. */
export function ledgerRoute({ ledger }: Pick<Gateway, "ledger">): Route {
  return {
    method: "GET",
    path: "/v1/ledger",
    operationId: "getLedger",
    summary:
      "Compares what sessions of other models cost with and without planning, since the server's start.",
    responses: {
      200: {
        description: "Both groups. Costs are in the price of one uncached input token.",
        content: {
          "application/json": { title: "GatewayLedger", ...objectSchema({ planned: GROUP, control: GROUP }) },
        },
      },
    },
    errors: OPENAI_ERRORS,
    answer: () => Response.json(ledger.report()),
  };
}
