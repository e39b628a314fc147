/**
 * Models of Anthropic's Messages API, streamed, with `npm:@anthropic-ai/sdk`.
 *
 * ```ts ignore
 * import { run } from "@tare/loop";
 * import { anthropicModel } from "@tare/loop/anthropic";
 * import { workspaceTools } from "@tare/tools";
 *
 * const model = anthropicModel({ model: "claude-sonnet-5", apiKey: Deno.env.get("ANTHROPIC_API_KEY")! });
 * const tools = workspaceTools({ workspace });
 * for await (const event of run({ model, tools, history: [], input: "What is in notes.txt?" })) {
 *   if (event.type === "text_delta") console.log(event.text);
 * }
 * ```
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

/** How often a reply may pause and be asked to go on. */
const MAX_PAUSES = 100;

const PINGS = MESSAGES_PROTOCOL.pings!;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

function endsWithUser({ messages }: JsonRecord): boolean {
  return Array.isArray(messages) && asRecord(messages.at(-1))?.role === "user";
}

const NO_MESSAGE = "what it sent is no message (is the base URL right? It is without /v1)";

/** Options of {@linkcode anthropicModel}. */
export interface AnthropicModelOptions extends ProviderOptions {
  /** Address of the server, without `/v1`. Default: `https://api.anthropic.com`. */
  readonly baseURL?: string;
  /** Fields of each request's body beside ours, or instead of them: `thinking`, `temperature`, `metadata`. */
  readonly extraBody?: Readonly<Record<string, unknown>>;
  /** Longest reply in tokens, thinking included; the API wants to be told. Default: 32,000. */
  readonly maxTokens?: number;
  /**
   * How the model is asked to think: as much as it finds right, which `reasoning_effort` guides (`adaptive`); or within a
   * budget, if there is an effort (`budget`). Requests that say how the next token is to be chosen, or that a tool must be
   * called, go without it, which the API demands. Default: it isn't asked, and an effort is sent as it is.
   */
  readonly thinking?: "adaptive" | "budget";
  /**
   * How long the prompt shall stay cached, in milliseconds since its last use: an hour or more asks for the hour, less
   * for five minutes, 0 for nothing. Default: five minutes.
   */
  readonly cacheTtlMs?: number;
}

/**
 * Returns a model of the Messages API.
 *
 * Instructions are sent as `system`, the results of a reply's calls as one message, images and files as they are. A reply
 * with reasoning, or with blocks that chat messages can't express, has them in its field `carried` and sends them back
 * unchanged to the model that produced them. At most four cache breakpoints are set; `stable` of the request says where they
 * are useful. A paused reply is continued, and its usage is that of the last request. Settings that the format doesn't have,
 * such as a seed, are refused. Errors and retries are those of `openaiModel`.
 *
 * The environment isn't read, but the SDK looks for `ANTHROPIC_CUSTOM_HEADERS` in it and fails without permission:
 * `--ignore-env=ANTHROPIC_CUSTOM_HEADERS` or `--allow-env=ANTHROPIC_CUSTOM_HEADERS` is needed, too.
 *
 * @throws {TypeError} if `baseURL` is no http(s) URL or `apiKey` can't stand in a header.
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
      // Left out, these would be read from the environment.
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
    // Not read by the SDK: what that does to each piece takes a fifth of what a reply costs.
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

  /** What each reply that is being read was asked for with. */
  const bodies = new WeakMap<MessageAssembler, JsonRecord>();

  const keepable = (body: JsonRecord, { message, finishReason }: Completed): KeepablePrompt => {
    const reply = finishedReply(message);
    const isFinished = finishReason === "stop" || finishReason === "tool_calls";
    return {
      // Behind a reply that paused, or was cut off, nothing can stand.
      answerBlocks: isFinished && endsWithUser(body) ? reply.content.length : Infinity,
      async ping(type, signal) {
        const asked = encoder.encode(JSON.stringify(body));
        const said = encoder.encode(JSON.stringify(reply));
        const answer = type === "upgrade" ? PINGS.readAnswerBlocks(asked, said, false) : [];
        if (!answer) return undefined;
        const ping = PINGS.write(asked, type === "upgrade" ? answer : undefined);
        try {
          const told = await clientFor({}, { maxRetries: 0 })
            .post("/v1/messages", { body: JSON.parse(decoder.decode(ping)), signal })
            .asResponse();
          return PINGS.readUsage(new Uint8Array(await told.arrayBuffer()));
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
      // Who thinks with a fixed budget can't be asked for less than that.
      return body && asRecord(body.thinking)?.type !== "enabled" ? keepable(body, completed) : undefined;
    },
    open: async function* (request, reply) {
      let body = bodyOf(request);
      bodies.set(reply, body);
      yield* openStream(body, request);
      for (let pauses = 1; reply.isPaused; pauses++) {
        if (pauses > MAX_PAUSES) throw new ReplyTooLong(`it pauses more than ${MAX_PAUSES} times`);
        body = bodyOf({ ...request, messages: [...request.messages, reply.message()] });
        bodies.set(reply, body);
        yield* openStream(body, request);
      }
    },
  });
}
