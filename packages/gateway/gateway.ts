/**
 * Puts Tare in front of somebody else's agent: passes its model calls on to a provider with only what of each prompt
 * still pays for its place, as a function from request to response.
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
import { type Asker, Keys } from "@tare/session";
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

/** What is known of a request besides what it contains. */
export interface GatewayCall {
  /** Its body as it was before the client compressed it, if that was read before. */
  readonly body?: Uint8Array<ArrayBuffer> | undefined;
  /** Who sends it. Default: the owner. */
  readonly asker?: Asker | undefined;
  /**
   * Aborted if the client disconnects before the answer begins, which cancels the call at the provider; later the client
   * cancels the answer's body. Default: that isn't reported. The request's own signal isn't used: `Deno.serve` aborts it
   * after every answer.
   */
  readonly signal?: AbortSignal | undefined;
}

/** A gateway as a function from request to response, with no port of its own. */
export interface HttpGateway {
  /** Answers a request; undefined for one that is neither under `/v1` nor `HEAD /`. Never rejects. */
  readonly fetch: (request: Request, call?: GatewayCall) => Promise<Response> | undefined;
  /** Whether it has more for a request than a refusal: it goes to an upstream, or on over HTTP. */
  readonly takes: (request: Request) => boolean;
  /** Most bytes of a request's body that it reads. */
  readonly maxBodyBytes: number;
  /** The sessions that pass through: lists, calls, totals, and what users ask of one. */
  readonly sessions: SessionRegistry<GatewaySessionSummary, GatewaySessionDetails>;
  /** Waits until what is known of its sessions is kept, two seconds at most. Never rejects. */
  readonly close: () => Promise<void>;
}

const PLANNING: NeededOptions<PolicyOptions> = {
  "policy?": "string",
  "mechanisms?": "object",
  "forget?": "string",
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
  "control?": "share",
  "limits?": LIMITS,
  "store?": "object",
  "retention?": RETENTION,
  "warmth?": "object",
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
  "searchesTools?": "function",
};

/**
 * Makes a gateway: model calls go to the provider with what of their prompts still pays for its place. Whatever goes
 * wrong in deciding that, a request goes upstream as the client sent it.
 *
 * | route | does |
 * |---|---|
 * | `POST /v1/chat/completions`, `POST /v1/responses`, `POST /v1/messages` | planned, then passed on |
 * | `POST /v1/responses/input_tokens`, `POST /v1/messages/count_tokens` | passed on with the view that the model had last |
 * | what else is below `/v1/responses`, `/v1/files`, `/v1/images`, `/v1/audio`, `/v1/batches`, `/v1/conversations`, `/v1/uploads`, `/v1/containers`, `/v1/skills`, `/v1/sessions`, `/v1/agents`, `/v1/environments`, `/v1/messages/batches`, and `/v1/completions`, `/v1/embeddings`, `/v1/moderations`, `GET /v1/models` | passed on as it comes, streamed both ways |
 * | anything else under `/v1` | the same with the client's own key, or if `forward` names it; with the server's key it is 404 |
 * | a websocket | 426: clients go on over HTTP |
 * | `HEAD /` | says that somebody is there |
 *
 * | header of a request | says |
 * |---|---|
 * | `x-tare-session` | name of its session; default: it is recognised by content |
 * | `x-tare: off` | it goes upstream as it is |
 * | `x-tare: observe` | its session goes upstream as it is, and the ledger tells what would have been saved; one that was edited before is left as it is from then on |
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
 *   // So that this example needs no provider:
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
  /** The protocol of a request by its path or headers, else that of any client; `own` if it is by path. */
  const protocolOf = ({ path }: Asked, { headers }: Request) => {
    const own = PROTOCOLS.find((one) => path === one.path || path.startsWith(`${one.path}/`));
    const protocol = own ?? served.find((one) => one.speaks?.(headers)) ?? served.find((one) => !one.speaks);
    return { own, protocol };
  };
  /** Why a request isn't passed on to the upstream of its protocol; nothing if it is. */
  const refusal = ({ parts, sent }: Asked, request: Request, protocol: Protocol | undefined) => {
    if (!protocol || !served.includes(protocol)) {
      const message = `Cannot pass /v1${sent} on: the gateway has no upstream for it.`;
      return new ApiError(404, message, { code: "no_upstream" });
    }
    if (isCrooked(parts)) {
      const reason = "it has empty parts, or some that lead upwards, and no provider has such a path";
      return new ApiError(404, `Cannot find /v1${sent}: ${reason}.`, { code: "not_found" });
    }
    const { method } = request;
    const isOpen = options.upstreams[protocol.name]?.apiKey === undefined;
    if (isOpen || isModelPath(parts, { method, more })) return undefined;
    const allowed = methodsOf(parts);
    if (allowed.length > 0) {
      const allow = allowed.join(", ");
      const reason = `with the server's key the provider is asked for it by ${allow} alone`;
      return new ApiError(405, `Cannot ${method} /v1${sent}: ${reason}.`, {
        code: "method_not_allowed",
        headers: { allow },
      });
    }
    const reason = "it is no path by which models are used, so that it doesn't go to the provider with the " +
      `server's key. --forward /v1${sent} (TARE_FORWARD) lets it pass`;
    return new ApiError(404, `Cannot find /v1${sent}: ${reason}.`, { code: "not_found" });
  };
  const route = async (
    asked: Asked,
    request: Request,
    { body, asker = Keys.OWNER, signal }: GatewayCall,
  ): Promise<Response> => {
    const { path, sent } = asked;
    assertMay(asker);
    if (isUpgrade(request)) {
      // Clients that ask for a websocket go on over HTTP as soon as they hear this.
      const message = `Cannot open a websocket at /v1${sent}: this server answers over HTTP alone.`;
      throw new ApiError(426, message, { code: "upgrade_required" });
    }
    if (request.method === "POST") {
      for (const protocol of served) {
        const counts = path === protocol.countPath;
        if (counts || path === protocol.path) {
          return await answerCall(protocol, request, { counts, body, asker, signal });
        }
      }
    }
    if (isFromPage(request)) {
      const reason = "it comes from a page of another origin, and could be sent without its asking first";
      throw new ApiError(403, `Cannot pass the request on: ${reason}.`, { code: "origin_not_allowed" });
    }
    // What a model's list costs is nothing.
    if (request.method !== "GET" && request.method !== "HEAD") assertMay(asker, false);
    const { own, protocol } = protocolOf(asked, request);
    const refused = refusal(asked, request, protocol);
    if (!protocol || refused) throw refused;
    const below = protocol.followsField && own && sent.slice(protocol.path.length + 1);
    return below
      ? await calls.forwardResponse(protocol, below, { request, signal, by: Keys.nameOf(asker) })
      : await calls.forward(protocol, sent, { request, signal });
  };
  /** @throws {ApiError} unless whoever asks may, and what it costs may be paid for under the name. */
  const assertMay = (asker: Asker, isPriced = true) => {
    const refused = options.keys?.refusal(asker, "gateway") ??
      options.keys?.spent(Keys.nameOf(asker), isPriced);
    if (!refused) return;
    const { status, code, message } = refused;
    // What clients of the providers know.
    throw new ApiError(status, message, { code: code === "budget_spent" ? "insufficient_quota" : code });
  };
  const answerCall = async (
    protocol: Protocol,
    request: Request,
    { counts, body, asker, signal }: {
      readonly counts: boolean;
      readonly body: Uint8Array<ArrayBuffer> | undefined;
      readonly asker: Asker;
      readonly signal: AbortSignal | undefined;
    },
  ): Promise<Response> => {
    const declared = request.headers.get("content-type") ?? "none";
    const bytes = body ?? await readBody(request, { maxBytes });
    // What can't be read here may be read there.
    if (!bytes) assertMay(asker, false);
    if (!bytes) {
      const path = counts && protocol.countPath || protocol.path;
      return await calls.forward(protocol, path, { request, signal });
    }
    // No web page can send another type without asking first.
    if (declared.split(";")[0]?.trim().toLowerCase() !== "application/json") {
      const reason = `its content-type is ${declared}, and application/json is wanted`;
      throw new ApiError(415, `Cannot read the body: ${reason}.`, { code: "unsupported_media_type" });
    }
    const { price = listPrice } = options.upstreams[protocol.name] ?? {};
    const model = peekField(bytes, "model");
    if (!counts) assertMay(asker, typeof model === "string" && price(model) !== undefined);
    const by = Keys.nameOf(asker);
    return await calls.answer(protocol, { request: decoded(request), signal, bytes, counts, by });
  };
  return {
    fetch: (request, asking = {}) => {
      const { pathname } = new URL(request.url);
      // Some clients look whether anybody is there before they ask.
      if (pathname === "/" && request.method === "HEAD") return Promise.resolve(new Response());
      const asked = askedOf(pathname);
      if (!asked) return undefined;
      return Telemetry.inTraceOf(request, () => route(asked, request, asking)).catch((error) => {
        const told = error instanceof ApiError
          ? error
          : new ApiError(502, unreachable(error), { code: "upstream_unreachable" });
        const { protocol } = protocolOf(asked, request);
        const { status, message, details: { code = "", headers = {} } } = told;
        const response = protocol?.refuse(status, message, code) ?? told.toResponse();
        for (const [name, value] of Object.entries(headers)) response.headers.set(name, value);
        return response;
      });
    },
    takes: (request) => {
      const asked = askedOf(new URL(request.url).pathname);
      if (!asked) return false;
      return isUpgrade(request) || !refusal(asked, request, protocolOf(asked, request).protocol);
    },
    maxBodyBytes: maxBytes,
    sessions: new SessionRegistry([turns.sessions]),
    close: () => turns.close(),
  };
}

/** What a request asks for, below `/v1`. */
interface Asked {
  /** The path as it was sent. */
  readonly sent: string;
  /** The same with its parts decoded, as long as none of them holds a `/`. */
  readonly path: string;
  /** Its parts, decoded. */
  readonly parts: readonly string[];
}

/** What is asked for by this path; nothing if it isn't below `/v1`. */
function askedOf(pathname: string): Asked | undefined {
  const sent = /^\/v1(\/.*)$/.exec(pathname)?.[1];
  if (sent === undefined) return undefined;
  // What can't be decoded is nobody's path.
  const parts = readPath(sent) ?? [""];
  return { sent, parts, path: parts.some((part) => part.includes("/")) ? sent : `/${parts.join("/")}` };
}

function isUpgrade({ headers }: Request): boolean {
  return headers.get("upgrade")?.toLowerCase() === "websocket";
}

/** The request without what its headers say of a body that has been decoded. */
function decoded(request: Request): Request {
  if (!request.headers.has("content-encoding")) return request;
  const headers = new Headers(request.headers);
  headers.delete("content-encoding");
  headers.delete("content-length");
  const { url, method } = request;
  return new Request(url, { method, headers });
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

/** A path under `/v1` by which models are used. */
interface ModelPath {
  /** Its parts behind `/v1`. */
  readonly path: string;
  /** Whether what is below it belongs to it too. Default: no. */
  readonly below?: boolean;
  /** The methods that use a model, and change nothing of what its owner has. Default: any. */
  readonly methods?: readonly string[];
}

/**
 * What goes to a provider with the server's own key: the paths that models are used with, and nothing by which an account
 * is managed.
 */
const MODEL_PATHS: readonly ModelPath[] = [
  ...PROTOCOLS.flatMap(({ path, countPath, followsField }) => [
    { path: path.slice(1), below: followsField !== undefined },
    ...(countPath === undefined ? [] : [{ path: countPath.slice(1) }]),
  ]),
  { path: "completions" },
  // A model that is somebody's own can be deleted.
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

/** Whether a provider could take a path for another one: it has empty parts, or some that lead upwards, however encoded. */
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
 * Whether a path, without `v1` in front, is one that a provider is asked for with the server's key, with this method.
 * `more` are others, such as `/v1/vector_stores`, with what is below them.
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

/** The methods of a path that takes only some. */
function methodsOf(parts: readonly string[]): readonly string[] {
  return MODEL_PATHS.find((one) => one.methods && fits(one, parts))?.methods ?? [];
}

function fits({ path, below = false }: ModelPath, parts: readonly string[]): boolean {
  const words = path.split("/");
  if (parts.length < words.length || (!below && parts.length > words.length)) return false;
  return words.every((word, at) => parts[at] === word);
}
