import { checkGiven } from "@tare/messages";
import { inTraceOf } from "@tare/conversation/telemetry";
import { ApiError, type Protocol, PROTOCOLS } from "@tare/wire";
import { decodeRequest, readBytes } from "./decode_request.ts";
import type { LedgerReport } from "@tare/conversation/report";
import type { GatewayOptions } from "./options.ts";
import { PlannedCalls } from "./planned_calls.ts";
import { answerAboutSessions } from "./sessions/session_routes.ts";

/** A gateway as a function from request to response, with no port of its own. */
export interface Gateway {
  /** Answers a request; gives nothing for one that is neither under `/v1` nor `HEAD /`. Never rejects. */
  readonly fetch: (request: Request) => Promise<Response> | undefined;
  /** Whether there is an upstream to which a request would be passed on. */
  readonly hasUpstream: (request: Request) => boolean;
  /** What its sessions cost so far. */
  readonly ledger: () => Promise<LedgerReport>;
  /** Waits until what is known of its sessions is kept, two seconds at most. Never rejects. */
  readonly close: () => Promise<void>;
}

/**
 * Makes a gateway: model calls go to the provider with what of their prompts still pays for its place. Whatever goes
 * wrong in deciding that, a request goes upstream as the client sent it.
 *
 * | route | does |
 * |---|---|
 * | `POST /v1/chat/completions`, `POST /v1/responses`, `POST /v1/messages` | planned, then passed on |
 * | `POST /v1/responses/input_tokens`, `POST /v1/messages/count_tokens` | passed on with the view that the model had last |
 * | `GET /v1/ledger` | what its sessions cost, planned and left as they are |
 * | `GET /v1/gateway/overview` | what was saved today and since the start, the control group beside it, and the newest warnings |
 * | `GET /v1/gateway/sessions?limit=N&after=ID&search=TEXT` | its sessions, the newest first, page by page |
 * | `GET /v1/gateway/sessions/{id}` | one, with what left its prompt and why |
 * | `GET /v1/gateway/sessions/{id}/calls` | what its model calls took (where none are kept, the newest 2,000), and what was rewritten before each and why |
 * | `GET /v1/gateway/sessions/{id}/prompt` | what its model sees, a block for each tool and message |
 * | `GET /v1/gateway/sessions/{id}/prompt/{block}` | a block: what stands there now, and what was said |
 * | `GET`, `POST /v1/gateway/sessions/{id}/pins`, `DELETE …/pins/{place}` | what is asked of single messages |
 * | anything else under `/v1` | passed on as it comes, streamed both ways; a websocket gets 426 |
 * | `HEAD /` | says that somebody is there |
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
 * | `x-tare-saved-token-units` | what the session has saved so far, in token units: the price of one uncached input token is 1; streamed: before this call; not with the policy `classic` |
 * | `x-tare-warning` | why the request went upstream as it came, or what was left out of it |
 */
export function gateway(options: GatewayOptions): Gateway {
  checkGiven("gateway()", { options }, { options: { upstreams: "object", countTokens: "function" } });
  for (const name of Object.keys(options.upstreams)) {
    checkGiven("gateway()", { options }, {
      options: { upstreams: { [name]: { baseURL: "string", profile: "value" } } },
    });
  }
  const { maxBodyBytes: maxBytes = 128 * 2 ** 20 } = options;
  const calls = new PlannedCalls(options);
  const served = PROTOCOLS.filter(({ name }) => Object.hasOwn(options.upstreams, name));
  /** The protocol of a request by its path or headers, else that of any client; `own` if it is by path. */
  const protocolOf = (path: string, { headers }: Request) => {
    const own = PROTOCOLS.find((one) => path === one.path || path.startsWith(`${one.path}/`));
    const protocol = own ?? served.find((one) => one.speaks?.(headers)) ?? served.find((one) => !one.speaks);
    return { own, protocol };
  };
  /** Passes a request on to the upstream of its protocol. */
  const forward = async (path: string, request: Request): Promise<Response> => {
    const { own, protocol } = protocolOf(path, request);
    if (!protocol || !served.includes(protocol)) return withoutUpstream(path, protocol);
    const below = protocol.followsField && own && path.slice(protocol.path.length + 1);
    return below
      ? await calls.forwardResponse(protocol, below, request)
      : await calls.forward(protocol, path, request);
  };
  const route = async (request: Request, path: string): Promise<Response> => {
    if (request.headers.get("upgrade")?.toLowerCase() === "websocket") return withoutWebsocket(path);
    if (request.method === "POST") {
      for (const protocol of served) {
        const counts = path === protocol.countPath;
        if (counts || path === protocol.path) return await answerCall(protocol, request, counts);
      }
    }
    if (request.method === "GET" || request.method === "HEAD") {
      if (path === "/ledger") return Response.json(await calls.ledger());
      if (path === "/gateway/overview") return Response.json(await calls.overview());
    }
    if (path === SESSIONS || path.startsWith(`${SESSIONS}/`)) {
      const answer = await answerAboutSessions(request, path.slice(SESSIONS.length), {
        ...options,
        sessions: calls.sessions,
        changed: async (session) => await calls.save(session),
      });
      if (answer) return answer;
    }
    if (isFromPage(request)) {
      const reason = "it comes from a page of another origin, and could be sent without its asking first";
      throw new ApiError(403, `Cannot pass the request on: ${reason}.`, { code: "origin_not_allowed" });
    }
    return await forward(path, request);
  };
  const answerCall = async (protocol: Protocol, request: Request, counts: boolean): Promise<Response> => {
    try {
      const declared = request.headers.get("content-type") ?? "none";
      const plain = await decodeRequest(request, { maxBytes });
      // What can't be read here may be read there.
      if (plain.headers.has("content-encoding")) {
        return await calls.forward(protocol, counts && protocol.countPath || protocol.path, request);
      }
      const bytes = await readBytes(plain, maxBytes);
      // No web page can send another type without asking first.
      if (declared.split(";")[0]?.trim().toLowerCase() !== "application/json") {
        const reason = `its content-type is ${declared}, and application/json is wanted`;
        return protocol.refuse(415, `Cannot read the body: ${reason}.`, "unsupported_media_type");
      }
      return await calls.answer(protocol, { request: plain, bytes, counts });
    } catch (error) {
      if (!(error instanceof ApiError)) {
        return protocol.refuse(502, unreachable(error), "upstream_unreachable");
      }
      return protocol.refuse(error.status, error.message, error.details.code ?? "");
    }
  };
  return {
    fetch: (request) => {
      const { pathname } = new URL(request.url);
      // Some clients look whether anybody is there before they ask.
      if (pathname === "/" && request.method === "HEAD") return Promise.resolve(new Response());
      const path = pathOf(request);
      if (path === undefined) return undefined;
      return inTraceOf(request, () => route(request, path)).catch((error) => {
        const told = error instanceof ApiError
          ? error
          : new ApiError(502, unreachable(error), { code: "upstream_unreachable" });
        const { own } = protocolOf(path, request);
        return own?.refuse(told.status, told.message, told.details.code ?? "") ?? told.toResponse();
      });
    },
    hasUpstream: (request) => {
      const path = pathOf(request);
      const { protocol } = path === undefined ? {} : protocolOf(path, request);
      return protocol !== undefined && served.includes(protocol);
    },
    ledger: () => calls.ledger(),
    close: () => calls.close(),
  };
}

/** The path of a request below `/v1`; nothing if it isn't below. */
function pathOf({ url }: Request): string | undefined {
  return /^\/v1(\/.*)$/.exec(new URL(url).pathname)?.[1];
}

const SESSIONS = "/gateway/sessions";

/** Clients that ask for a websocket go on over HTTP as soon as they hear this. */
function withoutWebsocket(path: string): Response {
  const message = `Cannot open a websocket at /v1${path}: this server answers over HTTP alone.`;
  return new ApiError(426, message, { code: "upgrade_required" }).toResponse();
}

function withoutUpstream(path: string, protocol?: Protocol): Response {
  const message = `Cannot pass /v1${path} on: the gateway has no upstream for it.`;
  const code = "no_upstream";
  return protocol?.refuse(404, message, code) ?? new ApiError(404, message, { code }).toResponse();
}

/** Whether a page of another origin made a browser send a request, of a kind for which no browser asks first. */
function isFromPage({ method, headers, url }: Request): boolean {
  const origin = headers.get("origin");
  if (origin === null || origin === new URL(url).origin || method === "GET" || method === "HEAD") {
    return false;
  }
  return !/^application\/json\b/i.test(headers.get("content-type") ?? "");
}

function unreachable(error: unknown): string {
  return `Cannot reach the provider: ${error instanceof Error ? error.message : error}.`;
}
