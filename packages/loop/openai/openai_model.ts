/**
 * Models behind an OpenAI-compatible API (chat completions, streamed), by `npm:openai`: OpenAI, DeepSeek, OpenRouter,
 * vLLM, llama.cpp, Ollama and others.
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
import {
  checkGiven,
  type ContentPart,
  contentText,
  type Message,
  type Model,
  type ModelRequest,
} from "@tare/messages";
import { asRecord, ReplyAssembler } from "@tare/wire";
import { APIConnectionError, APIConnectionTimeoutError, APIError, OpenAI } from "openai";
import { accessTo, type ProviderOptions, readEvents, streamModel } from "../provider.ts";

const NO_COMPLETION = "what it sent is no chat completion (is the base URL right?)";

/**
 * Makes a model of one behind an OpenAI-compatible API.
 *
 * Messages are sent as they are, but for pictures in results, which this format lets users alone show; and replies keep every field that the provider sent (`reasoning_content`,
 * `reasoning_details`, signatures), so that all is passed back. Rate limits, time-outs, failures of the server and of
 * the connection are retried with growing waits, or those that the provider asks for. What remains is a `ModelError`;
 * no message of one holds the API key.
 *
 * Nothing is taken from the environment, but the SDK looks for `OPENAI_CUSTOM_HEADERS` there: it works with
 * `--allow-net` alone, and on a terminal Deno then asks for that variable once, unless it runs with `--no-prompt`.
 *
 * @throws {TypeError} if `baseURL` is no http(s) URL or `apiKey` can't stand in a header.
 */
export function openaiModel(
  options: ProviderOptions & {
    /** Address of the API. Default: `https://api.openai.com/v1`. */
    readonly baseURL?: string;
    /**
     * Fields of each request's body beside ours, or instead of them: `temperature`, `reasoning_effort`,
     * `prompt_cache_key`. `undefined` leaves one of ours out: `{ stream_options: undefined }` is for servers that don't
     * know it.
     */
    readonly extraBody?: Readonly<Record<string, unknown>>;
    /**
     * Fields and headers by which the provider finds the cache of the conversation that goes by this name, such as
     * `routeToCache` of `@tare/planner` gives. Default: none.
     */
    readonly route?: (cacheKey: string) => {
      readonly fields: Readonly<Record<string, string>>;
      readonly headers: Readonly<Record<string, string>>;
    };
  },
): Model {
  checkGiven("openaiModel()", { options }, { options: { model: "string" } });
  const { extraBody, baseURL, clientOptions, ...access } = accessTo(options, "https://api.openai.com/v1");
  const { model } = access;

  const openStream = (request: ModelRequest) => {
    const { messages, tools, settings, cacheKey, signal } = request;
    const routed = cacheKey === undefined ? undefined : options.route?.(cacheKey);
    const client = new OpenAI({
      ...clientOptions(request),
      baseURL,
      // Left out, these would be read from the environment.
      adminAPIKey: null,
      organization: null,
      project: null,
      webhookSecret: null,
    });
    const body = {
      model,
      messages: picturesBehind(messages),
      // An empty list is refused.
      ...(tools.length > 0 && { tools }),
      stream: true,
      stream_options: { include_usage: true },
      ...settings,
      ...routed?.fields,
      ...extraBody,
    };
    const headers = { ...routed?.headers, ...options.headers };
    // Not read by the SDK: what that does to each piece takes a fifth of what a reply costs.
    return client.post("/chat/completions", { body, headers, stream: true, signal }).asResponse();
  };

  return streamModel({
    ...access,
    errors: { APIError, APIConnectionError, APIConnectionTimeoutError },
    noReply: NO_COMPLETION,
    reader: () => new ReplyAssembler(),
    open: async function* (request) {
      const response = await openStream(request);
      for await (const { name, json } of readEvents(response, request)) {
        const error = asRecord(json)?.error ?? (name === "error" ? json : undefined);
        if (error) {
          throw new APIError(undefined, error as Record<string, unknown>, undefined, response.headers);
        }
        yield json;
      }
    },
  });
}

/** What stands in front of the pictures of results. */
const SHOWN = "What the calls above show:";

/** The messages with the pictures of a step's results in a message of the user behind these: results may hold text alone. */
function picturesBehind(messages: readonly Message[]): readonly Message[] {
  if (!messages.some((message) => picturesIn(message).length > 0)) return messages;
  const sent: Message[] = [];
  let shown: ContentPart[] = [];
  for (const [at, message] of messages.entries()) {
    const found = picturesIn(message);
    const isAsItIs = message.role !== "tool" || found.length === 0;
    sent.push(isAsItIs ? message : { ...message, content: contentText(message.content) });
    shown.push(...found);
    if (shown.length === 0 || messages[at + 1]?.role === "tool") continue;
    sent.push({ role: "user", content: [{ type: "text", text: SHOWN }, ...shown] });
    shown = [];
  }
  return sent;
}

function picturesIn(message: Message): readonly ContentPart[] {
  if (message.role !== "tool" || typeof message.content === "string") return [];
  return message.content.filter(({ type }) => type === "image_url");
}
