import { assertEquals, assertRejects } from "@std/assert";
import { contentText } from "@tare/messages";
import OpenAI from "openai";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, isStepCount, jsonSchema, streamText, tool } from "ai";
import {
  echoCall,
  routeOptions,
  scriptedModel,
  serve,
} from "../../../packages/server/as_model/fixture_test.ts";

const PARAMETERS = {
  type: "object" as const,
  properties: { of: { type: "string" as const } },
  required: ["of"],
};

const pickCall = (id: string) => ({
  id,
  type: "function" as const,
  function: { name: "pick", arguments: '{ "of": "colors" }' },
});

const REPLIES = [
  { content: "I look.", ...echoCall("one") },
  {
    content: "And ask.",
    tool_calls: [pickCall("p1"), ...echoCall("two").tool_calls!.map((call) => ({ ...call, id: "c2" }))],
  },
  { tool_calls: [pickCall("p2")] },
  { content: "Blue and blue." },
];

const VISIBLE = ["s:", "u: Pick.", "a:1", "t: one", "a:2", "t: two", "t: blue", "a:1", "t: blue"];

interface Server {
  readonly baseURL: string;
  readonly client: OpenAI;
  readonly visible: () => string[];
  readonly sessions: () => Promise<number>;
}

async function withServer(use: (server: Server) => Promise<void>): Promise<void> {
  const { model, requests } = scriptedModel(REPLIES);
  const options = routeOptions(model);
  const answer = serve(options);
  const server = Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen() {} },
    (request) => answer(request, { signal: request.signal }),
  );
  const baseURL = `http://127.0.0.1:${server.addr.port}/v1`;
  try {
    await use({
      baseURL,
      client: new OpenAI({ baseURL, apiKey: "any" }),
      visible: () =>
        requests.at(-1)!.messages.map((message) => {
          if (message.role === "assistant") return `a:${message.tool_calls?.length}`;
          return message.role === "system" ? "s:" : `${message.role[0]}: ${contentText(message.content)}`;
        }),
      sessions: () => options.store.countSessions(),
    });
    assertEquals(requests.length, REPLIES.length);
    for (const { tools } of requests) {
      assertEquals(tools.map(({ function: { name } }) => name).includes("pick"), true);
    }
  } finally {
    await server.shutdown();
  }
}

Deno.test("openai: chat.completions.runTools() runs the client's tools, and the agent its own, in one session", async () => {
  await withServer(async ({ client, visible, sessions }) => {
    const picked: unknown[] = [];
    const runner = client.chat.completions.runTools({
      model: "agent",
      messages: [{ role: "user", content: "Pick." }],
      tools: [{
        type: "function",
        function: {
          name: "pick",
          description: "Asks the person.",
          parameters: PARAMETERS,
          parse: JSON.parse,
          function: ({ of }: { of: string }) => {
            picked.push(of);
            return "blue";
          },
        },
      }],
    });
    assertEquals([await runner.finalContent(), picked], ["Blue and blue.", ["colors", "colors"]]);
    assertEquals([visible(), await sessions()], [VISIBLE, 1]);
  });
});

const TOOL = { type: "function", function: { name: "pick", parameters: PARAMETERS } } as const;

Deno.test("openai: chat.completions.stream() assembles the client's calls", async () => {
  await withServer(async ({ client, visible, sessions }) => {
    const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: "Pick." }];
    const finishes: unknown[] = [];
    for (;;) {
      const stream = client.chat.completions.stream({ model: "agent", messages, tools: [TOOL] });
      const { choices: [choice] } = await stream.finalChatCompletion();
      const { content, tool_calls = [] } = choice!.message;
      finishes.push(choice!.finish_reason);
      messages.push({ role: "assistant", content, ...(tool_calls.length > 0 && { tool_calls }) });
      for (const { id } of tool_calls) messages.push({ role: "tool", tool_call_id: id, content: "blue" });
      if (tool_calls.length === 0) break;
    }
    assertEquals(finishes, ["tool_calls", "tool_calls", "stop"]);
    assertEquals([visible(), await sessions()], [VISIBLE, 1]);
  });
});

const FUNCTION = { type: "function", name: "pick", parameters: PARAMETERS, strict: false } as const;

function results({ output }: OpenAI.Responses.Response): OpenAI.Responses.ResponseInputItem[] {
  return output.flatMap((item: OpenAI.Responses.ResponseOutputItem) =>
    item.type === "function_call"
      ? [{ type: "function_call_output" as const, call_id: item.call_id, output: "blue" }]
      : []
  );
}

Deno.test("openai: responses.create() with previous_response_id continues with the results of the client's calls", async () => {
  await withServer(async ({ client, visible, sessions }) => {
    const body = { model: "agent", tools: [FUNCTION] };
    let response = await client.responses.create({ ...body, input: "Pick." });
    for (let input = results(response); input.length > 0; input = results(response)) {
      response = await client.responses.create({ ...body, input, previous_response_id: response.id });
    }
    assertEquals([response.output_text, visible(), await sessions()], ["Blue and blue.", VISIBLE, 1]);
  });
});

Deno.test("openai: responses.stream() with the whole conversation continues the same session", async () => {
  await withServer(async ({ client, visible, sessions }) => {
    const input: OpenAI.Responses.ResponseInputItem[] = [{ role: "user", content: "Pick." }];
    for (;;) {
      const response = await client.responses.stream({
        model: "agent",
        tools: [FUNCTION],
        store: false,
        input,
      })
        .finalResponse();
      input.push(...response.output as OpenAI.Responses.ResponseInputItem[], ...results(response));
      if (results(response).length === 0) break;
    }
    assertEquals([visible(), await sessions()], [VISIBLE, 1]);
  });
});

Deno.test("openai: responses.inputItems.list() and responses.delete() work on stored responses", async () => {
  const { model } = scriptedModel([{ content: "a" }]);
  const answer = serve(routeOptions(model));
  const server = Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen() {} },
    (request) => answer(request, { signal: request.signal }),
  );
  const client = new OpenAI({ baseURL: `http://127.0.0.1:${server.addr.port}/v1`, apiKey: "any" });
  try {
    const { id } = await client.responses.create({ model: "agent", input: "Hi." });
    const texts: unknown[] = [];
    for await (const item of client.responses.inputItems.list(id)) {
      if (item.type === "message") {
        texts.push(item.content.map((part) => part.type === "input_text" && part.text));
      }
    }
    assertEquals(texts, [["Hi."]]);
    await client.responses.delete(id);
    await assertRejects(() => client.responses.retrieve(id), OpenAI.NotFoundError);
    assertEquals((await client.models.retrieve("agent")).id, "agent");
  } finally {
    await server.shutdown();
  }
});

Deno.test("AI SDK: generateText() and streamText() run the client's tools, over both protocols", async () => {
  const providers = [
    (baseURL: string) => createOpenAICompatible({ name: "tare", baseURL, apiKey: "any" })("agent"),
    (baseURL: string) => createOpenAI({ baseURL, apiKey: "any" }).responses("agent"),
  ];
  const ask = {
    prompt: "Pick.",
    stopWhen: isStepCount(5),
    tools: {
      pick: tool({
        description: "Asks the person.",
        inputSchema: jsonSchema<{ of: string }>(PARAMETERS),
        execute: () => Promise.resolve("blue"),
      }),
    },
  };
  for (const provider of providers) {
    await withServer(async ({ baseURL, visible, sessions }) => {
      const { text } = await generateText({ model: provider(baseURL), ...ask });
      assertEquals([text, visible(), await sessions()], ["Blue and blue.", VISIBLE, 1]);
    });
    await withServer(async ({ baseURL, visible, sessions }) => {
      assertEquals(await streamText({ model: provider(baseURL), ...ask }).text, "Blue and blue.");
      assertEquals([visible(), await sessions()], [VISIBLE, 1]);
    });
  }
});
