import OpenAI from "openai";
import type { Client } from "../../gateway/compare.ts";
import { DEFINITIONS, parametersOf, QUESTION, SYSTEM, TOOLS } from "../../gateway/long_session.ts";

const MODEL = "gpt-5";

type ChatMessages = OpenAI.ChatCompletionMessageParam[];
type Run = Client["run"];

function chatStart(): ChatMessages {
  return [{ role: "system", content: SYSTEM }, { role: "user", content: QUESTION }];
}

const chatTools = DEFINITIONS as OpenAI.ChatCompletionFunctionTool[];

/** Runs the model until it calls no more tools; returns its last text. */
async function chatLoop(
  ask: (messages: ChatMessages) => Promise<OpenAI.ChatCompletionMessage>,
  run: Run,
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

const responsesTools: OpenAI.Responses.FunctionTool[] = TOOLS.map((tool) => ({
  type: "function",
  name: tool.name,
  description: tool.description,
  parameters: parametersOf(tool),
  strict: true,
}));

const responsesFields = { model: MODEL, instructions: SYSTEM, tools: responsesTools };

function results({ output }: OpenAI.Responses.Response, run: Run): OpenAI.Responses.ResponseInput {
  return output.flatMap((item: OpenAI.Responses.ResponseOutputItem) =>
    item.type === "function_call"
      ? [{
        type: "function_call_output" as const,
        call_id: item.call_id,
        output: run(item.name, item.arguments),
      }]
      : []
  );
}

async function responsesLoop(
  ask: (input: OpenAI.Responses.ResponseInput) => Promise<OpenAI.Responses.Response>,
  run: Run,
): Promise<string> {
  const input: OpenAI.Responses.ResponseInput = [{ role: "user", content: QUESTION }];
  for (;;) {
    const response = await ask(input);
    const added = results(response, run);
    if (added.length === 0) return response.output_text;
    input.push(...response.output as OpenAI.Responses.ResponseInput, ...added);
  }
}

function connect({ baseURL, fetch }: Client): OpenAI {
  return new OpenAI({ baseURL, fetch, apiKey: "key" });
}

export type Player = (client: Client) => Promise<string>;

export const playChat: Player = async (client) => {
  const openai = connect(client);
  return await chatLoop(async (messages) => {
    const body = { model: MODEL, messages, tools: chatTools };
    const { choices: [choice] } = await openai.chat.completions.create(body);
    return choice!.message;
  }, client.run);
};

export const streamChat: Player = async (client) => {
  const openai = connect(client);
  return await chatLoop(async (messages) => {
    const stream = openai.chat.completions.stream({ model: MODEL, messages, tools: chatTools });
    const { content, refusal, tool_calls } = await stream.finalMessage();
    return { role: "assistant", content, refusal, ...(tool_calls && { tool_calls }) };
  }, client.run);
};

export const runTools: Player = async (client) => {
  const runner = connect(client).chat.completions.runTools({
    model: MODEL,
    messages: chatStart(),
    tools: TOOLS.map((tool) => ({
      type: "function" as const,
      function: {
        name: tool.name,
        description: tool.description,
        parameters: parametersOf(tool),
        function: (args: string) => client.run(tool.name, args),
      },
    })),
  }, { maxChatCompletions: 100 });
  return await runner.finalContent() ?? "";
};

export const playResponses: Player = async (client) => {
  const openai = connect(client);
  return await responsesLoop(
    (input) => openai.responses.create({ ...responsesFields, store: false, input }),
    client.run,
  );
};

export const streamResponses: Player = async (client) => {
  const openai = connect(client);
  return await responsesLoop(async (input) => {
    const response = await openai.responses.stream({ ...responsesFields, store: false, input })
      .finalResponse();
    // The API refuses fields that the package adds to items.
    const output = response.output.map((item: OpenAI.Responses.ResponseOutputItem) => {
      const { parsed_arguments: _, ...plain } = item as typeof item & { parsed_arguments?: unknown };
      return plain as typeof item;
    });
    return { ...response, output };
  }, client.run);
};

/** Plays with stored responses: only new items are sent. */
export const continueResponses: Player = async (client) => {
  const openai = connect(client);
  let response = await openai.responses.create({ ...responsesFields, input: QUESTION });
  for (;;) {
    const input = results(response, client.run);
    if (input.length === 0) return response.output_text;
    response = await openai.responses.create({
      ...responsesFields,
      input,
      previous_response_id: response.id,
    });
  }
};
