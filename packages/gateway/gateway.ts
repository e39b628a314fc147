import { ApiError, joinBytes, type Protocol, PROTOCOLS } from "@tare/wire";
import type { LedgerReport } from "./ledger.ts";
import type { GatewayOptions } from "./options.ts";
import { PlannedCalls } from "./planned_calls.ts";

/** A gateway as a function from request to response, with no port of its own. */
export interface Gateway {
  /** Answers a request; gives nothing for one that isn't to any of its routes. Never rejects. */
  readonly fetch: (request: Request) => Promise<Response> | undefined;
  /** What its sessions cost so far. */
  readonly ledger: () => LedgerReport;
}

/**
 * Makes a gateway: model calls go to the provider with what of their prompts still pays for its place. Whatever goes
 * wrong in deciding that, a request goes upstream as the client sent it.
 *
 * | route | does |
 * |---|---|
 * | `POST /v1/chat/completions`, `POST /v1/responses` | planned, then passed on |
 * | `GET /v1/responses/{id}`, `GET /v1/models` | passed on |
 * | `GET /v1/ledger` | what its sessions cost, planned and left as they are |
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
 * | `x-tare-saved` | what the session has saved so far, in the price of one uncached input token; streamed: before this call; not with the policy `classic` |
 * | `x-tare-warning` | why the request went upstream as it came |
 */
export function gateway(options: GatewayOptions): Gateway {
  const { maxBodyBytes = 128 * 2 ** 20 } = options;
  const calls = new PlannedCalls(options);
  const route = (request: Request): Promise<Response> | undefined => {
    const path = /^\/v1(\/.*)$/.exec(new URL(request.url).pathname)?.[1];
    if (path === undefined) return undefined;
    if (request.method === "POST") {
      const protocol = PROTOCOLS.find((protocol) => protocol.path === path);
      return protocol && answerCall(protocol, request);
    }
    if (request.method !== "GET") return undefined;
    if (path === "/ledger") return Promise.resolve(Response.json(calls.ledger.report()));
    if (path === "/models") return calls.forward(path, request);
    for (const protocol of PROTOCOLS) {
      const id = path.startsWith(`${protocol.path}/`) ? path.slice(protocol.path.length + 1) : "";
      if (!protocol.followsField || id === "" || id.includes("/")) continue;
      return calls.forwardResponse(protocol, id, request);
    }
    return undefined;
  };
  const answerCall = async (protocol: Protocol, request: Request): Promise<Response> => {
    const declared = request.headers.get("content-type") ?? "none";
    const bytes = await readBytes(request, maxBodyBytes);
    if (!bytes) {
      const message = `Cannot read the body: it has more than ${maxBodyBytes} bytes.`;
      return protocol.refuse(413, message, "body_too_large");
    }
    // No web page can send another type without asking first.
    if (declared.split(";")[0]?.trim().toLowerCase() !== "application/json") {
      const reason = `its content-type is ${declared}, and application/json is wanted`;
      return protocol.refuse(415, `Cannot read the body: ${reason}.`, "unsupported_media_type");
    }
    return await calls.answer(protocol, { request, bytes })
      .catch((error) => protocol.refuse(502, unreachable(error), "upstream_unreachable"));
  };
  return {
    fetch: (request) =>
      route(request)?.catch((error) =>
        new ApiError(502, unreachable(error), { code: "upstream_unreachable" }).toResponse()
      ),
    ledger: () => calls.ledger.report(),
  };
}

function unreachable(error: unknown): string {
  return `Cannot reach the provider: ${error instanceof Error ? error.message : error}.`;
}

/** The request's body; nothing if it has more bytes. */
async function readBytes(request: Request, maxBytes: number): Promise<Uint8Array<ArrayBuffer> | undefined> {
  if (Number(request.headers.get("content-length") ?? 0) > maxBytes) return undefined;
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  let length = 0;
  for await (const chunk of request.body ?? []) {
    length += chunk.length;
    if (length > maxBytes) return undefined;
    chunks.push(chunk);
  }
  return joinBytes(chunks);
}
