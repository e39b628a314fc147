import { assertEquals, assertMatch } from "@std/assert";
import { ServerSentEventParseStream } from "@std/http";
import { ModelError } from "@tare/loop";
import { estimateTokens, type Model } from "@tare/messages";
import { silentModel } from "../fixture_test.ts";
import { continueConversation } from "./continue_conversation.ts";
import { echoCall, post, routeOptions, scriptedModel, serve } from "./fixture_test.ts";
import { readAnswer } from "./turn_answer.ts";

const PATH = "/v1/chat/completions";
const BODY = { model: "agent", messages: [{ role: "user", content: "Hi." }] };

async function data(response: Response): Promise<unknown[]> {
  const seen: unknown[] = [];
  for await (const { data } of response.body!.pipeThrough(new ServerSentEventParseStream())) {
    seen.push(data === "[DONE]" ? data : JSON.parse(data!));
  }
  return seen;
}

Deno.test("chatCompletionsRoute() returns text, progress and usage", async () => {
  const { model } = scriptedModel([echoCall("x"), { content: "Hello.", reasoning_content: "Hm." }]);
  const response = await post(serve(routeOptions(model)), PATH, BODY);
  const { id, ...body } = await response.json();
  assertEquals([response.status, /^chatcmpl-[0-9a-f]{32}$/.test(id)], [200, true]);
  assertEquals(body, {
    object: "chat.completion",
    created: 5,
    model: "agent",
    choices: [{
      index: 0,
      message: {
        role: "assistant",
        content: "Hello.",
        refusal: null,
        reasoning_content: 'echo {"text":"x"}\nHm.',
      },
      finish_reason: "stop",
      logprobs: null,
    }],
    usage: {
      prompt_tokens: 20,
      completion_tokens: 4,
      total_tokens: 24,
      prompt_tokens_details: { cached_tokens: 10 },
    },
  });
});

Deno.test("chatCompletionsRoute() and createResponseRoute() report prompt rewrites and their reasons as progress", async () => {
  const mechanisms = {
    context: false,
    prune: false,
    schemas: false,
    truncate: true,
    references: true,
    normalization: true,
  };
  const bodyOf = async (path: string, body: object) => {
    const { model } = scriptedModel([echoCall("long ".repeat(18_000)), { content: "Done." }]);
    return await (await post(serve(routeOptions(model, { mechanisms })), path, body)).text();
  };
  const input = { model: "agent", input: "Hi." };
  for (
    const answer of [
      await bodyOf(PATH, BODY),
      await bodyOf(PATH, { ...BODY, stream: true }),
      await bodyOf("/v1/responses", input),
      await bodyOf("/v1/responses", { ...input, stream: true }),
    ]
  ) {
    assertMatch(
      answer,
      /truncate: the middle of 1 result of echo \(over the truncation limit\); \d+ → \d+ tokens/,
    );
  }
});

Deno.test("chatCompletionsRoute() streams chunks, with usage on request", async () => {
  const { model } = scriptedModel([{ content: "Hello." }, { content: "Hello." }]);
  const handler = serve(routeOptions(model));
  const choices = (chunks: unknown[]) =>
    chunks.map((chunk) => chunk === "[DONE]" ? chunk : (chunk as { choices: unknown }).choices);
  const choice = (delta: object, finish_reason: string | null = null) => [
    { index: 0, delta, finish_reason, logprobs: null },
  ];
  const plain = await data(await post(handler, PATH, { ...BODY, stream: true }));
  const expected = [
    choice({ role: "assistant", content: "" }),
    choice({ content: "Hell" }),
    choice({ content: "o." }),
    choice({}, "stop"),
  ];
  assertEquals(choices(plain), [...expected, "[DONE]"]);
  assertEquals(plain.some((chunk) => "usage" in Object(chunk)), false);

  const stream_options = { include_usage: true };
  const counted = await data(await post(handler, PATH, { ...BODY, stream: true, stream_options }));
  assertEquals(choices(counted), [...expected, [], "[DONE]"]);
  assertEquals(counted.slice(0, -1).map((chunk) => (chunk as { usage: unknown }).usage), [
    ...expected.map(() => null),
    {
      prompt_tokens: 10,
      completion_tokens: 2,
      total_tokens: 12,
      prompt_tokens_details: { cached_tokens: 5 },
    },
  ]);
});

Deno.test("chatCompletionsRoute() reports a failure by its status, and within a stream as an event", async () => {
  const slow = new ModelError("rate_limited", "Slow.", { retryAfterMs: 2_000 });
  const { model } = scriptedModel([slow, slow, { content: "Well.", ...echoCall("x") }, slow]);
  const handler = serve(routeOptions(model));
  for (const stream of [false, true]) {
    const response = await post(handler, PATH, { ...BODY, stream });
    assertEquals([response.status, response.headers.get("retry-after"), await response.json()], [429, "2", {
      error: { message: "Slow.", type: "requests", param: null, code: "rate_limit_exceeded" },
    }]);
  }
  const events = await data(await post(handler, PATH, { ...BODY, stream: true }));
  assertEquals(events.at(-1), {
    error: { message: "Slow.", type: "requests", param: null, code: "rate_limit_exceeded" },
  });
});

Deno.test("chatCompletionsRoute() reports the finish reason length after a limit", async () => {
  const { model } = scriptedModel([{ content: "Wait.", ...echoCall("x") }, { content: "a" }]);
  const response = await post(serve(routeOptions(model)), PATH, { ...BODY, max_tokens: 1 });
  const { choices } = await response.json();
  assertEquals([choices[0].finish_reason, choices[0].message.content], ["length", "Wait."]);
});

Deno.test("chatCompletionsRoute() cancels the turn if its client disconnects before the answer", async () => {
  const { model, requested } = silentModel();
  const controller = new AbortController();
  const answer = serve(routeOptions(model))(
    new Request(`http://localhost${PATH}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(BODY),
    }),
    controller,
  );
  await requested;
  controller.abort();
  const response = await answer;
  assertEquals([response.status, (await response.json()).error.code], [499, "cancelled"]);
});

Deno.test("chatCompletionsRoute() cancels the turn if its client leaves the stream, and resumes it on a retry", async () => {
  const stopped = Promise.withResolvers<void>();
  const { model: answering } = scriptedModel([{ content: "Whole." }]);
  let calls = 0;
  const model: Model = async function* (request) {
    if (calls++ > 0) return yield* answering(request);
    yield { type: "text_delta", text: "Half" };
    await new Promise((_, reject) =>
      request.signal.addEventListener("abort", () => reject(request.signal.reason))
    );
  };
  const options = routeOptions((request) => {
    request.signal.addEventListener("abort", () => stopped.resolve());
    return model(request);
  });
  const handler = serve(options);
  const body = { ...BODY, user: "ann" };
  const response = await post(handler, PATH, { ...body, stream: true });
  const session = await options.sessions.get(response.headers.get("tare-session")!);
  const reader = response.body!.getReader();
  await reader.read();
  await reader.cancel();
  await stopped.promise;
  await session.cancel();
  assertEquals(session.totals.turns, 1);
  const again = await post(handler, PATH, body);
  assertEquals(again.headers.get("tare-session"), session.id);
  assertEquals((await again.json()).choices[0].message.content, "Whole.");
});

Deno.test("chatCompletionsRoute() refuses other models and unsupported parameters", async () => {
  const handler = serve(routeOptions(scriptedModel([]).model));
  const refusal = async (body: object) => {
    const response = await post(handler, PATH, { ...BODY, ...body });
    const { error } = await response.json();
    return [response.status, error.param, error.code];
  };
  assertEquals(await refusal({ model: "gpt" }), [404, "model", "model_not_found"]);
  assertEquals(await refusal({ messages: [] }), [400, "messages", "invalid_request"]);
  assertEquals(await refusal({ response_format: { type: "json_object" } }), [
    400,
    "response_format",
    "unsupported_value",
  ]);
  const tool = { role: "tool", tool_call_id: "c", content: "" };
  assertEquals(await refusal({ messages: [tool] }), [400, "messages[0]", "invalid_request"]);
});

Deno.test("chatCompletionsRoute() recognizes a continued conversation", async () => {
  const { model, requests } = scriptedModel([{ content: "a" }, { content: "b" }]);
  const options = routeOptions(model);
  const response = await post(serve(options), PATH, { ...BODY, user: "ann", metadata: { of: "a test" } });
  const { choices } = await response.json();
  const turn = await continueConversation({
    dialogue: [...BODY.messages, choices[0].message, { role: "user", content: "More." }],
    instructions: "",
    user: "ann",
    metadata: {},
  }, options);
  assertEquals([(await readAnswer(turn)).text, requests[1]?.messages.length], ["b", 4]);
  assertEquals(turn.sessionId, response.headers.get("tare-session"));
  assertEquals((await options.sessions.get(turn.sessionId)).settings.metadata, { of: "a test" });
});

const PICK = { type: "function", function: { name: "pick", parameters: { type: "object" } } } as const;
const call = (id: string, name: string, args = "{}") =>
  ({ id, type: "function", function: { name, arguments: args } }) as const;

Deno.test("chatCompletionsRoute() returns the client's calls, whole and streamed, and continues with their results", async () => {
  const { model, requests } = scriptedModel([
    { content: "Pick.", tool_calls: [call("p1", "pick"), call("e1", "echo", '{"text":"x"}')] },
    { content: "Blue." },
    { tool_calls: [call("p1", "pick")] },
  ]);
  const handler = serve(routeOptions(model));
  const first = await post(handler, PATH, { ...BODY, tools: [PICK] });
  const { choices: [{ message, finish_reason }] } = await first.json();
  assertEquals([finish_reason, message], ["tool_calls", {
    role: "assistant",
    content: "Pick.",
    refusal: null,
    reasoning_content: 'echo {"text":"x"}\n',
    tool_calls: [call("p1", "pick")],
  }]);
  const result = { role: "tool", tool_call_id: "p1", content: "blue" };
  const messages = [...BODY.messages, message, result];
  const second = await post(handler, PATH, { model: "agent", messages, tools: [PICK] });
  assertEquals((await second.json()).choices[0].message.content, "Blue.");
  assertEquals(second.headers.get("tare-session"), first.headers.get("tare-session"));
  assertEquals(requests[1]?.messages.slice(2).map(({ role, content }) => [role, content]), [
    ["assistant", "Pick."],
    ["tool", "x"],
    ["tool", "blue"],
  ]);
  const chunks = await data(await post(handler, PATH, { ...BODY, tools: [PICK], stream: true }));
  assertEquals(chunks.map((chunk) => Object(chunk).choices?.[0]), [
    { index: 0, delta: { role: "assistant", content: "" }, finish_reason: null, logprobs: null },
    {
      index: 0,
      delta: { tool_calls: [{ index: 0, ...call("p1", "pick"), function: { name: "pick", arguments: "" } }] },
      finish_reason: null,
      logprobs: null,
    },
    {
      index: 0,
      delta: { tool_calls: [{ index: 0, function: { arguments: "{}" } }] },
      finish_reason: null,
      logprobs: null,
    },
    { index: 0, delta: {}, finish_reason: "tool_calls", logprobs: null },
    undefined,
  ]);
});

Deno.test("chatCompletionsRoute() forwards settings to the model and reports those that its provider refuses", async () => {
  const refusal = new ModelError("bad_request", "No seed.", { param: "seed" });
  const { model, requests } = scriptedModel([{ content: "a" }, refusal]);
  const handler = serve(routeOptions(model));
  const settings = {
    temperature: 0,
    top_p: 0.5,
    frequency_penalty: 1,
    presence_penalty: -1,
    seed: 7,
    reasoning_effort: "low",
    verbosity: "high",
    parallel_tool_calls: false,
  };
  await (await post(handler, PATH, { ...BODY, ...settings })).body?.cancel();
  assertEquals(requests[0]?.settings, settings);
  const response = await post(handler, PATH, { ...BODY, seed: 7, temperature: null });
  assertEquals([response.status, await response.json(), requests[1]?.settings], [400, {
    error: { message: "No seed.", type: "invalid_request_error", param: "seed", code: "unsupported_value" },
  }, { seed: 7 }]);
});

Deno.test("chatCompletionsRoute() answers a short request while it parses a long history", async () => {
  const { model, requests } = scriptedModel([{ content: "Fine." }, { content: "Fine." }]);
  const { promise: looking, resolve } = Promise.withResolvers<void>();
  const countTokens = (text: string) => {
    if (!text.startsWith("long")) return estimateTokens(text);
    // Sent while the history is parsed, which takes some hundred slices.
    setTimeout(resolve);
    const startMs = performance.now();
    while (performance.now() - startMs < 0.3) { /* Works. */ }
    return 10;
  };
  const handler = serve(routeOptions(model, { countTokens: () => Promise.resolve(countTokens) }));
  const long = Array.from({ length: 1_001 }, (_, at) => ({
    role: at % 2 === 0 ? "user" : "assistant",
    content: `long ${at}`,
  }));
  const answers = await Promise.all([
    post(handler, PATH, { model: "agent", messages: long }),
    looking.then(() => post(handler, PATH, BODY)),
  ]);
  for (const answer of answers) assertEquals([answer.status, (await answer.json()).model], [200, "agent"]);
  assertEquals(requests.map(({ messages }) => messages.length), [2, 1_002]);
});

Deno.test("chatCompletionsRoute() never repeats a reply that was interrupted", async () => {
  const model: Model = async function* ({ restarted }) {
    yield { type: "text_delta", text: "Hal" };
    if (!restarted) throw new ModelError("bad_response", "Cut.");
    yield { type: "completed", message: { role: "assistant", content: "Hello." }, finishReason: "stop" };
  };
  const streamed = await data(
    await post(serve(routeOptions(model)), PATH, { ...BODY, stream: true }),
  ) as { choices?: { delta: { content?: string } }[]; error?: { message: string } }[];
  assertEquals(streamed.flatMap(({ choices }) => choices?.[0]?.delta.content || []), ["Hal"]);
  assertEquals(streamed.flatMap(({ error }) => error?.message ?? []), ["Cut."]);
});
