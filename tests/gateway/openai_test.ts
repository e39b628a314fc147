import OpenAI from "openai";
import { compare } from "./compare.ts";
import { DEFINITIONS, parametersOf, QUESTION, SYSTEM, TOOLS } from "./long_session.ts";

const MODEL = "gpt-5";

type ChatMessages = OpenAI.ChatCompletionMessageParam[];

function chatStart(): ChatMessages {
  return [{ role: "system", content: SYSTEM }, { role: "user", content: QUESTION }];
}

const chatTools = DEFINITIONS as OpenAI.ChatCompletionFunctionTool[];

/** Goes on until the model calls no more tools; gives its last text. */
async function chatLoop(
  ask: (messages: ChatMessages) => Promise<OpenAI.ChatCompletionMessage>,
  run: (name: string, args: unknown) => string,
): Promise<string> {
  const messages = chatStart();
  for (;;) {
    const message = await ask(messages);
    messages.push(message);
    if (!message.tool_calls) return message.content ?? "";
    for (const call of message.tool_calls) {
      if (call.type !== "function") throw new Error(`unexpected call of type ${call.type}`);
      const content = run(call.function.name, call.function.arguments);
      messages.push({ role: "tool", tool_call_id: call.id, content });
    }
  }
}

Deno.test("openai: chat.completions.create() costs less through the gateway and answers the same", async () => {
  await compare(async ({ run, ...options }) => {
    const client = new OpenAI({ ...options, apiKey: "key" });
    return await chatLoop(async (messages) => {
      const body = { model: MODEL, messages, tools: chatTools };
      const { choices: [choice] } = await client.chat.completions.create(body);
      return choice!.message;
    }, run);
  });
});

Deno.test("openai: chat.completions.stream() costs less through the gateway and answers the same", async () => {
  await compare(async ({ run, ...options }) => {
    const client = new OpenAI({ ...options, apiKey: "key" });
    return await chatLoop(async (messages) => {
      const stream = client.chat.completions.stream({ model: MODEL, messages, tools: chatTools });
      const { content, refusal, tool_calls } = await stream.finalMessage();
      return { role: "assistant", content, refusal, ...(tool_calls && { tool_calls }) };
    }, run);
  });
});

Deno.test("openai: chat.completions.runTools() costs less through the gateway and answers the same", async () => {
  await compare(async ({ run, ...options }) => {
    const client = new OpenAI({ ...options, apiKey: "key" });
    const runner = client.chat.completions.runTools({
      model: MODEL,
      messages: chatStart(),
      tools: TOOLS.map((tool) => ({
        type: "function" as const,
        function: {
          name: tool.name,
          description: tool.description,
          parameters: parametersOf(tool),
          function: (args: string) => run(tool.name, args),
        },
      })),
    }, { maxChatCompletions: 100 });
    return await runner.finalContent() ?? "";
  });
});

const responsesTools: OpenAI.Responses.FunctionTool[] = TOOLS.map((tool) => ({
  type: "function",
  name: tool.name,
  description: tool.description,
  parameters: parametersOf(tool),
  strict: true,
}));

/** The results of a response's calls. */
function outputs(response: OpenAI.Responses.Response, run: (name: string, args: unknown) => string) {
  return response.output.flatMap((item): OpenAI.Responses.ResponseInputItem.FunctionCallOutput[] =>
    item.type === "function_call"
      ? [{ type: "function_call_output", call_id: item.call_id, output: run(item.name, item.arguments) }]
      : []
  );
}

async function responsesLoop(
  ask: (input: OpenAI.Responses.ResponseInput) => Promise<OpenAI.Responses.Response>,
  run: (name: string, args: unknown) => string,
): Promise<string> {
  const input: OpenAI.Responses.ResponseInput = [{ role: "user", content: QUESTION }];
  for (;;) {
    const response = await ask(input);
    const results = outputs(response, run);
    if (results.length === 0) return response.output_text;
    input.push(...response.output as OpenAI.Responses.ResponseInput, ...results);
  }
}

Deno.test("openai: responses.create() costs less through the gateway and answers the same", async () => {
  await compare(async ({ run, ...options }) => {
    const client = new OpenAI({ ...options, apiKey: "key" });
    const fixed = { model: MODEL, instructions: SYSTEM, tools: responsesTools, store: false };
    return await responsesLoop((input) => client.responses.create({ ...fixed, input }), run);
  });
});

Deno.test("openai: responses.stream() costs less through the gateway and answers the same", async () => {
  await compare(async ({ run, ...options }) => {
    const client = new OpenAI({ ...options, apiKey: "key" });
    const fixed = { model: MODEL, instructions: SYSTEM, tools: responsesTools, store: false };
    return await responsesLoop(async (input) => {
      const response = await client.responses.stream({ ...fixed, input }).finalResponse();
      // What the client's helper adds to items, the API refuses.
      const output = response.output.map((item) => {
        const { parsed_arguments: _, ...plain } = item as typeof item & { parsed_arguments?: unknown };
        return plain as typeof item;
      });
      return { ...response, output };
    }, run);
  });
});
