import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { ModelError } from "@tare/loop";
import type { Model } from "@tare/messages";
import OpenAI from "openai";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, streamText } from "ai";
import {
  echoCall,
  routeOptions,
  scriptedModel,
  serve,
} from "../../../packages/server/as_model/fixture_test.ts";

interface Server {
  readonly baseURL: string;
  readonly client: OpenAI;
}

/** Connects clients to the routes over HTTP. Every answer is checked against the OpenAPI document. */
async function withModel(model: Model, use: (server: Server) => Promise<void>): Promise<void> {
  const answer = serve(routeOptions(model));
  const server = Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen() {} },
    (request) => answer(request, { signal: request.signal }),
  );
  const baseURL = `http://127.0.0.1:${server.addr.port}/v1`;
  try {
    await use({ baseURL, client: new OpenAI({ baseURL, apiKey: "any" }) });
  } finally {
    await server.shutdown();
  }
}

async function withServer(
  replies: Parameters<typeof scriptedModel>[0],
  use: (
    server: Server & { readonly requests: ReturnType<typeof scriptedModel>["requests"] },
  ) => Promise<void>,
): Promise<void> {
  const { model, requests } = scriptedModel(replies);
  await withModel(model, (server) => use({ ...server, requests }));
}

const TOOL_TURN = [
  { content: "I ask the echo.", ...echoCall("hi") },
  { content: "It printed hi." },
];
const ANSWER = "I ask the echo.\n\nIt printed hi.";
const CHAT_USAGE = {
  prompt_tokens: 20,
  completion_tokens: 4,
  total_tokens: 24,
  prompt_tokens_details: { cached_tokens: 10 },
};

function roles(messages: readonly { readonly role: string }[]): string {
  return messages.map(({ role }) => role[0]).join("");
}

async function refused(request: Promise<unknown>): Promise<[unknown, unknown, unknown]> {
  const error = await assertRejects(() => request) as Error & { code: unknown; param: unknown };
  return [error.constructor, error.code, error.param];
}

Deno.test("openai: models.list() returns the agent", async () => {
  await withServer([], async ({ client }) => {
    const models = await client.models.list();
    assertEquals(models.data.map((model: OpenAI.Model) => [model.id, model.owned_by]), [["agent", "tare"]]);
  });
});

Deno.test("openai: chat.completions.create() answers and continues the same session", async () => {
  await withServer([...TOOL_TURN, { content: "Again hi." }], async ({ client, requests }) => {
    const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: "Say hi." }];
    const first = await client.chat.completions.create({ model: "agent", messages }).withResponse();
    const { choices: [choice], usage, object, model } = first.data;
    assertEquals([object, model, choice?.finish_reason, choice?.message.content], [
      "chat.completion",
      "agent",
      "stop",
      ANSWER,
    ]);
    assertEquals(usage, CHAT_USAGE);
    assertEquals(choice?.message.tool_calls, undefined);

    messages.push(choice!.message, { role: "user", content: "Again." });
    const second = await client.chat.completions.create({ model: "agent", messages }).withResponse();
    assertEquals(second.data.choices[0]?.message.content, "Again hi.");
    const session = first.response.headers.get("tare-session");
    assertEquals(second.response.headers.get("tare-session"), session);
    assertEquals(roles(requests[2]!.messages), "suatau");
  });
});

Deno.test("openai: chat.completions.create({ stream }) streams text, progress and usage", async () => {
  await withServer(TOOL_TURN, async ({ client }) => {
    const stream = await client.chat.completions.create({
      model: "agent",
      messages: [{ role: "user", content: "Say hi." }],
      stream: true,
      stream_options: { include_usage: true },
    });
    let text = "";
    let progress = "";
    const finishes: unknown[] = [];
    let usage: unknown;
    for await (const { choices: [choice], usage: counted } of stream) {
      text += choice?.delta.content ?? "";
      progress += (choice?.delta as { reasoning_content?: string } | undefined)?.reasoning_content ?? "";
      if (choice?.finish_reason) finishes.push(choice.finish_reason);
      usage = counted ?? usage;
    }
    assertEquals([text, progress, finishes], [ANSWER, 'echo {"text":"hi"}\n', ["stop"]]);
    assertEquals(usage, CHAT_USAGE);
  });
});

Deno.test("openai: chat.completions.stream() assembles the answer", async () => {
  await withServer(TOOL_TURN, async ({ client }) => {
    const stream = client.chat.completions.stream({
      model: "agent",
      messages: [{ role: "user", content: "Say hi." }],
      stream_options: { include_usage: true },
    });
    const completion = await stream.finalChatCompletion();
    assertEquals(completion.choices[0]?.message.content, ANSWER);
    assertEquals(completion.usage, CHAT_USAGE);
  });
});

Deno.test("openai: responses.create(), responses.retrieve() and previous_response_id work together", async () => {
  await withServer(
    [...TOOL_TURN, { content: "Again hi." }, { content: "Fork." }],
    async ({ client, requests }) => {
      const first = await client.responses.create({ model: "agent", input: "Say hi." });
      assertEquals([first.status, first.output_text], ["completed", ANSWER]);
      assertEquals(first.output.map((item: { type: string }) => item.type), [
        "message",
        "reasoning",
        "message",
      ]);
      assertEquals(
        first.usage,
        {
          input_tokens: 20,
          input_tokens_details: { cached_tokens: 10 },
          output_tokens: 4,
          output_tokens_details: { reasoning_tokens: 0 },
          total_tokens: 24,
        } as typeof first.usage,
      );
      assertEquals(await client.responses.retrieve(first.id), first);

      const previous_response_id = first.id;
      const second = await client.responses.create({ model: "agent", input: "Again.", previous_response_id });
      assertEquals([second.output_text, second.previous_response_id], ["Again hi.", first.id]);
      const fork = await client.responses.create({ model: "agent", input: "Other.", previous_response_id });
      assertEquals(fork.output_text, "Fork.");
      assertEquals(requests.slice(2).map(({ messages }) => [roles(messages), messages.at(-1)?.content]), [
        ["suatau", "Again."],
        ["suatau", "Other."],
      ]);
    },
  );
});

Deno.test("openai: responses.create({ stream }) sends numbered events in order", async () => {
  await withServer([{ content: "Hello." }], async ({ client }) => {
    const stream = await client.responses.create({ model: "agent", input: "Hi.", stream: true });
    const events: OpenAI.Responses.ResponseStreamEvent[] = [];
    for await (const event of stream) events.push(event);
    assertEquals(events.map(({ type }) => type), [
      "response.created",
      "response.in_progress",
      "response.output_item.added",
      "response.content_part.added",
      "response.output_text.delta",
      "response.output_text.delta",
      "response.output_text.done",
      "response.content_part.done",
      "response.output_item.done",
      "response.completed",
    ]);
    assertEquals(events.map(({ sequence_number }) => sequence_number), events.map((_, index) => index));
  });
});

Deno.test("openai: responses.stream() assembles the response", async () => {
  await withServer(TOOL_TURN, async ({ client }) => {
    const response = await client.responses.stream({ model: "agent", input: "Say hi." }).finalResponse();
    assertEquals([response.status, response.output_text], ["completed", ANSWER]);
    assertEquals((await client.responses.retrieve(response.id)).output_text, ANSWER);
  });
});

Deno.test("openai: errors have the client's own error classes", async () => {
  const limited = new ModelError("rate_limited", "Too fast.", { retryAfterMs: 1 });
  await withServer([limited, { content: "Now." }, new ModelError("bad_key", "No.")], async ({ client }) => {
    const messages = [{ role: "user", content: "Hi." }] as const;
    const create = (body: object, options = {}) =>
      refused(client.chat.completions.create({ model: "agent", messages: [...messages], ...body }, options));
    const respond = (body: object) =>
      refused(client.responses.create({ model: "agent", input: "Hi.", ...body }, { maxRetries: 0 }));
    assertEquals(await create({ model: "gpt" }), [OpenAI.NotFoundError, "model_not_found", "model"]);
    assertEquals(await create({ n: 2 }), [OpenAI.BadRequestError, "unsupported_value", "n"]);
    assertEquals(await create({ max_tokens: "many" }), [
      OpenAI.BadRequestError,
      "invalid_request",
      "max_tokens",
    ]);
    assertEquals(await create({}, { maxRetries: 0 }), [OpenAI.RateLimitError, "rate_limit_exceeded", null]);
    const next = await client.chat.completions.create({ model: "agent", messages: [...messages] });
    assertEquals(next.choices[0]?.message.content, "Now.");
    assertEquals(await respond({}), [OpenAI.InternalServerError, "bad_key", null]);
    assertEquals(await respond({ previous_response_id: "resp_0" }), [
      OpenAI.BadRequestError,
      "previous_response_not_found",
      "previous_response_id",
    ]);
    assertEquals(await refused(client.responses.retrieve("resp_0")), [
      OpenAI.NotFoundError,
      "response_not_found",
      "id",
    ]);
  });
});

Deno.test("client disconnects: a client that disconnects cancels the turn", async () => {
  for (const leave of [leaveStream, leaveAnswer, leaveText]) {
    const stopped = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<void>();
    const endless: Model = async function* ({ signal }) {
      yield { type: "text_delta", text: "Well, " };
      begun.resolve();
      await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    };
    const model: Model = async function* (request) {
      try {
        yield* endless(request);
      } finally {
        stopped.resolve();
      }
    };
    await withModel(model, async ({ client, baseURL }) => {
      await leave({ client, baseURL, begun: begun.promise });
      await stopped.promise;
    });
  }
});

interface Closing {
  readonly client: OpenAI;
  readonly baseURL: string;
  readonly begun: Promise<void>;
}

async function leaveStream({ client }: Closing): Promise<void> {
  const stream = await client.chat.completions.create({
    model: "agent",
    messages: [{ role: "user", content: "Hi." }],
    stream: true,
  });
  for await (const { choices } of stream) if (choices[0]?.delta.content) break;
}

async function leaveAnswer({ client, begun }: Closing): Promise<void> {
  const controller = new AbortController();
  const answer = client.responses.create({ model: "agent", input: "Hi." }, { signal: controller.signal });
  begun.then(() => controller.abort());
  await assertRejects(async () => await answer, OpenAI.APIUserAbortError);
}

async function leaveText({ baseURL }: Closing): Promise<void> {
  const controller = new AbortController();
  const provider = createOpenAICompatible({ name: "tare", baseURL, apiKey: "any" });
  const result = streamText({
    model: provider("agent"),
    prompt: "Hi.",
    abortSignal: controller.signal,
    onError() {},
  });
  for await (const _ of result.textStream) controller.abort();
}

Deno.test("AI SDK: generateText() works with the OpenAI-compatible provider, over two turns", async () => {
  await withServer([...TOOL_TURN, { content: "Again hi." }], async ({ baseURL, requests }) => {
    const provider = createOpenAICompatible({ name: "tare", baseURL, apiKey: "any" });
    const first = await generateText({ model: provider("agent"), prompt: "Say hi." });
    assertEquals([first.text, first.finishReason], [ANSWER, "stop"]);
    assertEquals([first.usage.inputTokens, first.usage.outputTokens], [20, 4]);
    assertEquals(first.reasoningText, 'echo {"text":"hi"}\n');
    const second = await generateText({
      model: provider("agent"),
      messages: [{ role: "user", content: "Say hi." }, ...first.response.messages, {
        role: "user",
        content: "Again.",
      }],
    });
    assertEquals(second.text, "Again hi.");
    assertEquals(roles(requests[2]!.messages), "suatau");
  });
});

Deno.test("AI SDK: streamText() works with the OpenAI-compatible provider", async () => {
  await withServer(TOOL_TURN, async ({ baseURL }) => {
    const provider = createOpenAICompatible({ name: "tare", baseURL, apiKey: "any", includeUsage: true });
    const result = streamText({ model: provider("agent"), prompt: "Say hi." });
    let text = "";
    for await (const piece of result.textStream) text += piece;
    assertEquals([text, await result.finishReason, await result.reasoningText], [
      ANSWER,
      "stop",
      'echo {"text":"hi"}\n',
    ]);
    assertEquals((await result.usage).totalTokens, 24);
  });
});

Deno.test("AI SDK: generateText() and streamText() work with the OpenAI provider's responses, over three turns", async () => {
  await withServer(
    [...TOOL_TURN, { content: "Again hi." }, { content: "Third." }],
    async ({ baseURL, requests }) => {
      const provider = createOpenAI({ baseURL, apiKey: "any" });
      const model = provider.responses("agent");
      const first = await generateText({ model, prompt: "Say hi." });
      assertEquals([first.text, first.reasoningText, first.usage.totalTokens], [
        ANSWER,
        'echo {"text":"hi"}\n',
        24,
      ]);
      const messages = [
        { role: "user", content: "Say hi." } as const,
        ...first.response.messages,
        { role: "user", content: "Again." } as const,
      ];
      const second = streamText({ model, messages });
      assertEquals(await second.text, "Again hi.");
      assertEquals(roles(requests[2]!.messages), "suatau");
      const third = await generateText({
        model,
        prompt: "Third.",
        providerOptions: {
          openai: { previousResponseId: String((await second.providerMetadata)?.openai?.responseId) },
        },
      });
      assertEquals([third.text, roles(requests[3]!.messages)], ["Third.", "suatauau"]);
    },
  );
});

Deno.test("AI SDK: a failure in mid-stream is reported as its error", async () => {
  const failing = [
    { content: "Well.", ...echoCall("hi") },
    new ModelError("unreachable", "The provider is gone."),
  ];
  const providers = [
    (baseURL: string) => createOpenAICompatible({ name: "tare", baseURL, apiKey: "any" })("agent"),
    (baseURL: string) => createOpenAI({ baseURL, apiKey: "any" }).responses("agent"),
  ];
  for (const provider of providers) {
    await withServer(failing, async ({ baseURL }) => {
      const errors: unknown[] = [];
      const result = streamText({
        model: provider(baseURL),
        prompt: "Hi.",
        onError: ({ error }) => void errors.push(error),
      });
      let text = "";
      for await (const piece of result.textStream) text += piece;
      assertEquals([text, errors.length], ["Well.", 1]);
      assertStringIncludes(JSON.stringify(errors[0]) + String(errors[0]), "The provider is gone.");
    });
  }
});
