import { type Dialect, refusalIn } from "@tare/simulator";
import { loadTokenizer } from "@tare/tiktoken";
import { billOf } from "./bill.ts";
import { BlockCache } from "./block_cache.ts";
import { BreakpointCache } from "./breakpoint_cache.ts";
import { HeldKeys } from "./held_keys.ts";
import type { ModelTurn, Reply } from "./model.ts";
import { CHAT } from "./protocols/chat.ts";
import { MESSAGES } from "./protocols/messages.ts";
import type { CallUsage, Fields, ReadRequest, SpokenProtocol } from "./protocols/protocol.ts";
import { RESPONSES } from "./protocols/responses.ts";

export type Failure = 429 | 500 | 503 | "cut";

export interface ProviderCall extends ReadRequest {
  readonly path: string;
  readonly body: Fields;
  /** Status of the answer; `cut` for an interrupted one. */
  readonly status: number | "cut";
  readonly usage: CallUsage;
  readonly cost: number;
  readonly reply?: Reply;
}

export interface ProviderRecord {
  readonly calls: readonly ProviderCall[];
  readonly others: readonly string[];
}

export interface Provider extends ProviderRecord, AsyncDisposable {
  /** Address without a path. */
  readonly url: string;
}

export interface ProviderInProcess extends ProviderRecord {
  readonly fetch: (request: Request) => Promise<Response>;
}

export interface ProviderOptions {
  readonly model: (turn: ModelTurn) => Reply;
  /** Failures of requests that offer tools, by their number from 0. Default: none. */
  readonly failures?: Readonly<Record<number, Failure>>;
  readonly windowTokens?: number;
  /** Whether a call finds and stores a cached prefix, by its number from 0. Default: each does. */
  readonly caches?: (call: number) => boolean;
  /** Time to live of a cached prefix since its last use. Default: it doesn't expire. */
  readonly ttlMs?: number;
  /** The time in milliseconds since any fixed moment. Default: `Date.now`. */
  readonly now?: () => number;
}

export const PROTOCOLS: readonly SpokenProtocol[] = [CHAT, RESPONSES, MESSAGES];

/**
 * Returns a strict provider with three protocols. Its readers and caches are independent of the simulator's,
 * so that savings are measured twice.
 */
export async function makeProvider(options: ProviderOptions): Promise<ProviderInProcess> {
  const { model, failures = {}, windowTokens = Infinity, caches = () => true } = options;
  const { ttlMs = Infinity, now = Date.now } = options;
  const { encode } = await loadTokenizer();
  const blocks = new BlockCache(new HeldKeys({ ttlMs, now }));
  const breakpoints = new BreakpointCache(new HeldKeys({ ttlMs, now }));
  const encoded = new Map<string, readonly number[]>();
  const calls: ProviderCall[] = [];
  const others: string[] = [];
  const given = new Set<string>();
  let working = 0;

  function tokensOf(text: string): readonly number[] {
    const known = encoded.get(text);
    if (known) return known;
    const tokens = encode(text);
    encoded.set(text, tokens);
    return tokens;
  }

  /** Returns a prompt's tokens and cache usage, and stores it in the cache. */
  function read({ pieces }: ReadRequest, { protocol, model }: {
    readonly protocol: SpokenProtocol;
    readonly model: string;
  }): Omit<CallUsage, "output"> {
    const tokens = pieces.map(({ rendered }) => tokensOf(rendered));
    if (!caches(calls.length)) return { prompt: tokens.flat().length, cached: 0 };
    if (protocol !== MESSAGES) return blocks.serve(tokens.flat(), { model });
    return breakpoints.serve(pieces, { sizes: tokens.map(({ length }) => length), model });
  }

  async function answer(protocol: SpokenProtocol, request: Request): Promise<Response> {
    const body: Fields = JSON.parse(await readText(request));
    const turn = protocol.read(body);
    const count = (usage: CallUsage, status: ProviderCall["status"], reply?: Reply) => {
      const cost = status === 200 || status === "cut" ? billOf(usage, protocol.prices) : 0;
      calls.push({ ...turn, path: protocol.path, body, status, usage, cost, ...(reply && { reply }) });
    };
    const refuse = (status: number, message: string, headers = {}) => {
      count({ prompt: 0, cached: 0, output: 0 }, status);
      return Response.json(protocol.refuse(status, message), { status, headers });
    };
    const failure = turn.turn.tools.length > 0 ? failures[working++] : undefined;
    if (failure === 429) return refuse(429, "Too many requests, try again.", { "retry-after": "1" });
    if (failure === 500 || failure === 503) return refuse(failure, "Something broke, try again.");
    const fault = refusalIn(body, rulesOf(protocol)) ?? faultOf(turn, given);
    if (fault) return refuse(400, fault);
    const size = turn.pieces.reduce((sum, { rendered }) => sum + tokensOf(rendered).length, 0);
    if (size > windowTokens) {
      return refuse(400, `prompt is too long: ${size} tokens > ${windowTokens} maximum`);
    }
    const reply = model(turn.turn);
    const output = encode(repliedText(reply)).length;
    const usage = { ...read(turn, { protocol, model: String(body.model) }), output };
    const number = calls.length;
    count(usage, failure === "cut" ? "cut" : 200, reply);
    const seal = protocol.seals(body) ? `sealed-${number}` : undefined;
    if (seal !== undefined) given.add(seal);
    const events = protocol.write(reply, {
      number,
      model: String(body.model),
      usage,
      ...(seal !== undefined && { seal }),
    });
    // Sealed reasoning is complete when the stream breaks: the retry may include it.
    const cutAfter = seal === undefined ? 3 : 4;
    return new Response(streamOf(events, failure === "cut" ? cutAfter : Infinity), {
      headers: { "content-type": "text/event-stream", "cache-control": "no-store" },
    });
  }

  async function handle(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url);
    const protocol = PROTOCOLS.find(({ path }) => path === pathname);
    if (protocol && request.method === "POST") return await answer(protocol, request);
    others.push(`${request.method} ${pathname}`);
    await request.body?.cancel();
    if (request.headers.get("upgrade")) return new Response(null, { status: 426 });
    if (request.method === "HEAD") return new Response();
    const missing = { error: { message: `There is no ${pathname}.`, type: "invalid_request_error" } };
    return Response.json(missing, { status: 404 });
  }

  return { fetch: handle, calls, others };
}

/** Serves {@linkcode makeProvider} over HTTP. */
export async function startProvider(options: ProviderOptions): Promise<Provider> {
  const { fetch, calls, others } = await makeProvider(options);
  const server = Deno.serve({
    port: 0,
    hostname: "127.0.0.1",
    onListen() {},
    // Intentionally interrupted streams also report errors.
    onError: () => new Response(null, { status: 502 }),
  }, fetch);
  return {
    url: `http://127.0.0.1:${server.addr.port}`,
    calls,
    others,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

function repliedText({ text = "", compacted = "", calls }: Reply): string {
  return [text, compacted, ...calls.map(({ name, args }) => `${name}\n${JSON.stringify(args)}`)].join("\n");
}

async function readText(request: Request): Promise<string> {
  const encoding = request.headers.get("content-encoding");
  if (encoding === null || encoding === "identity") return await request.text();
  const stream = request.body!.pipeThrough(new DecompressionStream(encoding as CompressionFormat));
  return await new Response(stream).text();
}

function rulesOf(protocol: SpokenProtocol): readonly Dialect[] {
  return protocol === CHAT ? ["openai"] : protocol === RESPONSES ? ["responses"] : ["anthropic"];
}

const MAX_BREAKPOINTS = 4;

/** Returns why a strict provider refuses a prompt; `undefined` for a valid one. */
function faultOf(
  { turn: { entries }, pieces, seals }: ReadRequest,
  given: ReadonlySet<string>,
): string | undefined {
  const breakpoints = pieces.filter(({ mark }) => mark).length;
  if (breakpoints > MAX_BREAKPOINTS) {
    return `There are ${breakpoints} marks for the cache, and ${MAX_BREAKPOINTS} are the limit.`;
  }
  const open = new Set<string>();
  for (const item of entries) {
    if (item.type === "call") open.add(item.id);
    if (item.type === "result" && !open.delete(item.id)) {
      return `The result ${item.id} has no call before it.`;
    }
  }
  if (open.size > 0) return `The calls ${[...open].join(", ")} have no result.`;
  const forged = seals.find((seal) => !given.has(seal));
  return forged === undefined ? undefined : `The sealed reasoning ${forged} was not given out.`;
}

function streamOf(events: readonly string[], breakAfter: number): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let sent = 0;
  return new ReadableStream({
    pull(controller) {
      if (sent === breakAfter) return controller.error(new Error("The provider breaks off."));
      const event = events[sent++];
      if (event === undefined) controller.close();
      else controller.enqueue(encoder.encode(event));
    },
  }, { highWaterMark: 0 });
}
