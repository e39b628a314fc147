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
  MAX_CACHE_MARKS,
  MESSAGES_PROTOCOL,
  MessageWriter,
  readCacheMarks,
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

/** What a provider is simulated from. */
export interface SimulatorOptions {
  /** The model that replies, whatever name it is asked by; or models by their names, and no others. */
  readonly model: SimulatedModel | Readonly<Record<string, SimulatedModel>>;
  /** What prompts are cut into tokens with. */
  readonly tokenizer: Encoder;
  /** The cache's rules. Default: `openai`. */
  readonly profile?: Profile;
  /** How the cache is reported. Default: as providers of the profile do. */
  readonly dialect?: NonNullable<ConstructorParameters<typeof CompletionWriter>[1]>["dialect"];
  /** Longest prompt, in tokens. Default: no limit. */
  readonly windowTokens?: number;
  /** The only key that is accepted, as a bearer token or in `x-api-key`. Default: any, or none. */
  readonly apiKey?: string;
  /** The faults of the first requests in turn (`null` for none), or a rule that gives a request its fault. */
  readonly faults?: readonly (Fault | null)[] | ((request: FaultRequest) => Fault | null);
  /** The clock that cached prefixes live by, in milliseconds since 1970. Default: `Date.now`. */
  readonly now?: () => number;
  /** Machines that answer chat completions, each with its own cache ({@linkcode ShardRouter}). Default: 1. */
  readonly shards?: number;
}

export interface FaultRequest extends SimulatedRequest {
  /** Number of the request, from 0. Requests that could not be read have none. */
  readonly index: number;
  readonly promptTokens: number;
}

/** A request that the simulator could read, and how it was answered. */
export interface SimulatedCall extends SimulatedRequest {
  /** When it came, by the simulator's clock. */
  readonly atMs: number;
  readonly status: number;
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

interface FormattedReply extends Pick<WrittenReply, "message" | "finishReason"> {
  readonly usage: Usage & { readonly reasoningTokens: number };
  /** Blocks of searches that stand in front of it, and of what they found. */
  readonly before: readonly JsonRecord[];
  readonly index: number;
  /** Seconds since 1970. */
  readonly created: number;
  readonly model: string;
  readonly fault?: Fault | null | undefined;
}

const RESPONSES_PATH = `/v1${RESPONSES_PROTOCOL.path}`;
const MESSAGES_PATH = `/v1${MESSAGES_PROTOCOL.path}`;

/** A simulated provider. */
export interface Simulator {
  /** Answers a request. It goes into `Deno.serve` as it is. */
  readonly fetch: (request: Request) => Promise<Response>;
  /** The newest 1,000 requests, in the order in which they were answered. */
  readonly requests: readonly SimulatedCall[];
}

const MAX_RECORDED = 1000;

/** So often the model of one request may search for tools. */
const MAX_SEARCHES = 10;

/** Units that one cache remembers: at up to 16 tokens each some 4 million tokens, in about 100 MB. */
const MAX_UNITS = 250_000;

/** Caches that are kept: each API key and model has its own, as neither may see what another has sent. */
const MAX_CACHES = 16;

/**
 * Simulates a provider: `POST /v1/chat/completions` and `POST /v1/responses` as OpenAI's, `POST /v1/messages` as
 * Anthropic's, all streamed or not, and `GET /v1/models`. What a model reasons is sealed or signed in the latter two, and
 * refused where it comes back otherwise, or without what it was thought for.
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
      const options = { tellsUsage: sendsUsage, dialect };
      const writer = new CompletionWriter({ id: `chatcmpl-${index}`, created, model }, options);
      return replyResponse(writer, { message, finishReason, usage }, { stream: chat.stream, fault });
    });
  }

  /** What the cache does for prompts that name no part of themselves to be cached. */
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
    const asked = await reading(request, readResponsesRequest);
    author.push(asked.model);
    seals.checkItems(asked.items, author);
    return await answer(asked, serving(author[0]!, asked), ({ message, finishReason, usage, ...reply }) => {
      const { index, created, model, fault } = reply;
      const id = `resp_${index.toString(16).padStart(32, "0")}`;
      const draft = ResponseEventWriter.empty({ model, store: false }, { id, createdAtMs: created * 1000 });
      const writer = new ResponseEventWriter(draft);
      const { reasoning_content: reasoning, tool_calls: calls } = message;
      const events = [
        ...writer.begin(),
        ...(reasoning
          // What isn't asked for is lost.
          ? writer.add({
            type: "reasoning",
            text: reasoning,
            sealed: asked.isSealed ? seals.seal(reasoning, author) : undefined,
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
      const texts = asked.stream ? events.map(typedEvent) : [JSON.stringify(writer.response)];
      return textsResponse(texts, { stream: asked.stream, fault });
    });
  }

  async function message(request: Request): Promise<Response> {
    const key = keyOf(request, apiKey);
    const asked = await reading(request, readMessagesRequest);
    const author = [key, asked.model];
    seals.checkMessages(asked.list, author, asked.mustThink);
    const id = JSON.stringify(author);
    const cache = markedCaches.get(id) ?? new MarkedCache(profile);
    markedCaches.set(id, cache);
    return await answer(
      asked,
      (prompt, nowMs) => {
        const { store, ...usage } = cache.serve(prompt, { marks: asked.marks, nowMs });
        return { usage, store, recorded: usage };
      },
      ({ fault, message, ...reply }) => {
        const { reasoning_content: thought, tool_calls: calls = [] } = message;
        if (thought && calls[0]) seals.remember([calls[0].id], thought);
        const signed = thought ? { ...message, signature: seals.seal(thought, author) } : message;
        return messagesResponse(
          { ...reply, message: signed, id: `msg_${reply.index}` },
          { stream: asked.stream, fault },
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
    // What asks for no reply isn't put to the model.
    const index = chat.isSilent ? understood : understood++;
    const asked = { model: chat.model, messages, tools, index, promptTokens };
    const call = { model: chat.model, messages, tools, atMs: now(), promptTokens };
    const { usage: cached, store, recorded } = serve(prompt, call.atMs);
    const tokensOf = (message: Message) => countMessageTokens(message, countTokens) - MESSAGE_OVERHEAD_TOKENS;
    try {
      let { reply, fault } = chat.isSilent ? SILENCE : await modelReply(chosen, asked);
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
        // The same request again, with what was found behind it.
        const again = readPrompt({ messages: [...chat.messages, searched.message], tools: chat.tools });
        const served = serve(again, now());
        const outputTokens = tokensOf(replyMessage(reply, digest));
        const { firstRead = { promptTokens, ...cached } } = read;
        read = {
          ...addUsage(read, { promptTokens: again.tokens, ...served.usage, outputTokens }),
          firstRead,
        };
        ({ reply, fault } = await modelReply(chosen, { ...asked, messages: again.messages }));
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
    if (asked === `POST ${RESPONSES_PATH}`) return response(request);
    if (asked === `POST ${MESSAGES_PATH}`) return message(request);
    if (asked === "GET /v1/models") return modelList(model);
    const allow = {
      "/v1/chat/completions": "POST",
      [RESPONSES_PATH]: "POST",
      [MESSAGES_PATH]: "POST",
      "/v1/models": "GET",
    }[pathname];
    if (allow) throw new ApiError(405, `Cannot ${asked}: only ${allow} is allowed.`, { headers: { allow } });
    const known = `POST /v1/chat/completions, ${RESPONSES_PATH} and ${MESSAGES_PATH}, and GET /v1/models`;
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
interface MessagesRequest extends Omit<CompletionRequest, "includeUsage" | "cacheKey"> {
  /** Up to where it asks for the prompt to be cached. */
  readonly marks: ReturnType<typeof readCacheMarks>;
  /** Whether it asks for no reply: then its prompt is read, and nothing is said. */
  readonly isSilent: boolean;
  /** Deferred tools, which its model may search for. Absent: it can't. */
  readonly searchable?: SearchableTools | undefined;
  /** Its messages as they were sent. */
  readonly list: readonly JsonRecord[];
  /** Whether its model is told to think. */
  readonly mustThink: boolean;
}

/** A request in the format of responses, as the simulator's models are asked. */
interface ResponsesRequest extends Omit<CompletionRequest, "includeUsage"> {
  readonly items: readonly JsonRecord[];
  /** Whether it asks for the reasoning to be sealed. */
  readonly isSealed: boolean;
}

/** How a response may end. */
const FINISHES = ["stop", "tool_calls", "length", "content_filter"] as const;

/** Reads and checks a request's body. @throws {ApiError} 400 if a provider would refuse it. */
async function reading<Asked>(
  request: Request,
  read: (bytes: Uint8Array<ArrayBuffer>) => Asked,
): Promise<Asked> {
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

/** What is said to who asks for nothing. */
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
  const marks = readCacheMarks(wire);
  if (marks.length > MAX_CACHE_MARKS) {
    throw new ApiError(
      400,
      `A maximum of ${MAX_CACHE_MARKS} blocks with cache_control may be provided. Found ${marks.length}.`,
    );
  }
  if (marks.some(({ ttlMs }, at) => ttlMs > (marks[at - 1]?.ttlMs ?? Infinity))) {
    throw new ApiError(400, "A cache_control block with ttl 1h must not stand behind one with ttl 5m.");
  }
  // With the ids that they were sent with, which a provider goes by.
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
    marks,
    list: body.messages,
    mustThink: asRecord(body.thinking)?.type === "enabled",
  };
}

/** The messages of a request's items: what a reply says stands in one, as models are asked. */
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

/** The HTTP response that carries a reply, broken in the way that the fault asks for. */
function messagesResponse(
  reply: ConstructorParameters<typeof MessageWriter>[0],
  { stream, fault }: { readonly stream: boolean; readonly fault?: Fault | null | undefined },
): Response {
  const writer = new MessageWriter(reply);
  const texts = stream ? writer.events().map(typedEvent) : [JSON.stringify(writer.body())];
  return textsResponse(texts, { stream, fault });
}

type WrittenReply = Parameters<CompletionWriter["body"]>[0];

/** Completes a model's reply: calls without an id get one, made of `idSeed` and their position. */
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

/** The reply, with the arguments of each of its tool calls cut short by one character. */
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

/** Chunks that are sent before a stream breaks off or stalls, unless the fault says otherwise. */
const CHUNKS_BEFORE_BREAK = 3;

/** The HTTP response that carries a reply, broken in the way that the fault asks for. */
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

/** An event of the protocols that repeat its type as its name. */
function typedEvent(event: JsonRecord): string {
  return eventText({ event: String(event.type), data: JSON.stringify(event) });
}

/** The HTTP response that carries these texts, broken in the way that the fault asks for. */
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

/** Sends the texts one by one as they are read. Then it ends, or the connection is reset, or nothing comes any more. */
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
      // Pending for good; a reader that gives up cancels the stream, which needs nothing from here.
      return end === "stall" && text === undefined ? new Promise(() => {}) : undefined;
    },
    // Nothing is sent ahead, so that an error doesn't discard texts that stand before it.
  }, { highWaterMark: 0 });
}

/** The body of a chat-completions request, as far as the simulator reads it. */
interface CompletionRequest {
  readonly model: string;
  readonly messages: readonly Message[];
  readonly tools: readonly ToolDefinition[];
  readonly stream: boolean;
  readonly includeUsage: boolean;
  /** What requests are kept together by; empty of none. */
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

/** Checks what providers of these dialects refuse. @throws {ApiError} with status 400. */
function checkLegal(body: unknown, dialects: readonly Dialect[]): void {
  const refusal = refusalIn(body, dialects);
  if (refusal !== undefined) throw new ApiError(400, refusal);
}
