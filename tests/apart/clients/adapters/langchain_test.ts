import { assert } from "@std/assert";
import {
  type BaseMessage,
  HumanMessage,
  mapChatMessagesToStoredMessages,
  mapStoredMessagesToChatMessages,
} from "@langchain/core/messages";
import { ChatOpenAI } from "@langchain/openai";
import { createAgent, createMiddleware, tool } from "langchain";
import { tare } from "@tare/adapters/langchain";
import type { Client } from "../../../gateway/compare.ts";
import { parametersOf, QUESTION, SYSTEM, TOOLS } from "../../../gateway/long_session.ts";
import {
  compareAdapted,
  jobsAdapted,
  type Options,
  type Player,
  recallAdapted,
  restartAdapted,
  threadsAdapted,
} from "./adapted_play.ts";

type Adapter = ReturnType<typeof tare>;

function adapt(_: Client, options: Options): Adapter {
  return tare({ model: "gpt-5", ...options });
}

function agentOf(
  { baseURL, fetch, run }: Client,
  useResponsesApi: boolean,
  adapter?: Adapter,
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
  const middleware = adapter ? [createMiddleware(adapter)] : [];
  return createAgent({ model, tools, systemPrompt: SYSTEM, middleware });
}

function plain(messages: readonly BaseMessage[]): unknown {
  return messages.map((message) => {
    const { id: _, lc_kwargs: __, usage_metadata: ___, response_metadata: ____, ...entry } = JSON.parse(
      JSON.stringify({ ...message }),
    );
    return entry;
  });
}

function player(useResponsesApi: boolean): Player<Adapter> {
  return {
    adapt,
    async play(client, { adapter, question }) {
      const agent = agentOf(client, useResponsesApi, adapter);
      const settings = { recursionLimit: 200 };
      const { messages } = await agent.invoke({ messages: [new HumanMessage(question)] }, settings);
      return { answer: messages.at(-1)?.text ?? "", history: plain(messages) };
    },
  };
}

for (const [kind, useResponsesApi] of Object.entries({ "chat completions": false, responses: true })) {
  Deno.test(`tare() for LangChain: an agent over ${kind} keeps the same history and costs less`, async () => {
    const saved = await compareAdapted(player(useResponsesApi));
    assert(saved > 0.1, `the adapter saved ${(100 * saved).toFixed(1)} %`);
  });
}

Deno.test("tare() for LangChain: an agent recalls evicted results", async () => {
  await recallAdapted(player(false));
});

Deno.test("tare() for LangChain: each of twelve equal jobs costs what the first does", async () => {
  await jobsAdapted(player(false));
});

Deno.test("tare() for LangChain: 50 concurrent threads share one adapter", async () => {
  await threadsAdapted(player(false));
});

Deno.test("tare() for LangChain: a session continues after a restart as if uninterrupted", async () => {
  await restartAdapted(async (client, { options, history, steps }) => {
    const adapter = adapt(client, options);
    let requestCount = 0;
    let left: BaseMessage[] | undefined;
    const until: Adapter = {
      ...adapter,
      wrapModelCall(call, handler) {
        if (requestCount++ < steps) return adapter.wrapModelCall(call, handler);
        // An adapter receives the agent's own messages.
        left = call.messages as readonly unknown[] as BaseMessage[];
        throw new Error("It is stopped here.");
      },
    };
    const stored = history as ReturnType<typeof mapChatMessagesToStoredMessages> | undefined;
    const messages = stored ? mapStoredMessagesToChatMessages(stored) : [new HumanMessage(QUESTION)];
    const done = await agentOf(client, false, until).invoke({ messages }, { recursionLimit: 200 })
      .catch((error: unknown) => {
        if (!left) throw error;
        return { messages: left };
      });
    return mapChatMessagesToStoredMessages(done.messages);
  });
});
