/**
 * Models behind an OpenAI-compatible API (chat completions, streamed): OpenAI, DeepSeek, OpenRouter, vLLM, llama.cpp,
 * Ollama and others.
 *
 * @example Ask a provider, here one that is a function
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
 *
 * @module
 */
import type { Message, Model, ModelRequest } from "@tare/messages";
import { ModelError } from "../model_error.ts";
import { asRecord, ReplyAssembler, splitEvents, SseSplitter } from "@tare/wire";
import { sendRequest } from "./send_request.ts";
import { readError, refusalError, replyError } from "./request_errors.ts";

/** Which model, and how to reach it. */
export interface OpenAIModelOptions {
  /** Name of the model, as the provider has it. */
  readonly model: string;
  /** Sent as a bearer token. Default: none is sent, as local servers like it. */
  readonly apiKey?: string;
  /** Address of the API. Default: `https://api.openai.com/v1`. */
  readonly baseURL?: string;
  /** Headers sent with each request, such as OpenRouter's `HTTP-Referer`. */
  readonly headers?: Readonly<Record<string, string>>;
  /**
   * Fields of each request's body beside ours, or instead of them: `temperature`, `reasoning_effort`,
   * `prompt_cache_key`. `undefined` leaves one of ours out: `{ stream_options: undefined }` is for servers that don't
   * know it.
   */
  readonly extraBody?: Readonly<Record<string, unknown>>;
  /** Longest time until an answer begins, in milliseconds. Default: 600,000. */
  readonly timeoutMs?: number;
  /** How often a request is repeated that failed before anything was streamed. Default: 2. */
  readonly maxRetries?: number;
  /** Sends the requests. Default: the global `fetch`. */
  readonly fetch?: typeof globalThis.fetch;
}

const CUT_OFF = "its stream ended before the reply was whole";
const NO_COMPLETION = "what it sent is no chat completion (is the base URL right?)";

/**
 * Makes a model of one behind an OpenAI-compatible API.
 *
 * Messages are sent as they are, and replies keep every field that the provider sent (`reasoning_content`,
 * `reasoning_details`, signatures), so that all is passed back. Rate limits, time-outs, failures of the server and of
 * the connection are retried with growing waits, or those that the provider asks for. What remains is a `ModelError`;
 * no message of one holds the API key.
 *
 * Nothing is taken from the environment.
 *
 * @throws {TypeError} if `baseURL` is no http(s) URL or `apiKey` can't stand in a header.
 */
export function openaiModel(options: OpenAIModelOptions): Model {
  const {
    model,
    apiKey,
    baseURL = "https://api.openai.com/v1",
    headers = {},
    extraBody = {},
    timeoutMs = 600_000,
    maxRetries = 2,
    fetch = globalThis.fetch,
  } = options;
  const { host } = checkBaseURL(baseURL);
  if (apiKey && /[^\x21-\x7e]/.test(apiKey)) {
    throw new TypeError("Cannot use the API key: it holds spaces or other characters that no key has.");
  }

  const url = `${baseURL.replace(/\/+$/, "")}/chat/completions`;
  const failed = { host, model, apiKey, timeoutMs };
  const send = ({ messages, tools, signal, progress = () => {} }: ModelRequest) => {
    const body = JSON.stringify({
      model,
      messages,
      // An empty list is refused.
      ...(tools.length > 0 && { tools }),
      stream: true,
      stream_options: { include_usage: true },
      ...extraBody,
    });
    const sent = new Headers({ accept: "application/json", "content-type": "application/json" });
    if (apiKey) sent.set("authorization", `Bearer ${apiKey}`);
    for (const [name, value] of Object.entries(headers)) sent.set(name, value);
    return sendRequest({ url, headers: sent, body, signal, fetch, maxRetries, progress }, failed);
  };

  return async function* (request) {
    const takenIds = callIds(request.messages);
    for (let attempt = 0;; attempt++) {
      const reply = new ReplyAssembler();
      let failure: unknown;
      try {
        const answer = await send(request);
        for await (const chunk of readChunks(answer, request.progress)) {
          const said = asRecord(chunk)?.error;
          if (said) throw refusalError({ headers: answer.headers, said }, failed);
          yield* reply.read(chunk);
        }
        const completed = reply.finish(takenIds);
        if (completed) {
          yield completed;
          return;
        }
        failure = replyError("bad_response", host, reply.isCompletion ? CUT_OFF : NO_COMPLETION);
      } catch (error) {
        request.signal.throwIfAborted();
        failure = readError(error, host);
      }
      const isBroken = failure instanceof ModelError && failure.code === "bad_response";
      if (!isBroken || reply.begun || attempt >= maxRetries) throw failure;
    }
  };
}

function checkBaseURL(baseURL: string): URL {
  const url = URL.parse(baseURL);
  if (url?.protocol === "http:" || url?.protocol === "https:") return url;
  throw new TypeError(`Cannot use base URL "${baseURL}": it must be like https://api.openai.com/v1.`);
}

function callIds(messages: readonly Message[]): ReadonlySet<string> {
  const ids = new Set<string>();
  for (const message of messages) {
    if (message.role !== "assistant") continue;
    for (const call of message.tool_calls ?? []) ids.add(call.id);
  }
  return ids;
}

/** The chunks of an answer, or the one that a server sends that doesn't stream. Each arrival of bytes is a sign of life. */
async function* readChunks(answer: Response, progress: () => void = () => {}): AsyncGenerator<unknown> {
  if (/[/+]json\b/.test(answer.headers.get("content-type") ?? "")) {
    yield await answer.json();
    return;
  }
  const events = new SseSplitter();
  for await (const bytes of answer.body ?? []) {
    progress();
    for (const { data } of splitEvents(events.cut(bytes))) {
      if (data === "[DONE]") return;
      if (data !== undefined) yield JSON.parse(data);
    }
  }
}
