import { ApiError, CHAT_FORMAT, joinBytes, responsesFormat, type WireFormat } from "@tare/wire";
import { Calls } from "./calls.ts";
import type { LedgerReport } from "./ledger.ts";
import type { GatewayOptions } from "./options.ts";

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
 * | `x-tare-saved` | what the session has saved so far, in the price of one uncached input token; streamed: before this call |
 * | `x-tare-warning` | why the request went upstream as it came |
 */
export function gateway(options: GatewayOptions): Gateway {
  const { maxBodyBytes = 128 * 2 ** 20 } = options;
  const formats: readonly WireFormat[] = [CHAT_FORMAT, responsesFormat()];
  const calls = new Calls(options);
  const route = (request: Request): Promise<Response> | undefined => {
    const path = /^\/v1(\/.*)$/.exec(new URL(request.url).pathname)?.[1];
    if (path === undefined) return undefined;
    if (request.method === "POST") {
      const format = formats.find((format) => format.path === path);
      return format && answerCall(format, request);
    }
    if (request.method !== "GET") return undefined;
    if (path === "/ledger") return Promise.resolve(Response.json(calls.ledger.report()));
    if (path === "/models") return calls.forward(path, request);
    const id = /^\/responses\/([^/]+)$/.exec(path)?.[1];
    return id === undefined ? undefined : calls.forward(`/responses/${calls.upstreamResponse(id)}`, request);
  };
  const answerCall = async (format: WireFormat, request: Request): Promise<Response> => {
    const declared = request.headers.get("content-type") ?? "none";
    const bytes = await readBytes(request, maxBodyBytes);
    if (!bytes) {
      return refusal(413, "body_too_large", `Cannot read the body: it has more than ${maxBodyBytes} bytes.`);
    }
    // No web page can send another type without asking first.
    if (declared.split(";")[0]?.trim().toLowerCase() !== "application/json") {
      const reason = `its content-type is ${declared}, and application/json is wanted`;
      return refusal(415, "unsupported_media_type", `Cannot read the body: ${reason}.`);
    }
    return await calls.answer(format, { request, bytes });
  };
  return {
    fetch: (request) =>
      route(request)?.catch((error) => {
        const reason = error instanceof Error ? error.message : String(error);
        return refusal(502, "upstream_unreachable", `Cannot reach the provider: ${reason}.`);
      }),
    ledger: () => calls.ledger.report(),
  };
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

function refusal(status: number, code: string, message: string): Response {
  return new ApiError(status, message, { code }).toResponse();
}
