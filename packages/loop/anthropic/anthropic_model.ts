/**
 * Models of Anthropic's Messages API, streamed, with `npm:@anthropic-ai/sdk`.
 *
 * @module
 */
import { Anthropic, APIConnectionError, APIConnectionTimeoutError, APIError } from "@anthropic-ai/sdk";
import type { KeepablePrompt, Model, ModelEvent, ModelRequest } from "@tare/messages";
import { checkGiven, type NeededOptions } from "@tare/messages/internal";
import { type JsonRecord, messagesBody } from "@tare/wire";
import {
  asRecord,
  finishedReply,
  MessageAssembler,
  MESSAGES_FORMS,
  MESSAGES_PROTOCOL,
  ReplyTooLong,
} from "@tare/wire/internal";
import {
  accessTo,
  authorOf,
  PROVIDER_OPTIONS,
  type ProviderOptions,
  readEvents,
  streamModel,
  toModelError,
} from "../provider.ts";

type Completed = Extract<ModelEvent, { readonly type: "completed" }>;

const MAX_PAUSES = 100;

const KEEP_ALIVE = MESSAGES_PROTOCOL.keepAlive!;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

function endsWithUser({ messages }: JsonRecord): boolean {
  return Array.isArray(messages) && asRecord(messages.at(-1))?.role === "user";
}

const NO_MESSAGE = "the response is not a message. Check the base URL, which has no /v1";

/** Options of {@linkcode anthropicModel}. */
export interface AnthropicModelOptions extends ProviderOptions {
  /** URL of the server without `/v1`. Default: `https://api.anthropic.com`. */
  readonly baseURL?: string;
  /** Extends or replaces fields of each request's body. Default: none. */
  readonly extraBody?: Readonly<Record<string, unknown>>;
  /** Longest reply in tokens, including thinking; required by the API. Default: 32,000. */
  readonly maxTokens?: number;
  /**
   * `adaptive`: `reasoning_effort` guides the model; `budget`: each effort sets a token budget. Omitted where
   * the API requires it: with sampling settings or forced tool calls. Default: no thinking; an effort is sent
   * unchanged.
   */
  readonly thinking?: "adaptive" | "budget";
  /**
   * Cache lifetime in milliseconds: an hour or more requests a one-hour cache, less a five-minute cache, 0 no
   * cache. Default: five minutes.
   */
  readonly cacheTtlMs?: number;
}

/**
 * Returns a model of the Messages API.
 *
 * Reasoning and blocks that chat messages can't express are in the reply's `carried` and returned unchanged to the model
 * that produced them. At most four cache breakpoints are set, at `stable` of the request. A paused reply is continued;
 * its usage is that of all requests. Settings that the format lacks, such as a seed, are refused. Errors and retries
 * are those of `openaiModel`.
 *
 * The SDK reads `ANTHROPIC_CUSTOM_HEADERS`: add `--ignore-env=ANTHROPIC_CUSTOM_HEADERS` or
 * `--allow-env=ANTHROPIC_CUSTOM_HEADERS`.
 *
 * @throws {TypeError} if `baseURL` is no HTTP URL or `apiKey` is no header value.
 *
 * @example A provider that is a function
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { run } from "@tare/loop";
 * import { anthropicModel } from "@tare/loop/anthropic";
 *
 * const events = [
 *   { type: "message_start", message: { usage: { input_tokens: 9, output_tokens: 1 } } },
 *   { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
 *   { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Hello!" } },
 *   { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 3 } },
 *   { type: "message_stop" },
 * ];
 * const stream = events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join("");
 * const provider = () => Promise.resolve(new Response(stream));
 *
 * const model = anthropicModel({ model: "some-model", baseURL: "http://localhost:8080", fetch: provider });
 * const texts: string[] = [];
 * for await (const event of run({ model, history: [], input: "Hi" })) {
 *   if (event.type === "text_delta") texts.push(event.text);
 * }
 * assertEquals(texts, ["Hello!"]);
 * ```
 */
export function anthropicModel(options: AnthropicModelOptions): Model {
  checkGiven("anthropicModel()", { options }, {
    options: {
      ...PROVIDER_OPTIONS,
      "maxTokens?": "number",
      "thinking?": new Set(["adaptive", "budget"]),
      "cacheTtlMs?": "number",
    } satisfies NeededOptions<AnthropicModelOptions>,
  });
  const { extraBody, baseURL, clientOptions, ...access } = accessTo(options, "https://api.anthropic.com");
  const { model } = access;
  const { maxTokens = 32_000, cacheTtlMs, thinking } = options;
  const failed = { ...access, errors: { APIError, APIConnectionError, APIConnectionTimeoutError } };

  const clientFor = (request: Pick<ModelRequest, "progress" | "confirm">, more: object = {}) =>
    new Anthropic({
      ...clientOptions(request),
      ...more,
      baseURL: baseURL.replace(/\/+$/, ""),
      // Unset options would be read from the environment.
      webhookKey: null,
      openTelemetry: false,
    });

  const bodyOf = (request: ModelRequest): JsonRecord => ({
    model,
    ...messagesBody(request, { maxTokens, thinking, cacheTtlMs }),
    stream: true,
    ...extraBody,
  });

  const openStream = async function* (
    body: JsonRecord,
    request: ModelRequest,
  ): AsyncGenerator<unknown, void> {
    // Not parsed by the SDK: its work on each piece takes a fifth of a reply's time.
    const response = await clientFor(request)
      .post("/v1/messages", { body, stream: true, signal: request.signal })
      .asResponse();
    for await (const { json } of readEvents(response, request)) {
      const { type, error } = asRecord(json) ?? {};
      if (type === "error") {
        const kind = asRecord(error)?.type as ConstructorParameters<typeof APIError>[4];
        throw new APIError(undefined, json as Record<string, unknown>, undefined, response.headers, kind);
      }
      yield json;
    }
  };

  const bodies = new WeakMap<MessageAssembler, JsonRecord>();

  const keepable = (body: JsonRecord, { message, finishReason }: Completed): KeepablePrompt => {
    const reply = finishedReply(message);
    const isFinished = finishReason === "stop" || finishReason === "tool_calls";
    return {
      // Nothing can follow a paused or cut-off reply.
      answerBlocks: isFinished && endsWithUser(body) ? reply.content.length : Infinity,
      async keepAliveBytes(type, signal) {
        const requestBytes = encoder.encode(JSON.stringify(body));
        const replyBytes = encoder.encode(JSON.stringify(reply));
        const answer = type === "upgrade" ? KEEP_ALIVE.readAnswerBlocks(requestBytes, replyBytes, false) : [];
        if (!answer) return undefined;
        const keepAliveBytes = KEEP_ALIVE.write(requestBytes, type === "upgrade" ? answer : undefined);
        try {
          const response = await clientFor({}, { maxRetries: 0 })
            .post("/v1/messages", { body: JSON.parse(decoder.decode(keepAliveBytes)), signal })
            .asResponse();
          return KEEP_ALIVE.readUsage(new Uint8Array(await response.arrayBuffer()));
        } catch (error) {
          signal.throwIfAborted();
          throw toModelError(error, failed);
        }
      },
    };
  };

  return streamModel({
    ...failed,
    author: authorOf("messages", { baseURL, model }),
    noReply: NO_MESSAGE,
    forms: MESSAGES_FORMS,
    reader: () => new MessageAssembler(),
    keepable(reply, completed) {
      const body = bodies.get(reply);
      // A keep-alive requests fewer tokens than a fixed thinking budget allows.
      return body && asRecord(body.thinking)?.type !== "enabled" ? keepable(body, completed) : undefined;
    },
    open: async function* (request, reply) {
      let body = bodyOf(request);
      bodies.set(reply, body);
      yield* openStream(body, request);
      for (let pauses = 1; reply.isPaused; pauses++) {
        if (pauses > MAX_PAUSES) throw new ReplyTooLong(`the reply paused more than ${MAX_PAUSES} times`);
        body = bodyOf({ ...request, messages: [...request.messages, reply.message()] });
        bodies.set(reply, body);
        yield* openStream(body, request);
      }
    },
  });
}
