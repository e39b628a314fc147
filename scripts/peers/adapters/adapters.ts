import { SystemMessage } from "@langchain/core/messages";
import { type CallParams, tare as ofAiSdk, type TareOptions } from "@tare/adapters/ai-sdk";
import { tare as ofLangChain } from "@tare/adapters/langchain";
import { tare as ofMastra } from "@tare/adapters/mastra";
import { tare as ofAgents } from "@tare/adapters/openai-agents";
import type { Message, ToolDefinition, Usage } from "@tare/messages";
import { memoryArchive } from "@tare/prune";
import type { ModelMessage } from "ai";
import type { CallPolicyOptions, MakePolicy, PolicyView } from "@tare/simulator/economy";
import { fromItems, type Item, toItems } from "./agents_items.ts";
import { fromLangChain } from "../langchain_messages.ts";
import { State } from "../langchain_state.ts";
import { fromModelPrompt, toModelPrompt } from "../model_prompt.ts";

/** What each adapter of `@tare/adapters` makes of a session that its framework keeps, by the framework's name. */
export const ADAPTERS: Readonly<Record<string, MakePolicy>> = {
  "ai-sdk": adapted((options) => {
    const prompt: ModelMessage[] = [];
    let given: CallParams = { prompt };
    let answer: (params: CallParams) => Promise<object> = () =>
      Promise.reject(new Error("nothing was asked"));
    const { model } = ofAiSdk({
      model: {
        specificationVersion: "v4",
        modelId: "recorded",
        doGenerate: (params: CallParams) => answer(params),
        doStream: () => Promise.reject(new Error("Cannot stream: recorded calls are played whole")),
      },
      ...options,
    });
    return async ({ fresh, tools }, ask) => {
      prompt.push(...toModelPrompt(fresh));
      given = { prompt: [...prompt], tools: tools.map(flatTool) };
      answer = async (params) => {
        const { promptTokens, cachedTokens, outputTokens } = await ask({
          messages: fromModelPrompt(params.prompt as readonly ModelMessage[]),
          tools: params.tools === given.tools ? tools : (params.tools ?? []).map(nestedTool),
        });
        const inputTokens = { total: promptTokens, cacheRead: cachedTokens };
        return { usage: { inputTokens, outputTokens: { total: outputTokens } } };
      };
      await model.doGenerate(given);
    };
  }),
  langchain: adapted((options) => {
    const { wrapModelCall } = ofLangChain({ model: "recorded", ...options });
    const state = new State({ withSystem: true });
    const systemMessage = new SystemMessage("");
    return async ({ messages, tools }, ask) => {
      state.take(messages);
      const call = { model: {}, messages: [...state.messages], systemMessage, tools, runtime: {} };
      await wrapModelCall(call, async (shown) => {
        const usage = await ask({ messages: fromLangChain(shown.messages), tools });
        return {
          usage_metadata: {
            input_tokens: usage.promptTokens,
            output_tokens: usage.outputTokens,
            input_token_details: { cache_read: usage.cachedTokens },
          },
        };
      });
    };
  }),
  "openai-agents": adapted((options) => {
    const items: Item[] = [];
    let answer: (request: AgentsRequest) => Promise<object> = () =>
      Promise.reject(new Error("nothing was asked"));
    const { model } = ofAgents({
      model: {
        getResponse: (request: AgentsRequest) => answer(request),
        getStreamedResponse: () => {
          throw new Error("Cannot stream: recorded calls are played whole");
        },
      },
      ...options,
    });
    return async ({ fresh, tools }, ask) => {
      items.push(...toItems(fresh));
      answer = async ({ input, tools: shown }) => {
        const usage = await ask({ messages: fromItems(input), tools: shown.map(nestedTool) });
        return {
          usage: {
            inputTokens: usage.promptTokens,
            outputTokens: usage.outputTokens,
            inputTokensDetails: { cached_tokens: usage.cachedTokens },
          },
        };
      };
      await model.getResponse({ input: [...items], tools: tools.map(flatTool) });
    };
  }),
  mastra: adapted((options) => {
    const { processor } = ofMastra({ model: "recorded", ...options });
    const whole: ModelMessage[] = [];
    return async ({ fresh, tools }, ask) => {
      whole.push(...toModelPrompt(fresh));
      const state: Record<string, unknown> = {};
      processor.processInputStep({ tools: Object.fromEntries(tools.map(standardTool)), state });
      const { prompt } = await processor.processLLMRequest({
        prompt: [...whole],
        model: { modelId: "recorded" },
        state,
      });
      const { promptTokens, cachedTokens, outputTokens } = await ask({
        messages: fromModelPrompt(prompt),
        tools,
      });
      const usage = { inputTokens: promptTokens, cachedInputTokens: cachedTokens, outputTokens };
      const chunks = [{ type: "finish", payload: { output: { usage } } }];
      await processor.processLLMResponse({ chunks, state, fromCache: false });
    };
  }),
};

interface AgentsRequest {
  readonly input: readonly Item[];
  readonly tools: readonly FlatTool[];
}

/** The session up to a call, and what of it the framework hasn't been told yet. */
interface Turn {
  readonly messages: readonly Message[];
  readonly fresh: readonly Message[];
  readonly tools: readonly ToolDefinition[];
}

/** Makes one call as a framework does; `ask` is the model, which is handed what the adapter shows. */
type MakeCall = (turn: Turn, ask: (view: PolicyView) => Promise<Usage>) => Promise<void>;

/** A policy of an adapter: the framework's call waits for its reply until the benchmark tells the usage. */
function adapted(
  begin: (options: Omit<TareOptions<never>, "conversation">) => MakeCall,
): MakePolicy {
  return ({ profile, windowTokens, countTokens }: CallPolicyOptions) => {
    let nowMs = 0;
    let taken = 0;
    let running = Promise.resolve();
    let reply = (_usage: Usage) => {};
    const makeCall = begin({
      profile,
      windowTokens,
      countTokens,
      archive: memoryArchive(),
      now: () => nowMs,
      warn: (sentence) => {
        throw new Error(sentence);
      },
    });
    return {
      async view(call) {
        await running;
        nowMs = call.nowMs;
        const fresh = call.messages.slice(taken);
        taken = call.messages.length;
        const shown = Promise.withResolvers<PolicyView>();
        running = makeCall({ ...call, fresh }, (view) => {
          shown.resolve(view);
          const usage = Promise.withResolvers<Usage>();
          reply = usage.resolve;
          return usage.promise;
        });
        running.catch(shown.reject);
        return await shown.promise;
      },
      sent: (usage) => reply(usage),
    };
  };
}

interface FlatTool {
  readonly type: "function";
  readonly name: string;
  readonly description?: string;
  readonly inputSchema?: Readonly<Record<string, unknown>>;
  readonly parameters?: Readonly<Record<string, unknown>>;
}

/** A tool as the AI SDK and the OpenAI Agents SDK hand it to a model, which differ in the name of the schema. */
function flatTool({ function: { name, description = "", parameters = {} } }: ToolDefinition): FlatTool {
  return { type: "function", name, description, inputSchema: parameters, parameters };
}

function nestedTool(tool: { readonly name: string }): ToolDefinition {
  const { name, description = "", inputSchema, parameters } = tool as FlatTool;
  return { type: "function", function: { name, description, parameters: inputSchema ?? parameters ?? {} } };
}

function standardTool({ function: { name, description, parameters } }: ToolDefinition) {
  const inputSchema = { "~standard": { jsonSchema: { input: () => parameters } } };
  return [name, { description, inputSchema }] as const;
}
