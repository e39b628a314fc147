import { type Dialect, refusalIn } from "@tare/simulator";
import { loadTokenizer } from "@tare/tiktoken";
import { billOf } from "./bill.ts";
import { BlockCache } from "./block_cache.ts";
import { BreakpointCache } from "./breakpoint_cache.ts";
import type { Asked, Reply } from "./model.ts";
import { CHAT } from "./protocols/chat.ts";
import { MESSAGES } from "./protocols/messages.ts";
import type { CallUsage, Fields, ReadRequest, SpokenProtocol } from "./protocols/protocol.ts";
import { RESPONSES } from "./protocols/responses.ts";

/** One way in which the provider fails a request. */
export type Failure = 429 | 500 | 503 | "cut";

/** A request for a reply, and what it took. */
export interface ProviderCall extends ReadRequest {
  readonly path: string;
  readonly body: Fields;
  /** Of the answer; `cut` for one that broke off. */
  readonly status: number | "cut";
  readonly usage: CallUsage;
  /** In the price of one uncached input token. */
  readonly cost: number;
  /** What the model said, if it was asked. */
  readonly reply?: Reply;
}

/** A provider that listens on loopback. */
export interface Provider extends AsyncDisposable {
  /** Its address, without a path. */
  readonly url: string;
  /** The requests that asked for a reply, in the order in which they came. */
  readonly calls: readonly ProviderCall[];
  /** Method and path of all other requests. */
  readonly others: readonly string[];
}

/** What a provider does. */
export interface ProviderOptions {
  readonly model: (asked: Asked) => Reply;
  /** What happens to the requests that offer tools, by their number from 0. Default: nothing. */
  readonly failures?: Readonly<Record<number, Failure>>;
  /** Longest prompt in tokens. Default: no limit. */
  readonly windowTokens?: number;
}

/** The protocols that the provider speaks. */
export const PROTOCOLS: readonly SpokenProtocol[] = [CHAT, RESPONSES, MESSAGES];

/**
 * Starts a provider that speaks three protocols, each with its own prefix cache and prices, all with one model. It shares
 * neither readers nor caches with the simulator: what agents save is measured here by a second, independent bill. It is as
 * strict as the real ones: each call has one result behind it and each result a call before it, sealed reasoning
 * comes back as it was given, and at most four marks for the cache are in a request.
 */
export async function startProvider(options: ProviderOptions): Promise<Provider> {
  const { model, failures = {}, windowTokens = Infinity } = options;
  const { encode } = await loadTokenizer();
  const blocks = new BlockCache();
  const breakpoints = new BreakpointCache();
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

  /** Tokens of a prompt, and what the cache does with them. From now on it holds this one too. */
  function read({ pieces }: ReadRequest, { protocol, model }: {
    readonly protocol: SpokenProtocol;
    readonly model: string;
  }): Omit<CallUsage, "output"> {
    const tokens = pieces.map(({ shown }) => tokensOf(shown));
    if (protocol !== MESSAGES) return blocks.serve(tokens.flat(), { model });
    return breakpoints.serve(pieces, { sizes: tokens.map(({ length }) => length), model });
  }

  async function answer(protocol: SpokenProtocol, request: Request): Promise<Response> {
    const body: Fields = JSON.parse(await readText(request));
    const asked = protocol.read(body);
    const count = (usage: CallUsage, status: ProviderCall["status"], reply?: Reply) => {
      const cost = status === 200 || status === "cut" ? billOf(usage, protocol.prices) : 0;
      calls.push({ ...asked, path: protocol.path, body, status, usage, cost, ...(reply && { reply }) });
    };
    const refuse = (status: number, message: string, headers = {}) => {
      count({ prompt: 0, cached: 0, output: 0 }, status);
      return Response.json(protocol.refuse(status, message), { status, headers });
    };
    const failure = asked.asked.tools.length > 0 ? failures[working++] : undefined;
    if (failure === 429) return refuse(429, "Too many requests, try again.", { "retry-after": "1" });
    if (failure === 500 || failure === 503) return refuse(failure, "Something broke, try again.");
    const fault = refusalIn(body, rulesOf(protocol)) ?? faultOf(asked, given);
    if (fault) return refuse(400, fault);
    const size = asked.pieces.reduce((sum, { shown }) => sum + tokensOf(shown).length, 0);
    if (size > windowTokens) {
      return refuse(400, `prompt is too long: ${size} tokens > ${windowTokens} maximum`);
    }
    const reply = model(asked.asked);
    const output = encode(repliedText(reply)).length;
    const usage = { ...read(asked, { protocol, model: String(body.model) }), output };
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
    // Sealed reasoning is complete when the stream breaks: the retry may bring it back.
    const cutAfter = seal === undefined ? 3 : 4;
    return new Response(streamOf(events, failure === "cut" ? cutAfter : Infinity), {
      headers: { "content-type": "text/event-stream", "cache-control": "no-store" },
    });
  }

  const server = Deno.serve({
    port: 0,
    hostname: "127.0.0.1",
    onListen() {},
    // A stream that was broken off on purpose says so.
    onError: () => new Response(null, { status: 502 }),
  }, async (request) => {
    const { pathname } = new URL(request.url);
    const protocol = PROTOCOLS.find(({ path }) => path === pathname);
    if (protocol && request.method === "POST") return await answer(protocol, request);
    others.push(`${request.method} ${pathname}`);
    await request.body?.cancel();
    if (request.headers.get("upgrade")) return new Response(null, { status: 426 });
    if (request.method === "HEAD") return new Response();
    const missing = { error: { message: `There is no ${pathname}.`, type: "invalid_request_error" } };
    return Response.json(missing, { status: 404 });
  });
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

/** Whose rules a request is held to: agents ask a provider of chat completions whose own they know. */
function rulesOf(protocol: SpokenProtocol): readonly Dialect[] {
  return protocol === CHAT ? ["openai"] : protocol === RESPONSES ? ["responses"] : ["anthropic"];
}

/** Most marks for the cache in a request. */
const MAX_MARKS = 4;

/** Why a strict provider refuses a prompt; nothing for one that is in order. */
function faultOf(
  { asked: { said }, pieces, seals }: ReadRequest,
  given: ReadonlySet<string>,
): string | undefined {
  const marks = pieces.filter(({ mark }) => mark).length;
  if (marks > MAX_MARKS) return `There are ${marks} marks for the cache, and ${MAX_MARKS} are the limit.`;
  const open = new Set<string>();
  for (const item of said) {
    if (item.type === "call") open.add(item.id);
    if (item.type === "result" && !open.delete(item.id)) {
      return `The result ${item.id} has no call before it.`;
    }
  }
  if (open.size > 0) return `The calls ${[...open].join(", ")} have no result.`;
  const forged = seals.find((seal) => !given.has(seal));
  return forged === undefined ? undefined : `The sealed reasoning ${forged} was not given out.`;
}

/** Sends the events one by one as they are read; breaks off after some of them. */
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
