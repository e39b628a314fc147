import {
  contentText,
  type FunctionToolCall,
  type Message,
  type ToolDefinition,
  type Usage,
} from "@tare/messages";
import { addUsage, countMessageTokens, MESSAGE_OVERHEAD_TOKENS } from "@tare/messages/internal";
import { type Profile, profileNamed } from "@tare/planner";
import { DEFAULT_PROVIDER } from "@tare/planner/internal";
import { PrefixCache } from "@tare/planner/internal/parts";
import type { JsonRecord } from "@tare/wire";
import {
  ApiError,
  asRecord,
  CompletionWriter,
  type JsonReader,
  MAX_CACHE_BREAKPOINTS,
  MESSAGES_PROTOCOL,
  MessageWriter,
  readCacheBreakpoints,
  readJsonAt,
  readRequest,
  readWireBody,
  ResponseEventWriter,
  RESPONSES_PROTOCOL,
  toolsInFront,
  withFoundTools,
} from "@tare/wire/internal";
import { eventText } from "@tare/wire/internal/sse";
import { LRUCache } from "lru-cache";
import { type Dialect, DIALECTS, refusalIn } from "../dialects.ts";
import { type Fault, faultError, promptTooLong, type ToolCallPieces } from "../fault.ts";
import type { SimulatedModel, SimulatedReply, SimulatedRequest } from "../model.ts";
import { MarkedCache, ShardRouter } from "./caches.ts";
import { promptReader, type ReadPrompt } from "./prompt_reader.ts";
import type { Encoder } from "./prompt_units.ts";
import { ReasoningSeals } from "./reasoning_seals.ts";
import { search, type SearchableTools, searchableTools } from "./tool_search.ts";

export interface SimulatorOptions {
  /** Model for every model name, or models by name. */
  readonly model: SimulatedModel | Readonly<Record<string, SimulatedModel>>;
  readonly tokenizer: Encoder;
  /** Cache rules. Default: `openai`. */
  readonly profile?: Profile;
  /** Format of the reported cache usage. Default: the profile's. */
  readonly dialect?: NonNullable<ConstructorParameters<typeof CompletionWriter>[1]>["dialect"];
  /** Longest prompt, in tokens. Default: no limit. */
  readonly windowTokens?: number;
  /** Accepted key, as a bearer token or in `x-api-key`. Default: any, or none. */
  readonly apiKey?: string;
  /** Faults of the first requests in order (`null` for none), or a function that returns a request's fault. Default: none. */
  readonly faults?: readonly (Fault | null)[] | ((request: FaultRequest) => Fault | null);
  /** Clock of the cache, in milliseconds since 1970. Default: `Date.now`. */
  readonly now?: () => number;
  /** Number of machines, each with its own cache ({@linkcode ShardRouter}). Default: 1. */
  readonly shards?: number;
}

export interface FaultRequest extends SimulatedRequest {
  /** Index of the request, from 0. Unreadable requests have none. */
  readonly index: number;
  readonly promptTokens: number;
}

/** A readable request and its result. */
export interface SimulatedCall extends SimulatedRequest {
  readonly atMs: number;
  readonly status: number;
  readonly promptTokens: number;
  /** Part of `promptTokens` served from the cache; 0 if the request was rejected. */
  readonly cachedTokens: number;
  /** Tokens written to the cache, in the Messages API. */
  readonly cacheWriteTokens?: number;
  readonly hourWriteTokens?: number;
  /** Tokens of the reply, reasoning included; 0 if the request was rejected. */
  readonly outputTokens: number;
}

interface Served {
  readonly usage: Pick<Usage, "cachedTokens" | "cacheWriteTokens" | "hourWriteTokens">;
  readonly recorded?: Pick<Usage, "cacheWriteTokens" | "hourWriteTokens">;
  readonly store: (nowMs: number) => void;
}

interface FormattedReply extends Pick<WrittenReply, "message" | "finishReason"> {
  readonly usage: Usage & { readonly reasoningTokens: number };
  /** Blocks of tool searches and their results before the reply. */
  readonly before: readonly JsonRecord[];
  readonly index: number;
  /** Seconds since 1970. */
  readonly created: number;
  readonly model: string;
  readonly fault?: Fault | null | undefined;
}

const RESPONSES_PATH = `/v1${RESPONSES_PROTOCOL.path}`;
const MESSAGES_PATH = `/v1${MESSAGES_PROTOCOL.path}`;

export interface Simulator {
  readonly fetch: (request: Request) => Promise<Response>;
  /** Newest 1,000 requests, in order of their responses. */
  readonly requests: readonly SimulatedCall[];
}

const MAX_RECORDED = 1000;

const MAX_SEARCHES = 10;

/** Units per cache: at most 16 tokens each, about 4 million tokens or 100 MB. */
const MAX_UNITS = 250_000;

/** Number of caches: each API key and model has its own. */
const MAX_CACHES = 16;

/**
 * Simulates a provider: `POST /v1/chat/completions` and `POST /v1/responses` like OpenAI, `POST /v1/messages` like
 * Anthropic, all streamed or not, and `GET /v1/models`. The latter two seal or sign reasoning, and reject it if it is
 * returned changed or without its item.
 *
 * Tools precede the messages. A prompt is served from the longest prefix that an earlier request with the same key and
 * model sent, by the profile's rules. A prompt is cached when its reply begins, even if the reply fails; a rejected
 * request caches nothing. A reply is cached only as part of a later prompt. The Messages API caches only up to a request's
 * breakpoints, for the requested time.
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
  const { model, tokenizer, profile = profileNamed(DEFAULT_PROVIDER.profile), now = Date.now } = options;
  const { dialect = profile.dialect, windowTokens = Infinity, apiKey, faults = [], shards = 1 } = options;
  const readPrompt = promptReader(tokenizer);
  const countTokens = (text: string) => tokenizer.encode(text).length;
  const caches = new LRUCache<string, PrefixCache>({ max: MAX_CACHES * shards });
  const router = new ShardRouter(shards);
  const markedCaches = new LRUCache<string, MarkedCache>({ max: MAX_CACHES });
  const seals = new ReasoningSeals();
  const requests: SimulatedCall[] = [];
  let understood = 0;

  function record(call: SimulatedCall): void {
    requests.push(call);
    if (requests.length > MAX_RECORDED) requests.shift();
  }

  function cacheOf(...of: readonly (string | number)[]): PrefixCache {
    const id = JSON.stringify(of);
    let cache = caches.get(id);
    if (!cache) caches.set(id, cache = new PrefixCache(profile, { maxUnits: MAX_UNITS }));
    return cache;
  }

  async function completion(request: Request): Promise<Response> {
    const key = keyOf(request, apiKey);
    const chat = await reading(request, readCompletionRequest);
    return await answer(chat, serving(key, chat), ({ message, finishReason, usage, fault, ...head }) => {
      const sendsUsage = fault?.type !== "no_usage" && (!chat.stream || chat.includeUsage);
      const { index, created, model } = head;
      const options = { reportsUsage: sendsUsage, dialect };
      const writer = new CompletionWriter({ id: `chatcmpl-${index}`, created, model }, options);
      return replyResponse(writer, { message, finishReason, usage }, { stream: chat.stream, fault });
    });
  }

  function serving(key: string, chat: Pick<CompletionRequest, "model" | "cacheKey">) {
    return (prompt: ReadPrompt, nowMs: number): Served => {
      const shard = router.shardOf(prompt, { routed: [key, chat.model, chat.cacheKey], nowMs });
      const cache = cacheOf(key, chat.model, shard);
      const cachedTokens = cache.lookup(prompt.units, nowMs);
      const written = prompt.tokens < profile.minTokens ? 0 : prompt.tokens - cachedTokens;
      return {
        usage: { cachedTokens, cacheWriteTokens: written },
        store: (nowMs) => cache.store(prompt.units, nowMs),
      };
    };
  }

  async function response(request: Request): Promise<Response> {
    const author = [keyOf(request, apiKey)];
    const read = await reading(request, readResponsesRequest);
    author.push(read.model);
    seals.checkItems(read.items, author);
    return await answer(read, serving(author[0]!, read), ({ message, finishReason, usage, ...reply }) => {
      const { index, created, model, fault } = reply;
      const id = `resp_${index.toString(16).padStart(32, "0")}`;
      const draft = ResponseEventWriter.empty({ model, store: false }, { id, createdAtMs: created * 1000 });
      const writer = new ResponseEventWriter(draft);
      const { reasoning_content: reasoning, tool_calls: calls } = message;
      const events = [
        ...writer.begin(),
        ...(reasoning
          // Without the request for encrypted content, reasoning is lost.
          ? writer.add({
            type: "reasoning",
            text: reasoning,
            sealed: read.isSealed ? seals.seal(reasoning, author) : undefined,
          })
          : []),
        ...(message.content ? writer.add({ type: "text", text: contentText(message.content) }) : []),
        ...writer.end({
          finish: FINISHES.find((one) => one === finishReason) ?? "stop",
          ...(calls && { calls: calls as readonly FunctionToolCall[] }),
          usage,
          endedAtMs: now(),
        }),
      ];
      const [thought, next] = writer.response.output;
      if (thought?.type === "reasoning" && next) seals.remember([next.id], thought.id);
      const texts = read.stream ? events.map(typedEvent) : [JSON.stringify(writer.response)];
      return textsResponse(texts, { stream: read.stream, fault });
    });
  }

  async function message(request: Request): Promise<Response> {
    const key = keyOf(request, apiKey);
    const read = await reading(request, readMessagesRequest);
    const author = [key, read.model];
    seals.checkMessages(read.list, author, read.mustThink);
    const id = JSON.stringify(author);
    const cache = markedCaches.get(id) ?? new MarkedCache(profile);
    markedCaches.set(id, cache);
    return await answer(
      read,
      (prompt, nowMs) => {
        const { store, ...usage } = cache.serve(prompt, { breakpoints: read.breakpoints, nowMs });
        return { usage, store, recorded: usage };
      },
      ({ fault, message, ...reply }) => {
        const { reasoning_content: thought, tool_calls: calls = [] } = message;
        if (thought && calls[0]) seals.remember([calls[0].id], thought);
        const signed = thought ? { ...message, signature: seals.seal(thought, author) } : message;
        return messagesResponse(
          { ...reply, message: signed, id: `msg_${reply.index}` },
          { stream: read.stream, fault },
        );
      },
    );
  }

  async function answer(
    chat:
      & Pick<CompletionRequest, "model" | "messages" | "tools">
      & Partial<Pick<MessagesRequest, "isSilent" | "searchable">>,
    serve: (prompt: ReadPrompt, nowMs: number) => Served,
    respond: (reply: FormattedReply) => Response,
  ): Promise<Response> {
    const chosen = namedModel(model, chat.model);
    const prompt = readPrompt(chat);
    const { messages, tools, tokens: promptTokens, digest } = prompt;
    // The model isn't called for a request without a reply.
    const index = chat.isSilent ? understood : understood++;
    const request = { model: chat.model, messages, tools, index, promptTokens };
    const call = { model: chat.model, messages, tools, atMs: now(), promptTokens };
    const { usage: cached, store, recorded } = serve(prompt, call.atMs);
    const tokensOf = (message: Message) => countMessageTokens(message, countTokens) - MESSAGE_OVERHEAD_TOKENS;
    try {
      let { reply, fault } = chat.isSilent ? SILENCE : await modelReply(chosen, request);
      store(now());
      let read: Usage = { promptTokens, ...cached, outputTokens: 0 };
      let before: readonly JsonRecord[] = [];
      for (let searches = 0;; searches++) {
        if (searches > MAX_SEARCHES) {
          throw new ApiError(500, "Cannot reply: the model only searches for tools.");
        }
        const searched = chat.searchable && search(reply, chat.searchable, before);
        if (!searched) break;
        before = searched.blocks;
        const again = readPrompt({ messages: [...chat.messages, searched.message], tools: chat.tools });
        const served = serve(again, now());
        const outputTokens = tokensOf(replyMessage(reply, digest));
        const { firstRead = { promptTokens, ...cached } } = read;
        read = {
          ...addUsage(read, { promptTokens: again.tokens, ...served.usage, outputTokens }),
          firstRead,
        };
        ({ reply, fault } = await modelReply(chosen, { ...request, messages: again.messages }));
      }
      const message = replyMessage(reply, digest);
      const outputTokens = read.outputTokens + (chat.isSilent ? 0 : tokensOf(message));
      const { cachedTokens, cacheWriteTokens = 0, hourWriteTokens = 0 } = read;
      record({
        ...{ ...call, status: 200, promptTokens: read.promptTokens, cachedTokens, outputTokens },
        ...(recorded && { cacheWriteTokens, hourWriteTokens }),
      });
      const reasoningTokens = countTokens(message.reasoning_content ?? "");
      return respond({
        message,
        before,
        finishReason: reply.finish_reason ?? (message.tool_calls ? "tool_calls" : "stop"),
        usage: { ...read, outputTokens, reasoningTokens },
        index: request.index,
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

  /** Returns the model's reply and its fault. @throws {ApiError} if the request is rejected. */
  async function modelReply(chosen: SimulatedModel, request: FaultRequest) {
    const demanded = typeof faults === "function" ? faults(request) : faults[request.index];
    refuse(demanded);
    if (request.promptTokens > windowTokens) {
      throw promptTooLong(
        `The prompt is too long: the model reads ${windowTokens} tokens at most, and it has ${request.promptTokens}`,
      );
    }
    const reply = await replyOf(chosen, request);
    const fault = reply.fault ?? demanded;
    refuse(fault);
    return { reply: fault?.type === "malformed_arguments" ? malformedArguments(reply) : reply, fault };
  }

  function route(request: Request): Promise<Response> | Response {
    const { pathname } = new URL(request.url);
    const requestLine = `${request.method} ${pathname}`;
    if (requestLine === "POST /v1/chat/completions") return completion(request);
    if (requestLine === `POST ${RESPONSES_PATH}`) return response(request);
    if (requestLine === `POST ${MESSAGES_PATH}`) return message(request);
    if (requestLine === "GET /v1/models") return modelList(model);
    const allow = {
      "/v1/chat/completions": "POST",
      [RESPONSES_PATH]: "POST",
      [MESSAGES_PATH]: "POST",
      "/v1/models": "GET",
    }[pathname];
    if (allow) {
      throw new ApiError(405, `Cannot ${requestLine}: only ${allow} is allowed.`, { headers: { allow } });
    }
    const known = `POST /v1/chat/completions, ${RESPONSES_PATH} and ${MESSAGES_PATH}, and GET /v1/models`;
    throw new ApiError(404, `Cannot ${requestLine}: there is ${known}.`, { code: "unknown_url" });
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
  throw new ApiError(401, "Incorrect API key provided.", {
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

interface MessagesRequest extends Omit<CompletionRequest, "includeUsage" | "cacheKey"> {
  readonly breakpoints: ReturnType<typeof readCacheBreakpoints>;
  /** Whether the request has no reply, so that its prompt is only read. */
  readonly isSilent: boolean;
  readonly searchable?: SearchableTools | undefined;
  readonly list: readonly JsonRecord[];
  readonly mustThink: boolean;
}

interface ResponsesRequest extends Omit<CompletionRequest, "includeUsage"> {
  readonly items: readonly JsonRecord[];
  readonly isSealed: boolean;
}

const FINISHES = ["stop", "tool_calls", "length", "content_filter"] as const;

/** Reads and checks a request's body. @throws {ApiError} 400 if a provider would reject it. */
async function reading<Body>(
  request: Request,
  read: (bytes: Uint8Array<ArrayBuffer>) => Body,
): Promise<Body> {
  const bytes = await request.bytes();
  try {
    return read(bytes);
  } catch (error) {
    if (error instanceof ApiError) throw error;
    throw new ApiError(400, `Cannot read the request: ${(error as Error).message}.`);
  }
}

function readResponsesRequest(bytes: Uint8Array<ArrayBuffer>): ResponsesRequest {
  const wire = readRequest(readWireBody(bytes), RESPONSES_PROTOCOL, { items: reader, tools: reader });
  const body = JSON.parse(new TextDecoder().decode(bytes));
  checkLegal(body, DIALECTS.responses);
  const { input, include, prompt_cache_key: key } = body;
  const items: readonly JsonRecord[] = typeof input === "string"
    ? [{ type: "message", role: "user", content: input }]
    : input;
  const heads = wire.items.filter(({ bytes }) => bytes === undefined).flatMap(({ parts }) => parts);
  const parts = [...heads, ...items.flatMap((item) => RESPONSES_PROTOCOL.readItem(item))];
  return {
    model: wire.model,
    messages: joinReplies(parts.map(({ message }) => message)),
    tools: toolsInFront(wire),
    stream: wire.stream,
    cacheKey: typeof key === "string" ? key : "",
    items,
    isSealed: Array.isArray(include) && include.includes("reasoning.encrypted_content"),
  };
}

const SILENCE: { readonly reply: SimulatedReply; readonly fault?: Fault } = {
  reply: { content: null, finish_reason: "length" },
};

const reader: JsonReader<never> = {
  read: (bytes, { read, ...span }) => ({ key: "", value: read(readJsonAt(bytes, span)) as never }),
};

function readMessagesRequest(bytes: Uint8Array<ArrayBuffer>): MessagesRequest {
  const wire = readRequest(readWireBody(bytes), MESSAGES_PROTOCOL, { items: reader, tools: reader });
  const body = JSON.parse(new TextDecoder().decode(bytes));
  checkLegal(body, DIALECTS.messages);
  const breakpoints = readCacheBreakpoints(wire);
  if (breakpoints.length > MAX_CACHE_BREAKPOINTS) {
    throw new ApiError(
      400,
      `A maximum of ${MAX_CACHE_BREAKPOINTS} blocks with cache_control may be provided. Found ${breakpoints.length}.`,
    );
  }
  if (breakpoints.some(({ ttlMs }, at) => ttlMs > (breakpoints[at - 1]?.ttlMs ?? Infinity))) {
    throw new ApiError(400, "A cache_control block with ttl 1h must not come after one with ttl 5m.");
  }
  // With the ids as sent, which a provider compares.
  const asSent = wire.items.map((item) => {
    const { bytes } = item;
    if (!bytes) return item;
    const json = readJsonAt(bytes);
    return { ...item, parts: MESSAGES_PROTOCOL.readItem(json) };
  });
  return {
    model: wire.model,
    messages: withFoundTools(asSent, wire.tools).flatMap(({ parts }) => parts.map(({ message }) => message)),
    tools: toolsInFront(wire),
    stream: wire.stream,
    isSilent: wire.replyTokens === 0,
    searchable: searchableTools(wire),
    breakpoints,
    list: body.messages,
    mustThink: asRecord(body.thinking)?.type === "enabled",
  };
}

/** Joins the items of a reply into one message. */
function joinReplies(messages: readonly Message[]): Message[] {
  const all: Message[] = [];
  for (const message of messages) {
    const last = all.at(-1);
    if (message.role !== "assistant" || last?.role !== "assistant") {
      all.push(message);
      continue;
    }
    const { id: _, ...one } = last as typeof last & { readonly id?: unknown };
    const reasoning = [last, message].flatMap(({ reasoning_content: text }) => text || []).join("\n");
    const calls = [...last.tool_calls ?? [], ...message.tool_calls ?? []];
    all[all.length - 1] = {
      ...one,
      content: message.content || one.content || null,
      ...(reasoning !== "" && { reasoning_content: reasoning }),
      ...(calls.length > 0 && { tool_calls: calls }),
    };
  }
  return all;
}

function messagesResponse(
  reply: ConstructorParameters<typeof MessageWriter>[0],
  { stream, fault }: { readonly stream: boolean; readonly fault?: Fault | null | undefined },
): Response {
  const writer = new MessageWriter(reply);
  const texts = stream ? writer.events().map(typedEvent) : [JSON.stringify(writer.body())];
  return textsResponse(texts, { stream, fault });
}

type WrittenReply = Parameters<CompletionWriter["body"]>[0];

/** Completes a reply: calls without an id get one from `idSeed` and their position. */
function replyMessage(reply: SimulatedReply, idSeed: string): WrittenReply["message"] {
  const { content = null, tool_calls = [], finish_reason: _, fault: __, ...rest } = reply;
  return {
    ...rest,
    role: "assistant",
    content,
    ...(tool_calls.length > 0 && {
      tool_calls: tool_calls.map((call, index) => ({ ...call, id: call.id ?? `call_${idSeed}_${index}` })),
    }),
  };
}

function malformedArguments(reply: SimulatedReply): SimulatedReply {
  const { tool_calls = [] } = reply;
  return {
    ...reply,
    tool_calls: tool_calls.map((call) => ({
      ...call,
      function: { ...call.function, arguments: call.function.arguments.slice(0, -1) },
    })),
  };
}

const CHUNKS_BEFORE_BREAK = 3;

function replyResponse(
  writer: CompletionWriter,
  reply: WrittenReply,
  { stream, fault }: { readonly stream: boolean; readonly fault?: Fault | null | undefined },
): Response {
  const pieces = fault?.type === "odd_tool_calls" ? fault.pieces : undefined;
  const chunks = () =>
    writer.chunks(reply, pieces && { callDeltas: (calls) => oddCallDeltas(calls, pieces) });
  const texts = stream
    ? [...chunks().map((chunk) => JSON.stringify(chunk)), "[DONE]"].map((data) => eventText({ data }))
    : [JSON.stringify(writer.body(reply))];
  return textsResponse(texts, { stream, fault });
}

function typedEvent(event: JsonRecord): string {
  return eventText({ event: String(event.type), data: JSON.stringify(event) });
}

function textsResponse(
  texts: readonly string[],
  { stream, fault }: { readonly stream: boolean; readonly fault?: Fault | null | undefined },
): Response {
  return new Response(brokenBody(texts, fault), {
    headers: {
      "content-type": stream ? "text/event-stream" : "application/json",
      "cache-control": "no-store",
    },
  });
}

function oddCallDeltas(
  calls: readonly FunctionToolCall[],
  pieces: ToolCallPieces,
): ReturnType<typeof CompletionWriter.callDeltas> {
  switch (pieces) {
    case "whole":
      return calls.length > 0 ? [calls.map((call, index) => ({ index, ...call }))] : [];
    case "no_index":
      return calls.map((call) => [call]);
    case "no_id":
      return CompletionWriter.callDeltas(calls.map((call) => ({ ...call, id: "" })));
    case "characters":
      return CompletionWriter.callDeltas(calls, { split: (text) => text.split("") });
    case "repeated":
      return calls.flatMap((call, index) =>
        callDeltas(call, index).map(([delta]) => [{
          ...delta,
          id: call.id,
          function: { ...delta?.function, name: call.function.name },
        }])
      );
    case "interleaved": {
      const perCall = calls.map(callDeltas);
      const longest = Math.max(0, ...perCall.map((deltas) => deltas.length));
      return Array.from({ length: longest }, (_, at) => perCall.flatMap((deltas) => deltas.slice(at, at + 1)))
        .flat();
    }
  }
}

function callDeltas(call: FunctionToolCall, index: number): ReturnType<typeof CompletionWriter.callDeltas> {
  return CompletionWriter.callDeltas([call]).map((deltas) => deltas.map((delta) => ({ ...delta, index })));
}

function brokenBody(texts: readonly string[], fault: Fault | null | undefined): ReadableStream<Uint8Array> {
  if (fault?.type !== "cut" && fault?.type !== "stall") return bodyStream(texts, "complete");
  const end = fault.type === "stall" ? "stall" : fault.quietly ? "complete" : "reset";
  const [only = "", ...others] = texts;
  if (others.length > 0) return bodyStream(texts.slice(0, fault.afterChunks ?? CHUNKS_BEFORE_BREAK), end);
  return bodyStream(end === "stall" ? [] : [only.slice(0, only.length / 2)], end);
}

/** Sends the texts as they are read, then ends, resets the connection or stalls. */
function bodyStream(
  texts: readonly string[],
  end: "complete" | "reset" | "stall",
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let sent = 0;
  return new ReadableStream({
    pull(controller) {
      const text = texts[sent++];
      if (text !== undefined) controller.enqueue(encoder.encode(text));
      else if (end === "complete") controller.close();
      else if (end === "reset") controller.error(new Error("The simulated provider reset the connection."));
      // Pending forever; a client that disconnects cancels the stream.
      return end === "stall" && text === undefined ? new Promise(() => {}) : undefined;
    },
    // Nothing is buffered, so that an error doesn't discard earlier texts.
  }, { highWaterMark: 0 });
}

interface CompletionRequest {
  readonly model: string;
  readonly messages: readonly Message[];
  readonly tools: readonly ToolDefinition[];
  readonly stream: boolean;
  readonly includeUsage: boolean;
  readonly cacheKey: string;
}

function readCompletionRequest(bytes: Uint8Array<ArrayBuffer>): CompletionRequest {
  const body: RequestBody = JSON.parse(new TextDecoder().decode(bytes));
  checkLegal(body, DIALECTS.chat);
  const { model, messages, tools, stream, stream_options, prompt_cache_key, n } = body;
  if (typeof model !== "string" || model === "") {
    throw new ApiError(400, "You must provide a model parameter.");
  }
  if ((n ?? 1) !== 1) throw new ApiError(400, "Only one choice (n) is simulated.");
  return {
    model,
    messages,
    tools: tools ?? [],
    stream: stream === true,
    includeUsage: stream_options?.include_usage === true,
    cacheKey: prompt_cache_key ?? "",
  };
}

interface RequestBody {
  readonly model?: unknown;
  readonly messages: readonly Message[];
  readonly tools?: readonly ToolDefinition[] | null;
  readonly stream?: boolean | null;
  readonly stream_options?: { readonly include_usage?: boolean | null } | null;
  readonly prompt_cache_key?: string | null;
  readonly n?: number | null;
}

function checkLegal(body: unknown, dialects: readonly Dialect[]): void {
  const refusal = refusalIn(body, dialects);
  if (refusal !== undefined) throw new ApiError(400, refusal);
}
