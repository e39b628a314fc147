/**
 * Upstreams for the gateway's tests. Holds no tests.
 * @module
 */
import { gateway, type GatewayOptions, type GatewayUpstream, type HttpGateway } from "@tare/gateway";
import { estimateTokens } from "@tare/messages";
import { profileNamed } from "@tare/planner";

export interface Forwarded {
  readonly method: string;
  readonly url: string;
  readonly headers: Headers;
  readonly text: string;
  // deno-lint-ignore no-explicit-any
  readonly body: any;
}

export const UPSTREAM: GatewayUpstream = {
  baseURL: "http://upstream.example/v1",
  profile: profileNamed("none"),
  windowTokens: 100_000,
};

export const OPTIONS: GatewayOptions = {
  upstreams: { chat: UPSTREAM, responses: UPSTREAM },
  countTokens: () => Promise.resolve(estimateTokens),
  now: () => 0,
  // Independent of the machine's load.
  retention: { waitMs: 60_000 },
};

export function gatewayed(
  answer: (forwarded: Forwarded, index: number) => Response | Promise<Response>,
  options: Partial<GatewayOptions> = {},
): Pick<HttpGateway, "sessions" | "close"> & {
  readonly ledger: (by?: string) => ReturnType<HttpGateway["sessions"]["ledger"]>;
  readonly fetch: (request: Request, call?: Parameters<HttpGateway["fetch"]>[1]) => Promise<Response>;
  readonly seen: Forwarded[];
} {
  const seen: Forwarded[] = [];
  const upstream = async (...args: Parameters<typeof globalThis.fetch>) => {
    const request = new Request(...args);
    const text = await request.text();
    const { method, url, headers } = request;
    const body = text === "" ? undefined : JSON.parse(text);
    const forwarded = { method, url, headers, text, body };
    seen.push(forwarded);
    return await answer(forwarded, seen.length - 1);
  };
  const made = gateway({ ...OPTIONS, fetch: upstream, ...options });
  const fetch = (request: Request, call?: Parameters<HttpGateway["fetch"]>[1]) =>
    made.fetch(request, call) ?? Promise.reject(new Error("not the gateway's"));
  return { ...made, ledger: (by) => made.sessions.ledger({ by }), fetch, seen };
}

export function completion(message: object, promptTokens = 1000): Response {
  const finish_reason = "tool_calls" in message ? "tool_calls" : "stop";
  return Response.json({
    id: "chatcmpl-1",
    object: "chat.completion",
    choices: [{ index: 0, message: { role: "assistant", content: null, ...message }, finish_reason }],
    usage: { prompt_tokens: promptTokens, completion_tokens: 5, total_tokens: promptTokens + 5 },
  });
}

export function sse(...data: readonly (object | string)[]): Response {
  const text = data.map((one) => `data: ${typeof one === "string" ? one : JSON.stringify(one)}\n\n`).join("");
  return new Response(text, { headers: { "content-type": "text/event-stream" } });
}

export function chunk(delta: object, finish_reason: string | null = null, more: object = {}): object {
  return { id: "c", object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason }], ...more };
}

export function call(name: string, args: object, id: string): object {
  return { id, type: "function", function: { name, arguments: JSON.stringify(args) } };
}

export function post(
  body: unknown,
  headers: Record<string, string> = {},
  path = "/chat/completions",
): Request {
  return new Request(`http://localhost/v1${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
}

export const READ = {
  type: "function",
  function: { name: "read", parameters: { type: "object", properties: { path: { type: "string" } } } },
};
