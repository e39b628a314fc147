import { assert } from "@std/assert";
import {
  type BaseMessage,
  HumanMessage,
  mapChatMessagesToStoredMessages,
  mapStoredMessagesToChatMessages,
} from "@langchain/core/messages";
import { ChatOpenAI } from "@langchain/openai";
import { createAgent, createMiddleware, tool } from "langchain";
import { langchainAdapter } from "@tare/adapters/langchain";
import type { Client } from "../../gateway/compare.ts";
import { parametersOf, QUESTION, SYSTEM, TOOLS } from "../../gateway/long_session.ts";
import { compareAdapted, type Player, recallAdapted, restartAdapted } from "./adapted_play.ts";

function agentOf(
  { baseURL, fetch, run }: Client,
  useResponsesApi: boolean,
  adapter?: ReturnType<typeof langchainAdapter>,
) {
  const configuration = { baseURL, fetch };
  const model = new ChatOpenAI({
    model: "gpt-5",
    apiKey: "key",
    useResponsesApi,
    configuration,
    maxRetries: 0,
  });
  const tools = TOOLS.map((sessionTool) =>
    tool((args) => run(sessionTool.name, args), {
      name: sessionTool.name,
      description: sessionTool.description,
      schema: parametersOf(sessionTool),
    })
  );
  if (!adapter) return createAgent({ model, tools, systemPrompt: SYSTEM });
  const middleware = createMiddleware({
    name: "Tare",
    wrapModelCall: adapter.wrapModelCall,
    tools: [tool(adapter.recall.run, adapter.recall)],
  });
  return createAgent({ model, tools, systemPrompt: SYSTEM, middleware: [middleware] });
}

/** A history as JSON data, without what no two runs have in common. */
function plain(messages: readonly BaseMessage[]): unknown {
  return messages.map((message) => {
    const { id: _, lc_kwargs: __, usage_metadata: ___, response_metadata: ____, ...said } = JSON.parse(
      JSON.stringify({ ...message }),
    );
    return said;
  });
}

function player(useResponsesApi: boolean): Player {
  return async (client, adapting) => {
    const adapter = adapting && langchainAdapter(adapting.options);
    if (adapter) adapting.made(adapter);
    const agent = agentOf(client, useResponsesApi, adapter);
    const { messages } = await agent.invoke({ messages: [new HumanMessage(QUESTION)] }, {
      recursionLimit: 200,
    });
    return { answer: messages.at(-1)?.text ?? "", history: plain(messages) };
  };
}

for (const [kind, useResponsesApi] of Object.entries({ "chat completions": false, responses: true })) {
  Deno.test(`langchainAdapter(): an agent over ${kind} keeps the same history and costs less`, async () => {
    const saved = await compareAdapted(player(useResponsesApi));
    assert(saved > 0.1, `the adapter saved ${(100 * saved).toFixed(1)} %`);
  });
}

Deno.test("langchainAdapter(): an agent recalls what has left", async () => {
  await recallAdapted(player(false));
});

Deno.test("langchainAdapter() goes on after a restart as if nothing had happened", async () => {
  await restartAdapted(async (client, { options, history, steps }) => {
    const agent = agentOf(client, false, langchainAdapter(options));
    const stored = history as ReturnType<typeof mapChatMessagesToStoredMessages> | undefined;
    let messages: BaseMessage[] = stored
      ? mapStoredMessagesToChatMessages(stored)
      : [new HumanMessage(QUESTION)];
    const stream = await agent.stream({ messages }, { streamMode: "values", recursionLimit: 200 });
    let taken = 0;
    for await (const state of stream) {
      messages = state.messages;
      // Each step is the model's message and its results.
      if (messages.at(-1)?.type === "tool" && ++taken >= steps) break;
    }
    return mapChatMessagesToStoredMessages(messages);
  });
});
