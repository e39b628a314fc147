import {
  type AIMessageChunk,
  type BaseMessage,
  HumanMessage,
  SystemMessage,
  ToolMessage,
} from "@langchain/core/messages";
import { ChatOpenAI } from "@langchain/openai";
import { type Client, compare } from "../../gateway/compare.ts";
import { DEFINITIONS, QUESTION, SYSTEM } from "../../gateway/long_session.ts";

function chatModel({ baseURL, fetch }: Client, useResponsesApi: boolean) {
  const configuration = { baseURL, fetch };
  return new ChatOpenAI({ model: "gpt-5", apiKey: "key", useResponsesApi, configuration, maxRetries: 0 })
    .bindTools([...DEFINITIONS]);
}

type BoundModel = ReturnType<typeof chatModel>;

async function invoke(model: BoundModel, messages: BaseMessage[]): Promise<AIMessageChunk> {
  return await model.invoke(messages);
}

async function stream(model: BoundModel, messages: BaseMessage[]): Promise<AIMessageChunk> {
  let whole: AIMessageChunk | undefined;
  for await (const chunk of await model.stream(messages)) whole = whole?.concat(chunk) ?? chunk;
  if (!whole) throw new Error("the model returned nothing");
  return whole;
}

async function loop(model: BoundModel, ask: typeof invoke, run: Client["run"]): Promise<string> {
  const messages: BaseMessage[] = [new SystemMessage(SYSTEM), new HumanMessage(QUESTION)];
  for (;;) {
    const message = await ask(model, messages);
    messages.push(message);
    if (!message.tool_calls?.length) return message.text;
    for (const { id = "", name, args } of message.tool_calls) {
      messages.push(new ToolMessage({ tool_call_id: id, content: run(name, args) }));
    }
  }
}

for (const [how, ask] of Object.entries({ "invoke()": invoke, "stream()": stream })) {
  for (const [kind, useResponsesApi] of Object.entries({ "chat completions": false, responses: true })) {
    Deno.test(`LangChain: ${how} over ${kind} costs less through the gateway and answers the same`, async () => {
      await compare(async (client) => await loop(chatModel(client, useResponsesApi), ask, client.run));
    });
  }
}
