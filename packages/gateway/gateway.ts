/**
 * A gateway for any client or agent: forwards model calls to a provider with the parts of each prompt that
 * are worth their cost, as a function from request to response.
 *
 * @example
 * ```ts ignore
 * import { gateway } from "@tare/gateway";
 * import { estimateTokens } from "@tare/messages";
 * import { profileNamed } from "@tare/planner";
 * import OpenAI from "openai";
 *
 * const baseURL = Deno.env.get("OPENAI_BASE_URL") ?? "https://api.openai.com/v1";
 * const provider = { baseURL, profile: profileNamed("openai"), windowTokens: 272_000 };
 * const lean = gateway({
 *   upstreams: { chat: provider, responses: provider },
 *   countTokens: () => Promise.resolve(estimateTokens),
 * });
 * // Or on a port, for any program: Deno.serve((request) => lean.fetch(request) ?? new Response(null, { status: 404 }))
 * const client = new OpenAI({
 *   baseURL: "http://tare/v1",
 *   fetch: (url, init) => Promise.resolve(lean.fetch(new Request(url, init))!),
 * });
 * const { choices: [reply] } = await client.chat.completions.create({ model: "gpt-5", messages, tools });
 * ```
 *
 * @module
 */
import { type Caller, Keys } from "@tare/session";
import { SessionRegistry } from "@tare/session/internal";
import { Telemetry } from "@tare/session/telemetry";
import { checkGiven, type NeededOptions } from "@tare/messages/internal";
import { listPrice } from "@tare/planner";
import { ApiError, peekField, type Protocol, PROTOCOLS } from "@tare/wire/internal";
import type { PolicyOptions } from "@tare/planner/policies";
import type { GatewayOptions, GatewayUpstream } from "./options.ts";
import { PlannedCalls } from "./planned_calls.ts";
import { readBody, readPath } from "./http.ts";
import type { GatewaySessionDetails, GatewaySessionSummary } from "./sessions/sessions.ts";
import { Turns } from "./turns.ts";

export type { GatewayOptions, GatewayUpstream } from "./options.ts";

/** Properties of a request that are not part of it. */
export interface GatewayCall {
  readonly body?: Uint8Array<ArrayBuffer> | undefined;
  readonly caller?: Caller | undefined;
  /**
   * Aborted if the client disconnects before the answer begins, which cancels the provider's call; later the client
   * cancels the answer's body. The request's own signal isn't used: `Deno.serve` aborts it after every answer. Default:
   * none.
   */
  readonly signal?: AbortSignal | undefined;
}

/** A gateway as a function from request to response, without a port. */
export interface HttpGateway {
  /** Answers a request; `undefined` if it is neither under `/v1` nor `HEAD /`. Never rejects. */
  readonly fetch: (request: Request, call?: GatewayCall) => Promise<Response> | undefined;
  /** Whether a request is forwarded or answered with an upgrade error, not refused. */
  readonly takes: (request: Request) => boolean;
  readonly maxBodyBytes: number;
  /** Its sessions: lists, calls, totals and changes by users. */
  readonly sessions: SessionRegistry<GatewaySessionSummary, GatewaySessionDetails>;
  /** Waits at most two seconds until all sessions are stored. Never rejects. */
  readonly close: () => Promise<void>;
}

const PLANNING: NeededOptions<PolicyOptions> = {
  "policy?": "string",
  "mechanisms?": "object",
  "evict?": "string",
  "truncateTokens?": "count",
  "alwaysFull?": "array",
  "triggers?": "object",
};

const LIMITS: NeededOptions<NonNullable<GatewayOptions["limits"]>> = {
  "bodyBytes?": "number",
  "memoryBytes?": "number",
};

const RETENTION: NeededOptions<NonNullable<GatewayOptions["retention"]>> = {
  "content?": "boolean",
  "maxAgeMs?": "function",
  "maxBytes?": "number",
  "waitMs?": "number",
};

const OPTIONS: NeededOptions<GatewayOptions> = {
  upstreams: "object",
  countTokens: "function",
  "fetch?": "function",
  "keys?": "object",
  "forward?": "array",
  "planning?": PLANNING,
  "recall?": "boolean",
  "holdout?": "share",
  "limits?": LIMITS,
  "store?": "object",
  "retention?": RETENTION,
  "keepAlive?": "object",
  "onError?": "function",
  "telemetry?": "object",
  "now?": "function",
};

const UPSTREAM: NeededOptions<GatewayUpstream> = {
  baseURL: "string",
  "apiKey?": "string",
  profile: "value",
  "price?": "function",
  "windowTokens?": ["number", "function"],
  "assumesWindow?": "function",
  "defersTools?": "function",
};

/**
 * Creates a gateway that removes from prompts the parts that cost more than they are worth, and forwards them. If planning
 * fails, a request is forwarded unchanged.
 *
 * | route | behavior |
 * |---|---|
 * | `POST /v1/chat/completions`, `POST /v1/responses`, `POST /v1/messages` | planned and forwarded |
 * | `POST /v1/responses/input_tokens`, `POST /v1/messages/count_tokens` | forwarded with the prompt that the model received last |
 * | other paths below `/v1/responses`, `/v1/files`, `/v1/images`, `/v1/audio`, `/v1/batches`, `/v1/conversations`, `/v1/uploads`, `/v1/containers`, `/v1/skills`, `/v1/sessions`, `/v1/agents`, `/v1/environments`, `/v1/messages/batches`, and `/v1/completions`, `/v1/embeddings`, `/v1/moderations`, `GET /v1/models` | forwarded unchanged, streamed both ways |
 * | any other path under `/v1` | likewise with the client's own key, or if listed in `forward`; 404 with the server's key |
 * | WebSocket upgrades | 426: clients fall back to HTTP |
 * | `HEAD /` | 200, as a health check |
 *
 * | request header | effect |
 * |---|---|
 * | `x-tare-session` | name of its session; default: recognized by content |
 * | `x-tare: off` | forwarded unchanged |
 * | `x-tare: dry-run` | its session is forwarded unchanged, and its ledger records the estimated saving; one that was edited before stays unchanged from then on |
 *
 * | response header | value |
 * |---|---|
 * | `x-tare-session` | id of the session |
 * | `x-tare-epoch` | number of rewrites of its prompt |
 * | `x-tare-tokens-received`, `x-tare-tokens-sent` | tokens of the client's prompt and of the upstream's, counted locally |
 * | `x-tare-cached-predicted` | tokens that were expected to be read from the provider's cache |
 * | `x-tare-cached-reported` | tokens that were read from it; only if the answer isn't streamed |
 * | `x-tare-saved-cost-units` | estimated saving of the session in cost units (one = one uncached input token); of a stream, before this call; not with the policy `classic` |
 * | `x-tare-warning` | reason why the request was forwarded unchanged, or content that was omitted |
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { gateway } from "@tare/gateway";
 * import { estimateTokens } from "@tare/messages";
 * import { profileNamed } from "@tare/planner";
 *
 * const { fetch } = gateway({
 *   upstreams: { chat: { baseURL: "https://api.openai.com/v1", profile: profileNamed("openai") } },
 *   countTokens: () => Promise.resolve(estimateTokens),
 *   // A provider for this example:
 *   fetch: () => Promise.resolve(Response.json({ data: [] })),
 * });
 * const answer = await fetch(new Request("http://localhost/v1/models"));
 * assertEquals(await answer?.json(), { data: [] });
 * ```
 */
export function gateway(options: GatewayOptions): HttpGateway {
  checkGiven("gateway()", { options }, { options: OPTIONS });
  const { upstreams } = options;
  checkGiven("gateway()", { "options.upstreams": upstreams }, {
    "options.upstreams": Object.fromEntries(Object.keys(upstreams).map((name) => [name, UPSTREAM])),
  });
  const { limits: { bodyBytes: maxBytes = 32 * 2 ** 20 } = {}, forward: more = [] } = options;
  const { store, now = store?.now ?? Date.now, telemetry = new Telemetry("@tare/gateway") } = options;
  const set = { ...options, telemetry, now };
  const turns = new Turns(set);
  const calls = new PlannedCalls(turns, set);
  const served = PROTOCOLS.filter(({ name }) => Object.hasOwn(options.upstreams, name));
  /** Returns the protocol of a request by its path or headers, else that of any client; `own` if it is by path. */
  const protocolOf = ({ path }: RequestPath, { headers }: Request) => {
    const own = PROTOCOLS.find((one) => path === one.path || path.startsWith(`${one.path}/`));
    const protocol = own ?? served.find((one) => one.speaks?.(headers)) ?? served.find((one) => !one.speaks);
    return { own, protocol };
  };
  const refusal = ({ parts, sent }: RequestPath, request: Request, protocol: Protocol | undefined) => {
    if (!protocol || !served.includes(protocol)) {
      const message = `Cannot forward /v1${sent}: no upstream is configured for its protocol.`;
      return new ApiError(404, message, { code: "no_upstream" });
    }
    if (isCrooked(parts)) {
      const reason = "the path has empty or parent segments";
      return new ApiError(404, `Cannot find /v1${sent}: ${reason}.`, { code: "not_found" });
    }
    const { method } = request;
    const isOpen = options.upstreams[protocol.name]?.apiKey === undefined;
    if (isOpen || isModelPath(parts, { method, more })) return undefined;
    const allowed = methodsOf(parts);
    if (allowed.length > 0) {
      const allow = allowed.join(", ");
      const reason = `the server's key allows only ${allow}`;
      return new ApiError(405, `Cannot ${method} /v1${sent}: ${reason}.`, {
        code: "method_not_allowed",
        headers: { allow },
      });
    }
    const reason = "the server's key may be used only for model paths. " +
      `Allow it with --forward /v1${sent} (TARE_FORWARD)`;
    return new ApiError(404, `Cannot forward /v1${sent}: ${reason}.`, { code: "not_found" });
  };
  const route = async (
    requestPath: RequestPath,
    request: Request,
    { body, caller = Keys.OWNER, signal }: GatewayCall,
  ): Promise<Response> => {
    const { path, sent } = requestPath;
    assertMay(caller);
    if (isUpgrade(request)) {
      const message = `Cannot open a WebSocket at /v1${sent}: only HTTP is supported.`;
      throw new ApiError(426, message, { code: "upgrade_required" });
    }
    if (request.method === "POST") {
      for (const protocol of served) {
        const counts = path === protocol.countPath;
        if (counts || path === protocol.path) {
          return await answerCall(protocol, request, { counts, body, caller, signal });
        }
      }
    }
    if (isFromPage(request)) {
      const reason = "it was sent by a page of another origin without a CORS preflight";
      throw new ApiError(403, `Cannot forward the request: ${reason}.`, { code: "origin_not_allowed" });
    }
    if (request.method !== "GET" && request.method !== "HEAD") assertMay(caller, false);
    const { own, protocol } = protocolOf(requestPath, request);
    const refused = refusal(requestPath, request, protocol);
    if (!protocol || refused) throw refused;
    const below = protocol.followsField && own && sent.slice(protocol.path.length + 1);
    return below
      ? await calls.forwardResponse(protocol, below, { request, signal, by: Keys.nameOf(caller) })
      : await calls.forward(protocol, sent, { request, signal });
  };
  /** @throws {ApiError} unless the caller has access and budget. */
  const assertMay = (caller: Caller, isPriced = true) => {
    const refused = options.keys?.refusal(caller, "gateway") ??
      options.keys?.budgetRefusal(Keys.nameOf(caller), isPriced);
    if (!refused) return;
    const { status, code, message } = refused;
    // The code that clients of the providers expect.
    throw new ApiError(status, message, { code: code === "budget_spent" ? "insufficient_quota" : code });
  };
  const answerCall = async (
    protocol: Protocol,
    request: Request,
    { counts, body, caller, signal }: {
      readonly counts: boolean;
      readonly body: Uint8Array<ArrayBuffer> | undefined;
      readonly caller: Caller;
      readonly signal: AbortSignal | undefined;
    },
  ): Promise<Response> => {
    const declared = request.headers.get("content-type") ?? "none";
    const bytes = body ?? await readBody(request, { maxBytes });
    // The provider may support other encodings.
    if (!bytes) assertMay(caller, false);
    if (!bytes) {
      const path = counts && protocol.countPath || protocol.path;
      return await calls.forward(protocol, path, { request, signal });
    }
    // Browsers send this type to other origins only after a preflight request.
    if (declared.split(";")[0]?.trim().toLowerCase() !== "application/json") {
      const reason = `its content-type is ${declared}. Send application/json`;
      throw new ApiError(415, `Cannot read the body: ${reason}.`, { code: "unsupported_media_type" });
    }
    const { price = listPrice } = options.upstreams[protocol.name] ?? {};
    const model = peekField(bytes, "model");
    if (!counts) assertMay(caller, typeof model === "string" && price(model) !== undefined);
    const by = Keys.nameOf(caller);
    return await calls.answer(protocol, { request: decoded(request), signal, bytes, counts, by });
  };
  return {
    fetch: (request, asking = {}) => {
      const { pathname } = new URL(request.url);
      // Some clients check reachability first.
      if (pathname === "/" && request.method === "HEAD") return Promise.resolve(new Response());
      const requestPath = requestPathOf(pathname);
      if (!requestPath) return undefined;
      return Telemetry.inTraceOf(request, () => route(requestPath, request, asking)).catch((error) => {
        const apiError = error instanceof ApiError
          ? error
          : new ApiError(502, unreachable(error), { code: "upstream_unreachable" });
        const { protocol } = protocolOf(requestPath, request);
        const { status, message, details: { code = "", headers = {} } } = apiError;
        const response = protocol?.refuse(status, message, code) ?? apiError.toResponse();
        for (const [name, value] of Object.entries(headers)) response.headers.set(name, value);
        return response;
      });
    },
    takes: (request) => {
      const requestPath = requestPathOf(new URL(request.url).pathname);
      if (!requestPath) return false;
      return isUpgrade(request) ||
        !refusal(requestPath, request, protocolOf(requestPath, request).protocol);
    },
    maxBodyBytes: maxBytes,
    sessions: new SessionRegistry([turns.sessions]),
    close: () => turns.close(),
  };
}

interface RequestPath {
  readonly sent: string;
  /** The path with decoded parts, unless one of them contains a `/`. */
  readonly path: string;
  readonly parts: readonly string[];
}

function requestPathOf(pathname: string): RequestPath | undefined {
  const sent = /^\/v1(\/.*)$/.exec(pathname)?.[1];
  if (sent === undefined) return undefined;
  // A path that can't be decoded matches none.
  const parts = readPath(sent) ?? [""];
  return { sent, parts, path: parts.some((part) => part.includes("/")) ? sent : `/${parts.join("/")}` };
}

function isUpgrade({ headers }: Request): boolean {
  return headers.get("upgrade")?.toLowerCase() === "websocket";
}

function decoded(request: Request): Request {
  if (!request.headers.has("content-encoding")) return request;
  const headers = new Headers(request.headers);
  headers.delete("content-encoding");
  headers.delete("content-length");
  const { url, method } = request;
  return new Request(url, { method, headers });
}

/** Whether a page of another origin sent a request without a preflight request. */
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

interface ModelPath {
  readonly path: string;
  /** Whether paths below it are included. Default: false. */
  readonly below?: boolean;
  /** Methods that use a model without changing the account. Default: any. */
  readonly methods?: readonly string[];
}

/** Paths that the server's key may be used for: those that use models, not those that manage an account. */
const MODEL_PATHS: readonly ModelPath[] = [
  ...PROTOCOLS.flatMap(({ path, countPath, followsField }) => [
    { path: path.slice(1), below: followsField !== undefined },
    ...(countPath === undefined ? [] : [{ path: countPath.slice(1) }]),
  ]),
  { path: "completions" },
  // Custom models can be deleted.
  { path: "models", below: true, methods: ["GET", "HEAD"] },
  { path: "embeddings" },
  { path: "moderations" },
  { path: "files", below: true },
  { path: "images", below: true },
  { path: "audio", below: true },
  { path: "batches", below: true },
  { path: "conversations", below: true },
  { path: "uploads", below: true },
  { path: "containers", below: true },
  { path: "skills", below: true },
  // Anthropic's managed agents, without their memory and the vaults that hold their credentials.
  ...["sessions", "agents", "environments"].map((path) => ({ path, below: true })),
  { path: "messages/batches", below: true },
];

/** Whether a provider could resolve a path to another one: it has empty or `..` parts, however encoded. */
function isCrooked(parts: readonly string[]): boolean {
  return parts.some((part) => {
    let text = part;
    for (let before = ""; before !== text;) {
      before = text;
      try {
        text = decodeURIComponent(text);
      } catch {
        // As far decoded as can be.
      }
    }
    return text.split(/[/\\]/).some((piece) => piece === "" || piece === "." || piece === "..");
  });
}

/**
 * Whether the server's key may be used for a path without `v1`, with this method. `more` are other paths, such as
 * `/v1/vector_stores`, with those below them.
 */
function isModelPath(
  parts: readonly string[],
  { method, more = [] }: { readonly method: string; readonly more?: readonly string[] },
): boolean {
  const all = [
    ...MODEL_PATHS,
    ...more.map((path): ModelPath => ({ path: path.replace(/^\/v1\//, ""), below: true })),
  ];
  return all.some((one) => fits(one, parts) && (one.methods?.includes(method) ?? true));
}

function methodsOf(parts: readonly string[]): readonly string[] {
  return MODEL_PATHS.find((one) => one.methods && fits(one, parts))?.methods ?? [];
}

function fits({ path, below = false }: ModelPath, parts: readonly string[]): boolean {
  const words = path.split("/");
  if (parts.length < words.length || (!below && parts.length > words.length)) return false;
  return words.every((word, at) => parts[at] === word);
}
