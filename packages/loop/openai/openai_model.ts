/**
 * Models of an OpenAI-compatible API (chat completions or responses, streamed) with `npm:openai`: OpenAI, DeepSeek,
 * OpenRouter, vLLM, llama.cpp, Ollama and others.
 *
 * @module
 */
import type { Model, ModelRequest } from "@tare/messages";
import { checkGiven, type NeededOptions } from "@tare/messages/internal";
import { chatBody, type JsonRecord, responsesBody } from "@tare/wire";
import {
  asRecord,
  CHAT_FORMS,
  ReplyAssembler,
  ResponseAssembler,
  RESPONSES_FORMS,
} from "@tare/wire/internal";
import { APIConnectionError, APIConnectionTimeoutError, APIError, OpenAI } from "openai";
import {
  accessTo,
  authorOf,
  PROVIDER_OPTIONS,
  type ProviderOptions,
  readEvents,
  streamModel,
} from "../provider.ts";

const NO_REPLY = {
  chat: "the response is not a chat completion. Check the base URL",
  responses: "the response is not in the Responses format. Check the base URL and the server's protocols",
};

/** Options of {@linkcode openaiModel}. */
export interface OpenaiModelOptions extends ProviderOptions {
  /** Base URL of the API. Default: `https://api.openai.com/v1`. */
  readonly baseURL?: string;
  /** Protocol of the requests. Default: `chat`, which most servers implement. */
  readonly protocol?: "chat" | "responses";
  /**
   * Reasoning that is requested and returned: `sealed` (responses) requests encrypted reasoning and a summary, which
   * models without reasoning refuse; `some` (chat completions) sends each reply back with its reasoning, as
   * DeepSeek and Moonshot require, or a blank for another model's. Default: neither.
   */
  readonly reasoning?: "sealed" | "some";
  /**
   * Fields that extend or replace those of each request's body: `temperature`, `reasoning_effort`, `prompt_cache_key`.
   * `undefined` removes one: `{ stream_options: undefined }` is for servers that don't support it. Default: none.
   */
  readonly extraBody?: Readonly<Record<string, unknown>>;
  /** Returns fields and headers that route a conversation's requests to its cache. Default: none. */
  readonly route?: (cacheKey: string) => {
    readonly fields: Readonly<Record<string, string>>;
    readonly headers: Readonly<Record<string, string>>;
  };
}

/**
 * Returns a model of an OpenAI-compatible API.
 *
 * Messages are adapted only where providers require it (see `chatBody` of `@tare/wire`). Replies retain all fields of
 * the provider; with `responses` it stores nothing, and encrypted reasoning is in the reply's `carried`. Both are
 * returned only to the model that produced them. Rate limits, timeouts, server and connection errors are retried with
 * exponential backoff or after the requested wait; then a `ModelError` without the API key is thrown.
 *
 * The SDK reads `OPENAI_CUSTOM_HEADERS`: `--allow-net` is enough, but on a terminal Deno prompts once for that variable
 * without `--no-prompt`.
 *
 * @throws {TypeError} if `baseURL` is no HTTP URL or `apiKey` is no header value.
 *
 * @example A provider that is a function
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { run } from "@tare/loop";
 * import { openaiModel } from "@tare/loop/openai";
 *
 * const chunk = { choices: [{ delta: { content: "Hello!" }, finish_reason: "stop" }] };
 * const provider = () =>
 *   Promise.resolve(new Response(`data: ${JSON.stringify(chunk)}\n\ndata: [DONE]\n\n`));
 *
 * const model = openaiModel({ model: "some-model", baseURL: "http://localhost:8080/v1", fetch: provider });
 * const texts: string[] = [];
 * for await (const event of run({ model, history: [], input: "Hi" })) {
 *   if (event.type === "text_delta") texts.push(event.text);
 * }
 * assertEquals(texts, ["Hello!"]);
 * ```
 */
export function openaiModel(options: OpenaiModelOptions): Model {
  checkGiven("openaiModel()", { options }, {
    options: {
      ...PROVIDER_OPTIONS,
      "protocol?": new Set(["chat", "responses"]),
      "reasoning?": new Set(["sealed", "some"]),
      "route?": "function",
    } satisfies NeededOptions<OpenaiModelOptions>,
  });
  const { extraBody, baseURL, clientOptions, ...access } = accessTo(options, "https://api.openai.com/v1");
  const { model } = access;
  const { protocol = "chat", reasoning } = options;

  const namesResults = /\bgemini\b/i.test(model);
  const promptOf = (request: ModelRequest): JsonRecord => {
    if (protocol === "chat") {
      return {
        ...chatBody(request, { needsReasoning: reasoning === "some", namesResults }),
        stream_options: { include_usage: true },
      };
    }
    const { reasoning: effort, ...body } = responsesBody(request);
    return {
      ...body,
      ...(reasoning === "sealed"
        ? { reasoning: { summary: "auto", ...asRecord(effort) }, include: ["reasoning.encrypted_content"] }
        : effort !== undefined && { reasoning: effort }),
    };
  };

  const openStream = (request: ModelRequest) => {
    const { cacheKey, signal } = request;
    const routed = cacheKey === undefined ? undefined : options.route?.(cacheKey);
    const client = new OpenAI({
      ...clientOptions(request),
      baseURL,
      // Unset options would be read from the environment.
      adminAPIKey: null,
      organization: null,
      project: null,
      webhookSecret: null,
    });
    const body = { model, ...promptOf(request), stream: true, ...routed?.fields, ...extraBody };
    const headers = { ...routed?.headers, ...options.headers };
    const path = protocol === "chat" ? "/chat/completions" : "/responses";
    // Not parsed by the SDK: its work on each piece takes a fifth of a reply's time.
    return client.post(path, { body, headers, stream: true, signal }).asResponse();
  };

  return streamModel<ReplyAssembler | ResponseAssembler>({
    ...access,
    author: authorOf(protocol, { baseURL, model }),
    errors: { APIError, APIConnectionError, APIConnectionTimeoutError },
    noReply: NO_REPLY[protocol],
    forms: protocol === "chat" ? CHAT_FORMS : RESPONSES_FORMS,
    reader: () => protocol === "chat" ? new ReplyAssembler() : new ResponseAssembler(),
    open: async function* (request) {
      const response = await openStream(request);
      for await (const { name, json } of readEvents(response, request)) {
        const error = errorIn(json, name);
        if (error) throw new APIError(statusOf(error), error, undefined, response.headers);
        yield json;
      }
    },
  });
}

function errorIn(json: unknown, name: string | undefined): JsonRecord | undefined {
  const { type = name, error, response } = Object(json) as JsonRecord;
  if (type === "response.failed") {
    return asRecord(asRecord(response)?.error) ?? { message: "the response failed" };
  }
  // In a complete response `error` is null.
  if (error) return asRecord(error) ?? { message: String(error) };
  return type === "error" ? asRecord(json) : undefined;
}

function statusOf({ code }: JsonRecord): number | undefined {
  const statuses: Readonly<Record<string, number>> = {
    rate_limit_exceeded: 429,
    insufficient_quota: 429,
    invalid_prompt: 400,
    context_length_exceeded: 400,
  };
  return typeof code === "string" && Object.hasOwn(statuses, code) ? statuses[code] : undefined;
}
