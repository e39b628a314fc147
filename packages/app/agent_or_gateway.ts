import { decodeRequest, type Gateway, readBytes } from "@tare/gateway";
import type { JsonSchema } from "@tare/messages";
import { AGENT_MODEL, type AgentHandler } from "@tare/server";
import { GATEWAY_PATHS, GATEWAY_SCHEMAS, type Operation } from "./gateway_paths.ts";
import { ApiError, joinBytes, MAX_EVENT_BYTES, peekField, PROTOCOLS } from "@tare/wire";

/** Largest request bodies in bytes. */
export interface BodyLimits {
  readonly agentBytes: number;
  readonly gatewayBytes: number;
}

type Answer = (request: Request) => Promise<Response>;

/**
 * Lets the agent and the gateway answer as one server: calls of the model `agent` are the agent's, those of any other
 * model the gateway's. Both list their models, responses are the agent's if it knows them, whatever else is under `/v1`
 * and no route of the agent is the gateway's, and the OpenAPI document tells of both.
 */
export function agentOrGateway(
  { agent, gateway, limits }: {
    readonly agent: Pick<AgentHandler, "unguarded" | "handles">;
    readonly gateway: Gateway;
    readonly limits: BodyLimits;
  },
): Answer {
  const ask = agent.unguarded;
  const pass = (request: Request) => gateway.fetch(request) ?? ask(request);
  return async (request) => {
    const { pathname } = new URL(request.url);
    // Its own paths tell which methods they take.
    const isAgents = agent.handles(request) || /^\/v1\/sessions(\/|$)/.test(pathname);
    if (!isAgents) {
      // It knows the path, perhaps, and which methods that takes.
      const refused = gateway.hasUpstream(request) ? undefined : await ask(request);
      return refused?.status === 405 ? refused : await pass(request);
    }
    const isCall = CALLS.includes(pathname) && request.method === "POST";
    if (!isCall && request.headers.has("content-encoding")) {
      const plain = await decodeRequest(request, { maxBytes: limits.agentBytes }).catch(refuseOwn);
      return plain instanceof Response ? plain : await ask(plain);
    }
    if (isCall) {
      const plain = await decodeRequest(request, { maxBytes: limits.gatewayBytes }).catch(refuse);
      if (plain instanceof Response) return plain;
      // Of what can't be read here the provider may know more.
      if (plain.headers.has("content-encoding")) return await pass(plain);
      const { model, body } = await peekModel(plain, limits);
      const whole = new Request(plain, { body });
      // Of a body without a model the agent says what is wrong with it.
      return typeof model === "string" && model !== AGENT_MODEL ? await pass(whole) : await ask(whole);
    }
    // A client of another protocol expects its provider's list alone.
    if (pathname === "/v1/models" && PROTOCOLS.some(({ speaks }) => speaks?.(request.headers))) {
      return await pass(request);
    }
    const own = await ask(request);
    if (pathname === "/openapi.json" && own.ok) return Response.json(describeBoth(await own.json()));
    if (pathname === "/v1/models" && own.ok) return await listBoth(own, pass(request));
    const isTheirs = own.status === 404 && OTHERS.test(pathname) && gateway.hasUpstream(request);
    return isTheirs ? await pass(request) : own;
  };
}

function refuse(error: unknown): Response {
  if (error instanceof ApiError) return error.toResponse();
  throw error;
}

/** The same in the form of the agent's own routes. */
function refuseOwn(error: unknown): Response {
  if (!(error instanceof ApiError)) throw error;
  const { status, message, details: { code } } = error;
  return Response.json({ error: { status, code, message } }, { status });
}

/** What is the upstream's if the agent doesn't know it. */
const OTHERS = /^\/v1\/(responses|models)\/[^/]+(\/input_items)?$/;

const CALLS: readonly string[] = PROTOCOLS.map(({ path }) => `/v1${path}`);

/** A request's body, and the model that it asks for as soon as that is known of one that is too large for the agent. */
async function peekModel(
  { body }: Request,
  { agentBytes, gatewayBytes }: BodyLimits,
): Promise<{ readonly model: unknown; readonly body: BodyInit | null }> {
  if (!body) return { model: undefined, body };
  const reader = body.getReader();
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  let length = 0;
  let isEarly = true;
  while (length <= gatewayBytes) {
    // What fails here fails again for who reads the rest.
    const { done, value } = await reader.read().catch(() => ({ done: false, value: undefined }));
    if (done) {
      const bytes = joinBytes(chunks);
      return { model: peekField(bytes, "model"), body: bytes };
    }
    if (!value) break;
    chunks.push(value);
    length += value.length;
    if (length <= agentBytes || !isEarly) continue;
    isEarly = false;
    const model = peekField(joinBytes(chunks), "model");
    if (model !== undefined) return { model, body: rejoin(chunks, reader) };
  }
  return { model: undefined, body: rejoin(chunks, reader) };
}

function rejoin(
  chunks: Uint8Array<ArrayBuffer>[],
  reader: ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>>,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = chunks.length > 0
        ? { done: false, value: chunks.shift() }
        : await reader.read();
      if (done) controller.close();
      else if (value) controller.enqueue(value);
    },
    cancel: (reason) => reader.cancel(reason),
  });
}

/** The agent, then the provider's models; none of them if it doesn't tell, or more than anybody can read. */
async function listBoth(own: Response, asked: Promise<Response>): Promise<Response> {
  const { data, ...list } = await own.json();
  try {
    const told = await asked;
    const bytes = await readBytes(told, MAX_EVENT_BYTES);
    const { data: more } = JSON.parse(new TextDecoder().decode(bytes));
    return Response.json({ ...list, data: told.ok && Array.isArray(more) ? [...data, ...more] : data });
  } catch {
    return Response.json({ ...list, data });
  }
}

/** What the provider gives. */
const ANYTHING: JsonSchema = { description: "What the provider gives." };

/** An OpenAPI document, as far as it is looked into. */
interface Described {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, JsonSchema>> };
}

/** The agent's OpenAPI document with what the gateway makes of it. */
function describeBoth(document: Described): Described {
  const { paths, components } = document;
  const shared = Object.entries(paths).map(([path, operations]) => {
    const isShared = [...CALLS, "/v1/models"].includes(path) || OTHERS.test(path);
    const described = Object.entries(operations).map((
      [method, operation],
    ) => [method, withGateway(operation)]);
    return [path, isShared ? Object.fromEntries(described) : operations];
  });
  // What every route may answer beside its own.
  const { 200: _, 507: _full, ...refusals } = paths["/openapi.json"]?.get?.responses ?? {};
  const own = Object.entries(GATEWAY_PATHS).map(([path, operations]) => {
    const told = Object.entries(operations).map(([method, operation]) => {
      return [method, { ...operation, responses: { ...refusals, ...operation.responses } }];
    });
    return [path, Object.fromEntries(told)];
  });
  return {
    ...document,
    paths: { ...Object.fromEntries(shared), ...Object.fromEntries(own) },
    components: { ...components, schemas: { ...components.schemas, ...GATEWAY_SCHEMAS } },
  };
}

/** The upstream has words of its own for the statuses that the agent answers with. */
function withGateway(operation: Operation): Operation {
  const described: [string, JsonSchema][] = Object.entries({ default: ANYTHING, ...operation.responses });
  return {
    ...operation,
    summary: `${operation.summary} Whatever isn't the agent's is asked of the configured provider.`,
    responses: Object.fromEntries(described.map(([status, { description, content }]) => {
      const media = Object.entries(Object(content) as Record<string, { readonly schema: JsonSchema }>);
      const both = media.map(([type, { schema }]) => [type, { schema: { anyOf: [schema, ANYTHING] } }]);
      return [status, { description, content: { ...Object.fromEntries(both), "*/*": {} } }];
    })),
  };
}
