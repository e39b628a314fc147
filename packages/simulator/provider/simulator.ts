import { checkGiven, countMessageTokens, MESSAGE_OVERHEAD_TOKENS, type Usage } from "@tare/messages";
import { DEFAULT_PROVIDER, PrefixCache, type Profile, profileNamed } from "@tare/planner";
import {
  ApiError,
  type JsonReader,
  MAX_CACHE_MARKS,
  messageBody,
  messageEvents,
  MESSAGES_PROTOCOL,
  readCacheMarks,
  readJsonAt,
  readRequest,
  readWireBody,
  writeUsage,
} from "@tare/wire";
import { LRUCache } from "lru-cache";
import { MarkedCache } from "./marked_cache.ts";
import { checkPairs, type CompletionRequest, readCompletionRequest } from "./read_completion_request.ts";
import { type Fault, faultError, promptTooLong } from "../fault.ts";
import type { SimulatedModel, SimulatedReply, SimulatedRequest } from "../model.ts";
import { promptReader, type ReadPrompt } from "./prompt_reader.ts";
import type { Encoder } from "./prompt_units.ts";
import {
  malformedArguments,
  replyMessage,
  replyResponse,
  textsResponse,
  type WrittenReply,
} from "./reply_response.ts";

/** What a provider is simulated from. */
export interface SimulatorOptions {
  /** The model that replies, whatever name it is asked by; or models by their names, and no others. */
  readonly model: SimulatedModel | Readonly<Record<string, SimulatedModel>>;
  /** What prompts are cut into tokens with. */
  readonly tokenizer: Encoder;
  /** The cache's rules. Default: `openai`. */
  readonly profile?: Profile;
  /** How the cache is reported. Default: as providers of the profile do. */
  readonly dialect?: Parameters<typeof writeUsage>[1];
  /** Longest prompt, in tokens. Default: no limit. */
  readonly windowTokens?: number;
  /** The only key that is accepted, as a bearer token or in `x-api-key`. Default: any, or none. */
  readonly apiKey?: string;
  /** The faults of the first requests in turn (`null` for none), or a rule that gives a request its fault. */
  readonly faults?: readonly (Fault | null)[] | ((request: FaultRequest) => Fault | null);
  /** The clock that cached prefixes live by, in milliseconds since 1970. Default: `Date.now`. */
  readonly now?: () => number;
}

/** What a rule for faults may go by. */
export interface FaultRequest extends SimulatedRequest {
  /** Number of the request, from 0. Requests that could not be read have none. */
  readonly index: number;
  /** Tokens of the whole prompt. */
  readonly promptTokens: number;
}

/** A request that the simulator could read, and how it was answered. */
export interface SimulatedCall extends SimulatedRequest {
  /** When it came, by the simulator's clock. */
  readonly atMs: number;
  /** HTTP status of the answer. */
  readonly status: number;
  /** Tokens of the whole prompt. */
  readonly promptTokens: number;
  /** Of these, served from the cache; 0 if the request was refused. */
  readonly cachedTokens: number;
  /** In the Messages format: tokens that were written to the cache. */
  readonly cacheWriteTokens?: number;
  /** Of these, for an hour. */
  readonly hourWriteTokens?: number;
  /** Tokens of the reply, reasoning included; 0 if the request was refused. */
  readonly outputTokens: number;
}

/** What the cache does for a prompt. */
interface Served {
  readonly usage: Pick<Usage, "cachedTokens" | "cacheWriteTokens" | "hourWriteTokens">;
  /** What is recorded of it beside the tokens that were served. Default: nothing. */
  readonly recorded?: Pick<Usage, "cacheWriteTokens" | "hourWriteTokens">;
  readonly store: (nowMs: number) => void;
}

/** A reply, to be written in some format. */
interface FormattedReply extends Pick<WrittenReply, "message" | "finishReason"> {
  readonly usage: Usage & { readonly reasoningTokens: number };
  readonly index: number;
  /** Seconds since 1970. */
  readonly created: number;
  readonly model: string;
  readonly fault?: Fault | null | undefined;
}

const MESSAGES_PATH = `/v1${MESSAGES_PROTOCOL.path}`;

/** A simulated provider. */
export interface Simulator {
  /** Answers a request. It goes into `Deno.serve` as it is. */
  readonly fetch: (request: Request) => Promise<Response>;
  /** The newest 1,000 requests, in the order in which they were answered. */
  readonly requests: readonly SimulatedCall[];
}

const MAX_RECORDED = 1000;

/** Units that one cache remembers: at up to 16 tokens each some 4 million tokens, in about 100 MB. */
const MAX_UNITS = 250_000;

/** Caches that are kept: each API key and model has its own, as neither may see what another has sent. */
const MAX_CACHES = 16;

/**
 * Simulates a provider: `POST /v1/chat/completions` as OpenAI's, `POST /v1/messages` as Anthropic's, both streamed or
 * not, and `GET /v1/models`.
 *
 * Its prefix cache works as providers' do. Tools stand before the messages; a prompt is served from the longest
 * prefix that an earlier request with the same key and model has sent, by the profile's rules. A prompt is cached
 * as soon as its reply begins, whatever becomes of the reply; a request that is refused leaves nothing. A reply is
 * cached only when it comes back in a prompt. In the Messages format only what a request marks is cached, for as long as
 * it asks, up to the mark.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { scripted, simulator } from "@tare/simulator";
 *
 * const provider = simulator({
 *   model: scripted([{ content: "Hello." }]),
 *   tokenizer: { encode: (text) => Array.from(text, (character) => character.charCodeAt(0)) },
 * });
 * const response = await provider.fetch(
 *   new Request("http://provider/v1/chat/completions", {
 *     method: "POST",
 *     body: JSON.stringify({ model: "any", messages: [{ role: "user", content: "Hi" }] }),
 *   }),
 * );
 * assertEquals((await response.json()).choices[0].message.content, "Hello.");
 * ```
 */
export function simulator(options: SimulatorOptions): Simulator {
  checkGiven("simulator()", { options }, {
    options: { model: "value", tokenizer: { encode: "function" } },
  });
  const { model, tokenizer, profile = profileNamed(DEFAULT_PROVIDER.profile), now = Date.now } = options;
  const { dialect = profile.dialect, windowTokens = Infinity, apiKey, faults = [] } = options;
  const readPrompt = promptReader(tokenizer);
  const countTokens = (text: string) => tokenizer.encode(text).length;
  const caches = new LRUCache<string, PrefixCache>({ max: MAX_CACHES });
  const markedCaches = new LRUCache<string, MarkedCache>({ max: MAX_CACHES });
  const requests: SimulatedCall[] = [];
  let understood = 0;

  function record(call: SimulatedCall): void {
    requests.push(call);
    if (requests.length > MAX_RECORDED) requests.shift();
  }

  function cacheOf(key: string, model: string): PrefixCache {
    const id = JSON.stringify([key, model]);
    let cache = caches.get(id);
    if (!cache) caches.set(id, cache = new PrefixCache(profile, { maxUnits: MAX_UNITS }));
    return cache;
  }

  /** Answers a request in the format of the chat completions. */
  async function completion(request: Request): Promise<Response> {
    const key = keyOf(request, apiKey);
    const chat = await readCompletionRequest(request);
    const cache = cacheOf(key, chat.model);
    return await answer(chat, (prompt, nowMs) => {
      const cachedTokens = cache.lookup(prompt.units, nowMs);
      const written = prompt.tokens < profile.minTokens ? 0 : prompt.tokens - cachedTokens;
      return {
        usage: { cachedTokens, cacheWriteTokens: written },
        store: (nowMs) => cache.store(prompt.units, nowMs),
      };
    }, ({ message, finishReason, usage, fault, ...head }) => {
      const sendsUsage = fault?.type !== "no_usage" && (!chat.stream || chat.includeUsage);
      const told = sendsUsage ? { usage: writeUsage(usage, dialect) } : {};
      return replyResponse({ message, finishReason, ...told }, {
        ...head,
        id: `chatcmpl-${head.index}`,
        stream: chat.stream,
        fault,
      });
    });
  }

  /** Answers a request in the Messages format. */
  async function message(request: Request): Promise<Response> {
    const key = keyOf(request, apiKey);
    const asked = await readMessagesRequest(request);
    const id = JSON.stringify([key, asked.model]);
    const cache = markedCaches.get(id) ?? new MarkedCache(profile);
    markedCaches.set(id, cache);
    return await answer(
      asked,
      (prompt, nowMs) => {
        const { store, ...usage } = cache.serve(prompt, { marks: asked.marks, nowMs });
        return { usage, store, recorded: usage };
      },
      ({ fault, ...reply }) =>
        messagesResponse({ ...reply, id: `msg_${reply.index}` }, { stream: asked.stream, fault }),
    );
  }

  async function answer(
    chat: Pick<CompletionRequest, "model" | "messages" | "tools">,
    serve: (prompt: ReadPrompt, nowMs: number) => Served,
    respond: (reply: FormattedReply) => Response,
  ): Promise<Response> {
    const chosen = namedModel(model, chat.model);
    const prompt = readPrompt(chat);
    const { messages, tools, tokens: promptTokens, digest } = prompt;
    const asked = { model: chat.model, messages, tools, index: understood++, promptTokens };
    const call = { model: chat.model, messages, tools, atMs: now(), promptTokens };
    const { usage: cached, store, recorded } = serve(prompt, call.atMs);
    try {
      const { reply, fault } = await modelReply(chosen, asked);
      store(now());
      const message = replyMessage(reply, digest);
      const outputTokens = countMessageTokens(message, countTokens) - MESSAGE_OVERHEAD_TOKENS;
      record({ ...call, status: 200, cachedTokens: cached.cachedTokens, ...recorded, outputTokens });
      const reasoningTokens = countTokens(message.reasoning_content ?? "");
      return respond({
        message,
        finishReason: reply.finish_reason ?? (message.tool_calls ? "tool_calls" : "stop"),
        usage: { promptTokens, ...cached, outputTokens, reasoningTokens },
        index: asked.index,
        created: Math.floor(call.atMs / 1000),
        model: chat.model,
        fault,
      });
    } catch (error) {
      if (error instanceof ApiError) {
        record({ ...call, status: error.status, cachedTokens: 0, outputTokens: 0 });
      }
      throw error;
    }
  }

  /** What the model replies and how the provider misbehaves with it, or the error that refuses the request. */
  async function modelReply(chosen: SimulatedModel, asked: FaultRequest) {
    const demanded = typeof faults === "function" ? faults(asked) : faults[asked.index];
    refuse(demanded);
    if (asked.promptTokens > windowTokens) {
      throw promptTooLong(
        `The prompt is too long: the model reads ${windowTokens} tokens at most, and it has ${asked.promptTokens}`,
      );
    }
    const reply = await replyOf(chosen, asked);
    const fault = reply.fault ?? demanded;
    refuse(fault);
    return { reply: fault?.type === "malformed_arguments" ? malformedArguments(reply) : reply, fault };
  }

  function route(request: Request): Promise<Response> | Response {
    const { pathname } = new URL(request.url);
    const asked = `${request.method} ${pathname}`;
    if (asked === "POST /v1/chat/completions") return completion(request);
    if (asked === `POST ${MESSAGES_PATH}`) return message(request);
    if (asked === "GET /v1/models") return modelList(model);
    const allow = { "/v1/chat/completions": "POST", [MESSAGES_PATH]: "POST", "/v1/models": "GET" }[pathname];
    if (allow) throw new ApiError(405, `Cannot ${asked}: only ${allow} is allowed.`, { headers: { allow } });
    const known = `POST /v1/chat/completions, POST ${MESSAGES_PATH} and GET /v1/models`;
    throw new ApiError(404, `Cannot ${asked}: there is ${known}.`, { code: "unknown_url" });
  }

  return {
    requests,
    fetch: async (request) => {
      try {
        return await route(request);
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        if (new URL(request.url).pathname !== MESSAGES_PATH) return error.toResponse();
        const { status, message, details: { code = "", headers = {} } } = error;
        const response = MESSAGES_PROTOCOL.refuse(status, message, code);
        for (const [name, value] of Object.entries(headers)) response.headers.set(name, value);
        return response;
      }
    },
  };
}

function keyOf({ headers }: Request, apiKey: string | undefined): string {
  const [given = ""] = MESSAGES_PROTOCOL.auth.headers.flatMap((name) => headers.get(name) ?? []);
  const key = given.replace(/^Bearer /i, "");
  if (apiKey === undefined || key === apiKey) return key;
  throw new ApiError(401, "The API key is not the one that this provider accepts.", {
    code: "invalid_api_key",
  });
}

function namedModel(model: SimulatorOptions["model"], name: string): SimulatedModel {
  if (typeof model === "function") return model;
  const found = Object.hasOwn(model, name) ? model[name] : undefined;
  if (found) return found;
  const names = Object.keys(model).join(", ");
  throw new ApiError(404, `The model ${JSON.stringify(name)} does not exist; there is ${names}.`, {
    code: "model_not_found",
    param: "model",
  });
}

async function replyOf(model: SimulatedModel, request: SimulatedRequest): Promise<SimulatedReply> {
  try {
    return await model(request);
  } catch (error) {
    if (error instanceof ApiError) throw error;
    throw new ApiError(500, `Cannot reply: the simulated model failed (${error}).`);
  }
}

function modelList(model: SimulatorOptions["model"]): Response {
  const names = typeof model === "function" ? ["simulated"] : Object.keys(model);
  const data = names.map((id) => ({ id, object: "model", created: 0, owned_by: "tare" }));
  return Response.json({ object: "list", data });
}

function refuse(fault: Fault | null | undefined): void {
  const error = faultError(fault);
  if (error) throw error;
}

/** A request in the Messages format, as the simulator's models are asked. */
interface MessagesRequest extends Omit<CompletionRequest, "includeUsage"> {
  /** Up to where it asks for the prompt to be cached. */
  readonly marks: ReturnType<typeof readCacheMarks>;
}

const reader: JsonReader<never> = {
  read: (bytes, { read, ...span }) => ({ key: "", value: read(readJsonAt(bytes, span)) as never }),
};

/**
 * Reads and checks a request in the Messages format: calls and their results, and how many marks of the cache it has.
 *
 * @throws {ApiError} with status 400 if a provider would refuse it.
 */
async function readMessagesRequest(request: Request): Promise<MessagesRequest> {
  const bytes = await request.bytes();
  try {
    const wire = readRequest(readWireBody(bytes), MESSAGES_PROTOCOL, { items: reader, tools: reader });
    const marks = readCacheMarks(wire);
    if (marks.length > MAX_CACHE_MARKS) {
      throw new ApiError(
        400,
        `A maximum of ${MAX_CACHE_MARKS} blocks with cache_control may be provided. Found ${marks.length}.`,
      );
    }
    const messages = wire.items.flatMap(({ parts }) => parts.map(({ message }) => message));
    checkPairs(messages);
    return {
      model: wire.model,
      messages,
      tools: (wire.tools ?? []).flatMap(({ definition }) => definition ?? []),
      stream: wire.stream,
      marks,
    };
  } catch (error) {
    if (error instanceof ApiError) throw error;
    throw new ApiError(400, `Cannot read the request: ${(error as Error).message}.`);
  }
}

/** The HTTP response that carries a reply, broken in the way that the fault asks for. */
function messagesResponse(
  reply: Parameters<typeof messageBody>[0],
  { stream, fault }: { readonly stream: boolean; readonly fault?: Fault | null | undefined },
): Response {
  const texts = stream
    ? messageEvents(reply).map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
    : [JSON.stringify(messageBody(reply))];
  return textsResponse(texts, { stream, fault });
}
