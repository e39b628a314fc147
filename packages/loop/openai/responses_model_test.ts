import { assert, assertEquals } from "@std/assert";
import { ModelError, run } from "@tare/loop";
import type { Message } from "@tare/messages";
import type { OpenAI } from "openai";
import { openaiModel } from "@tare/loop/openai";
import { collect, outline, tool } from "../fixture_test.ts";
import { ask, completed, reply, sse, stream } from "../provider_fixture_test.ts";
import { refusedBy } from "../../../tests/refused.ts";

type Item = OpenAI.Responses.ResponseOutputItem;

const THOUGHT: Item = {
  id: "rs_1",
  type: "reasoning",
  summary: [{ type: "summary_text", text: "I look." }, { type: "summary_text", text: "Twice." }],
  encrypted_content: "gAAA1",
};
const CALLS: readonly Item[] = ["a", "b"].map((path, at) => ({
  id: `fc_${at}`,
  type: "function_call",
  status: "completed",
  call_id: `call_${at}`,
  name: "f",
  arguments: JSON.stringify({ path }),
}));
const textItem = (text: string, more: object = {}): Item => ({
  id: "msg_1",
  type: "message",
  role: "assistant",
  status: "completed",
  content: [{ type: "output_text", text, annotations: [] }],
  ...more,
});
const USAGE = {
  input_tokens: 90,
  input_tokens_details: { cached_tokens: 64 },
  output_tokens: 30,
  output_tokens_details: { reasoning_tokens: 21 },
  total_tokens: 120,
};

function end(output: readonly Item[], more: object = {}): unknown {
  const response = { object: "response", status: "completed", usage: USAGE, output, ...more };
  return { type: `response.${response.status}`, response };
}

function whole(items: readonly Item[], more: object = {}): Response {
  const done = items.map((item, output_index) => ({ type: "response.output_item.done", output_index, item }));
  return reply(
    { type: "response.created", response: { object: "response", status: "in_progress" } },
    ...done,
    end(items, more),
  );
}

const RESPONSES = { protocol: "responses", reasoning: "sealed" } as const;

Deno.test("openaiModel() streams a response: summaries, text and calls, and carries sealed reasoning", async () => {
  const [first, second] = CALLS;
  const added = (output_index: number, item: Item) => ({
    type: "response.output_item.added",
    output_index,
    item,
  });
  const delta = (type: string, output_index: number, delta: string) => ({
    type: `response.${type}.delta`,
    output_index,
    delta,
  });
  const items = [THOUGHT, textItem("I read both."), ...CALLS];
  const outcome = await ask(
    reply(
      { type: "response.created", response: { object: "response", status: "in_progress" } },
      added(0, { ...THOUGHT, summary: [] } as Item),
      { type: "response.reasoning_summary_part.added", output_index: 0, summary_index: 0 },
      delta("reasoning_summary_text", 0, "I "),
      delta("reasoning_summary_text", 0, "look."),
      { type: "response.reasoning_summary_part.added", output_index: 0, summary_index: 1 },
      delta("reasoning_summary_text", 0, "Twice."),
      added(1, textItem("")),
      delta("output_text", 1, "I read "),
      delta("output_text", 1, "both."),
      added(2, { ...first, arguments: "" } as Item),
      delta("function_call_arguments", 2, '{"path":"a"}'),
      added(3, { ...second, arguments: "" } as Item),
      delta("function_call_arguments", 3, '{"path":"b"}'),
      end(items),
    ),
    {
      ...RESPONSES,
      request: { settings: { reasoning_effort: "high", verbosity: "low" }, cacheKey: "c" },
      route: (key) => ({ fields: { prompt_cache_key: key }, headers: {} }),
    },
  );
  assertEquals(outcome.bodies, [{
    path: "/v1/responses",
    model: "m",
    input: [{ type: "message", role: "user", content: "Hi" }],
    store: false,
    text: { verbosity: "low" },
    reasoning: { summary: "auto", effort: "high" },
    include: ["reasoning.encrypted_content"],
    stream: true,
    prompt_cache_key: "c",
  }]);
  assertEquals(outcome.events, [
    { type: "reasoning_delta", text: "I " },
    { type: "reasoning_delta", text: "look." },
    { type: "reasoning_delta", text: "\n" },
    { type: "reasoning_delta", text: "Twice." },
    { type: "text_delta", text: "I read " },
    { type: "text_delta", text: "both." },
    { type: "tool_call_delta", index: 0, id: "call_0", name: "f" },
    { type: "tool_call_delta", index: 0, arguments: '{"path":"a"}' },
    { type: "tool_call_delta", index: 1, id: "call_1", name: "f" },
    { type: "tool_call_delta", index: 1, arguments: '{"path":"b"}' },
    {
      type: "completed",
      message: {
        role: "assistant",
        content: "I read both.",
        reasoning_content: "I look.\nTwice.",
        tool_calls: [
          { id: "call_0", type: "function", function: { name: "f", arguments: '{"path":"a"}' } },
          { id: "call_1", type: "function", function: { name: "f", arguments: '{"path":"b"}' } },
        ],
        carried: {
          tokens: 21,
          items: [
            { ...THOUGHT },
            { ...textItem("I read both.") },
            { id: "fc_0", type: "function_call", status: "completed", call_id: "call_0" },
            { id: "fc_1", type: "function_call", status: "completed", call_id: "call_1" },
          ],
          by: "responses 127.0.0.1 m",
        },
      },
      finishReason: "tool_calls",
      usage: { promptTokens: 90, cachedTokens: 64, outputTokens: 30, reasoningTokens: 21 },
    },
  ]);
});

Deno.test("openaiModel() runs a turn by responses, and returns each item unchanged", async () => {
  const bodies: { input: unknown[] }[] = [];
  const server = Deno.serve({ port: 0, onListen() {} }, async (request) => {
    const body = await request.json();
    bodies.push(body);
    const refused = refusedBy(new URL(request.url).pathname, body);
    if (refused) return refused;
    return bodies.length === 1
      ? whole([THOUGHT, ...CALLS])
      : whole([textItem("Done.", { phase: "final_answer" })]);
  });
  const model = openaiModel({ model: "m", baseURL: `http://127.0.0.1:${server.addr.port}/v1`, ...RESPONSES });
  const { events, result } = await collect(
    run({ model, tools: [tool("f", ({ path }) => String(path))], history: [], input: "Go" }),
  );
  await server.shutdown();
  assertEquals(outline(events).filter((line) => !/_delta|step/.test(line)), [
    "turn_start",
    "assistant_message",
    "tool_call call_0",
    "tool_call call_1",
    "tool_result call_0",
    "tool_result call_1",
    "assistant_message",
    "turn_end completed",
  ]);
  const input: OpenAI.Responses.ResponseInput = [
    { type: "message", role: "user", content: "Go" },
    THOUGHT as OpenAI.Responses.ResponseReasoningItem,
    ...CALLS as OpenAI.Responses.ResponseFunctionToolCall[],
    { type: "function_call_output", call_id: "call_0", output: "a" },
    { type: "function_call_output", call_id: "call_1", output: "b" },
  ];
  assertEquals(bodies[1]?.input, input);
  const last = result.messages.at(-1);
  assertEquals(last?.role === "assistant" && last.carried?.items, [
    { ...textItem("Done.", { phase: "final_answer" }) },
  ]);
});

Deno.test("openaiModel() converts other models' replies to items, and images and files", async () => {
  const messages = [
    { role: "system", content: "Be brief." },
    {
      role: "user",
      content: [
        { type: "text", text: "Look" },
        { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } },
        { type: "file", file: { filename: "a.pdf", file_data: "data:application/pdf;base64,BBBB" } },
      ],
    },
    {
      role: "assistant",
      content: "I call.",
      reasoning_content: "Another's.",
      tool_calls: [{ id: "1", type: "function", function: { name: "f", arguments: "{}" }, extra: "x" }],
      carried: { by: "messages host other", items: [{ type: "thinking", thinking: "t", signature: "s" }] },
    },
    { role: "tool", tool_call_id: "1", content: [{ type: "text", text: "one" }] },
    { role: "assistant", content: null, refusal: "No." },
  ] as Message[];
  const definition = { type: "function", function: { name: "f", parameters: { type: "object" } } } as const;
  const outcome = await ask(whole([textItem("ok")]), {
    protocol: "responses",
    request: {
      ...{ messages, tools: [definition] },
      settings: { tool_choice: { type: "function", function: { name: "f" } }, parallel_tool_calls: false },
    },
  });
  const input: OpenAI.Responses.ResponseInput = [
    { type: "message", role: "system", content: "Be brief." },
    {
      type: "message",
      role: "user",
      content: [
        { type: "input_text", text: "Look" },
        { type: "input_image", image_url: "data:image/png;base64,AAAA", detail: "auto" },
        { type: "input_file", filename: "a.pdf", file_data: "data:application/pdf;base64,BBBB" },
      ],
    },
    { type: "message", role: "assistant", content: "I call." },
    { type: "function_call", call_id: "1", name: "f", arguments: "{}" },
    { type: "function_call_output", call_id: "1", output: [{ type: "input_text", text: "one" }] },
    { type: "message", role: "assistant", content: "No." },
  ];
  assertEquals(outcome.bodies, [{
    path: "/v1/responses",
    model: "m",
    input,
    tools: [{ type: "function", name: "f", parameters: { type: "object", properties: {} }, strict: false }],
    store: false,
    tool_choice: { type: "function", name: "f" },
    parallel_tool_calls: false,
    stream: true,
  }]);
  // Without the parts that only the other model can read.
  assertEquals(completed(outcome).message, { role: "assistant", content: "ok" });
});

Deno.test("openaiModel() reads a refusal, a truncated reply, and one that isn't streamed", async () => {
  const refusal = { content: [{ type: "refusal", refusal: "I won't." }] };
  const refused = completed(await ask(whole([textItem("", refusal)]), RESPONSES));
  assertEquals([refused.message, refused.finishReason], [
    { role: "assistant", content: null, refusal: "I won't." },
    "stop",
  ]);
  const cut = (reason: string) => ({ status: "incomplete", incomplete_details: { reason } });
  const ending = async (items: readonly Item[], reason: string) => {
    const { message, finishReason } = completed(await ask(whole(items, cut(reason)), RESPONSES));
    return [message.content, message.carried?.items?.length, finishReason];
  };
  // Reasoning without a following item can't be returned.
  assertEquals(await ending([THOUGHT], "max_output_tokens"), [null, undefined, "length"]);
  assertEquals(await ending([THOUGHT, textItem("Hal")], "max_output_tokens"), ["Hal", 2, "length"]);
  assertEquals(await ending([textItem("Hal")], "content_filter"), ["Hal", undefined, "content_filter"]);

  const body = {
    object: "response",
    status: "completed",
    output: [THOUGHT, textItem("Whole.")],
    usage: USAGE,
    error: null,
  };
  const { message } = completed(await ask(Response.json(body), RESPONSES));
  assertEquals([message.content, message.carried?.items?.length], ["Whole.", 2]);
});

Deno.test("openaiModel() omits reasoning that can't be returned: neither sealed nor followed by an item", async () => {
  const { encrypted_content: _, ...unsealed } = THOUGHT as OpenAI.Responses.ResponseReasoningItem;
  const items = [unsealed as Item, textItem("Look."), ...CALLS];
  const { message } = completed(await ask(whole(items), { protocol: "responses" }));
  assertEquals([message.reasoning_content, message.tool_calls?.length], ["I look.\nTwice.", 2]);
  assertEquals(message.carried, { by: "responses 127.0.0.1 m" });
  const open = { ...unsealed, content: [{ type: "reasoning_text", text: "In the open." }] } as Item;
  const answered = completed(await ask(whole([open, ...CALLS]), { protocol: "responses" }));
  assertEquals(answered.message.carried?.items?.[0], { ...open });
});

Deno.test("openaiModel() reports errors of a response, before it and in its middle", async () => {
  const failing = async (answer: Response, settings: object = {}) => {
    const { error, events } = await ask(answer, { ...RESPONSES, request: { settings } });
    assert(error instanceof ModelError);
    return [error.code, error.message.replace(/^.*?: /, ""), error.param, events.length];
  };
  const failed = (code: string, message: string) =>
    reply({
      type: "response.failed",
      response: { object: "response", status: "failed", error: { code, message } },
    });
  assertEquals(await failing(failed("server_error", "Sorry.")), [
    "provider_error",
    "it failed (Sorry).",
    undefined,
    0,
  ]);
  assertEquals(await failing(failed("rate_limit_exceeded", "Slow down.")), [
    "rate_limited",
    "it reports an exceeded rate limit (429: Slow down).",
    undefined,
    0,
  ]);
  assertEquals(
    (await failing(failed("context_length_exceeded", "Your input exceeds the context window.")))[0],
    "prompt_too_long",
  );
  const partly = stream(
    sse({ type: "response.output_text.delta", output_index: 0, delta: "Hal" }),
    sse({ type: "error", code: "server_error", message: "Broken.", param: null }),
  );
  assertEquals(await failing(partly), ["provider_error", "it failed (Broken).", undefined, 1]);
  const half = stream(sse({ type: "response.output_text.delta", output_index: 0, delta: "Hal" }));
  assertEquals((await failing(half))[0], "bad_response");
  assertEquals(await failing(Response.json({ hello: "you" })), [
    "bad_response",
    "the response is not in the Responses format. Check the base URL and the server's protocols.",
    undefined,
    0,
  ]);
  const message = "Unsupported value: 'reasoning.effort' does not support 'huge' with this model.";
  const unsupported = Response.json({ error: { message } }, { status: 400 });
  assertEquals((await failing(unsupported, { reasoning_effort: "huge" })).slice(0, 3), [
    "bad_request",
    `it refused the request (400: ${message.slice(0, -1)}).`,
    "reasoning_effort",
  ]);
  assertEquals(await failing(whole([]), { seed: 1 }), [
    "bad_request",
    "the Responses format doesn't support seed.",
    "seed",
    0,
  ]);
});

Deno.test("openaiModel() sends portable parts to other models by chat completions", async () => {
  const messages: Message[] = [
    { role: "user", content: "Hi" },
    {
      role: "assistant",
      content: "Mine.",
      reasoning_content: "I think.",
      carried: { by: "chat 127.0.0.1 m" },
    },
    {
      role: "assistant",
      content: "Another's.",
      reasoning_content: "It thinks.",
      carried: { by: "responses 127.0.0.1 m", tokens: 3, items: [{ type: "reasoning" }] },
    },
    { role: "assistant", content: "Anybody's." },
  ];
  const asking = async (options: object) => {
    const { bodies } = await ask(reply({ choices: [{ delta: { content: "ok" }, finish_reason: "stop" }] }), {
      ...{ request: { messages } },
      ...options,
    });
    return (bodies[0]?.messages as Message[]).slice(1);
  };
  const mine = { role: "assistant", content: "Mine.", reasoning_content: "I think." };
  assertEquals(await asking({}), [
    mine,
    { role: "assistant", content: "Another's." },
    { role: "assistant", content: "Anybody's." },
  ] as Message[]);
  assertEquals(await asking({ reasoning: "some" }), [
    mine,
    { role: "assistant", content: "Another's.", reasoning_content: " " },
    { role: "assistant", content: "Anybody's.", reasoning_content: " " },
  ] as Message[]);
});
