import { assertEquals, assertRejects } from "@std/assert";
import OpenAI from "openai";
import { loadTokenizer } from "@tare/tiktoken";
import { countRequestTokens, type Message } from "@tare/messages";
import { type Fault, scripted, type Simulator, simulator, toolCall } from "@tare/simulator";

const tokenizer = await loadTokenizer();

async function withClient(provider: Simulator, use: (client: OpenAI) => Promise<void>): Promise<void> {
  const server = Deno.serve({ port: 0, onListen() {} }, provider.fetch);
  try {
    const baseURL = `http://127.0.0.1:${server.addr.port}/v1`;
    await use(new OpenAI({ baseURL, apiKey: "any", maxRetries: 0 }));
  } finally {
    await server.shutdown();
  }
}

const messages: { role: "user"; content: string }[] = [{ role: "user", content: "Hi" }];

function failing(...faults: readonly (Fault | null)[]): Simulator {
  return simulator({
    model: () => ({ content: "A text of three pieces, for it has more characters." }),
    tokenizer,
    faults,
  });
}

Deno.test("simulator() holds a conversation with npm:openai over HTTP, streamed and not", async () => {
  const provider = simulator({
    model: scripted([
      {
        content: "Let me look.",
        tool_calls: [toolCall("f", { path: "a" }), toolCall("g", { text: "x".repeat(100) })],
      },
      { content: "Both are there. 😀", reasoning_content: "Easy." },
    ]),
    tokenizer,
  });
  await withClient(provider, async (client) => {
    const system = { role: "system", content: "Be brief. ".repeat(600) } as const;
    const history: OpenAI.ChatCompletionMessageParam[] = [system, ...messages];
    const streamed = client.chat.completions.stream({
      model: "m",
      messages: history,
      stream_options: { include_usage: true },
    });
    const first = await streamed.finalChatCompletion();
    const calls = first.choices[0]?.message.tool_calls ?? [];
    assertEquals(first.choices[0]?.message.content, "Let me look.");
    assertEquals(first.choices[0]?.finish_reason, "tool_calls");
    assertEquals(
      calls.map((call) => call.type === "function" && [call.function.name, call.function.arguments]),
      [
        ["f", '{"path":"a"}'],
        ["g", `{"text":"${"x".repeat(100)}"}`],
      ],
    );
    assertEquals(
      first.usage?.prompt_tokens,
      countRequestTokens({ messages: history as Message[] }, tokenizer.count),
    );
    history.push(
      { role: "assistant", content: "Let me look.", tool_calls: calls },
      ...calls.map((call) => ({ role: "tool", tool_call_id: call.id, content: "there" } as const)),
    );
    const second = await client.chat.completions.create({ model: "m", messages: history });
    assertEquals(second.choices[0]?.message.content, "Both are there. 😀");
    const whole = Math.floor((first.usage?.prompt_tokens ?? 0) / 128) * 128;
    assertEquals(second.usage?.prompt_tokens_details?.cached_tokens, whole);
  });
});

Deno.test("simulator() holds a conversation over responses with npm:openai, including sealed reasoning", async () => {
  const provider = simulator({
    model: scripted([
      { content: "Let me look.", reasoning_content: "Hm.", tool_calls: [toolCall("f", { path: "a" })] },
      { content: "It is there. 😀", reasoning_content: "Easy." },
    ]),
    tokenizer,
  });
  await withClient(provider, async (client) => {
    const include: OpenAI.Responses.ResponseIncludable[] = ["reasoning.encrypted_content"];
    const request = { model: "m", store: false, include };
    const input: OpenAI.Responses.ResponseInput = [{ role: "user", content: "Is it there? ".repeat(600) }];
    const first = await client.responses.stream({ ...request, input })
      .finalResponse();
    assertEquals(first.output.map(({ type }) => type), ["reasoning", "message", "function_call"]);
    assertEquals(first.output_text, "Let me look.");
    const items = first.output as OpenAI.Responses.ResponseInput;
    const [thought, , call] = first.output;
    assertEquals(
      thought?.type === "reasoning" && [thought.summary[0]?.text, typeof thought.encrypted_content],
      [
        "Hm.",
        "string",
      ],
    );
    const results: OpenAI.Responses.ResponseInput = call?.type === "function_call"
      ? [{ type: "function_call_output", call_id: call.call_id, output: "yes" }]
      : [];
    const second = await client.responses.create({
      ...request,
      input: [...input, ...items, ...results],
    });
    assertEquals([second.status, second.output_text], ["completed", "It is there. 😀"]);
    const whole = Math.floor((first.usage?.input_tokens ?? 0) / 128) * 128;
    assertEquals(second.usage?.input_tokens_details.cached_tokens, whole);
    const torn = client.responses.create({
      ...request,
      input: [...input, ...items.slice(0, 1)],
    });
    await assertRejects(() => torn, OpenAI.BadRequestError, "without its required following item");
  });
});

Deno.test("simulator() fails with errors that npm:openai distinguishes", async () => {
  const provider = failing(
    { type: "rate_limit", retryAfterMs: 1500 },
    { type: "error", status: 401 },
    { type: "prompt_too_long" },
    { type: "error" },
  );
  await withClient(provider, async (client) => {
    const ask = () => client.chat.completions.create({ model: "m", messages });
    const limited = await assertRejects(ask, OpenAI.RateLimitError);
    assertEquals([limited.headers?.get("retry-after"), limited.code], ["2", "rate_limit_exceeded"]);
    await assertRejects(ask, OpenAI.AuthenticationError);
    assertEquals((await assertRejects(ask, OpenAI.BadRequestError)).code, "context_length_exceeded");
    await assertRejects(ask, OpenAI.InternalServerError);
    assertEquals((await ask()).choices[0]?.finish_reason, "stop");
    assertEquals((await client.models.list()).data.map((model) => model.id), ["simulated"]);
  });
});

Deno.test("simulator() is retried by npm:openai after the requested delay", async () => {
  const provider = failing(
    { type: "rate_limit", retryAfterMs: 1 },
    { type: "rate_limit", retryAfterMs: 1 },
    null,
  );
  await withClient(provider, async (client) => {
    const body = { model: "m", messages };
    assertEquals((await client.chat.completions.create(body, { maxRetries: 2 })).choices.length, 1);
    assertEquals(provider.requests.map((request) => request.status), [429, 429, 200]);
  });
});

Deno.test("simulator() interrupts and stalls streams that npm:openai reads", async () => {
  await withClient(
    failing({ type: "cut" }, { type: "stall" }, { type: "cut", quietly: true }),
    async (client) => {
      let text = "";
      const read = async (signal?: AbortSignal) => {
        text = "";
        const stream = await client.chat.completions.create({ model: "m", messages, stream: true }, {
          signal,
        });
        for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
      };
      const sent = "A text of three pieces, for it has more characte";
      await assertRejects(() => read(), TypeError);
      assertEquals(text, sent);

      const giveUp = new AbortController();
      const stalled = await client.chat.completions.create({ model: "m", messages, stream: true }, {
        signal: giveUp.signal,
      });
      text = "";
      for await (const chunk of stalled) {
        text += chunk.choices[0]?.delta.content ?? "";
        if (text === sent) giveUp.abort();
      }
      assertEquals(text, sent);

      await read();
      assertEquals(text, sent);
    },
  );
});

Deno.test("simulator() sends calls in odd pieces that npm:openai's stream helper still assembles", async () => {
  const call = toolCall("f", { text: "a 😀 and more than twenty-four characters" });
  for (const pieces of ["whole", "characters", "interleaved", "no_id"] as const) {
    const model = scripted([{ tool_calls: [call, call], fault: { type: "odd_tool_calls", pieces } }]);
    await withClient(simulator({ model, tokenizer }), async (client) => {
      const { choices } = await client.chat.completions.stream({ model: "m", messages })
        .finalChatCompletion();
      const seen = choices[0]?.message.tool_calls?.map((made) =>
        made.type === "function" && made.function.arguments
      );
      assertEquals(seen, [call.function.arguments, call.function.arguments], pieces);
    });
  }
});
