/**
 * Tare for Mastra's agents: an input processor. Memory stores the whole history; the model receives only what it still
 * needs.
 *
 * @example
 * ```ts ignore
 * import { Agent } from "@mastra/core/agent";
 * import { tare } from "@tare/adapters/mastra";
 *
 * const lean = tare({ model: "gpt-5.5" });
 * const agent = new Agent({
 *   id: "reviewer",
 *   name: "Reviewer",
 *   instructions,
 *   model,
 *   tools: { ...tools, ...lean.tools },
 *   inputProcessors: [lean.processor],
 *   errorProcessors: [lean.processor],
 * });
 * ```
 *
 * @module
 */
import type { JsonSchema, ToolDefinition, Usage } from "@tare/messages";
import { AdaptedConversations, type AdaptedView } from "./adapted_conversations.ts";
import {
  type FrameworkRecallTool,
  PROMPT_READER,
  type PromptMessage,
  standardRecallTool,
  withBreakpoints,
  writePrompt,
} from "./model_prompt.ts";
import { type AdapterLedger, type TareOptions, withDefaults } from "./options.ts";

/** Parameters of a Mastra processor that are read here. */
export interface MastraCall<PromptItem extends PromptMessage = PromptMessage> {
  readonly prompt: readonly PromptItem[];
  readonly model: { readonly modelId: string };
  /** State of a step, the same object in all calls of one processor. */
  readonly state: Record<string, unknown>;
  /** Contains the memory's thread, which names the conversation. */
  readonly requestContext?: { get(key: string): unknown } | undefined;
}

/** A processor of Mastra's agents. */
export interface MastraProcessor {
  readonly id: "tare";
  /** Records the tools; changes nothing. */
  processInputStep(step: {
    readonly tools?: Readonly<Record<string, unknown>> | undefined;
    readonly state: Record<string, unknown>;
  }): undefined;
  /** Replaces the prompt by the view. */
  processLLMRequest<PromptItem extends PromptMessage>(
    request: MastraCall<PromptItem>,
  ): Promise<{ prompt: PromptItem[] }>;
  processLLMResponse(response: {
    readonly chunks: readonly { readonly type: string; readonly payload: unknown }[];
    readonly state: Record<string, unknown>;
    /** Whether the model wasn't called. */
    readonly fromCache: boolean;
  }): Promise<undefined>;
  /** Requests a retry of a step whose prompt was rejected as too long. */
  processAPIError(failure: {
    readonly error: unknown;
    readonly state: Record<string, unknown>;
    readonly retryCount: number;
  }): Promise<{ retry: boolean }>;
}

/** Options of the adapter. */
export interface MastraOptions extends TareOptions<MastraCall> {
  /** Model, or its name. */
  readonly model: string | object;
}

/** Parts of the adapter for a Mastra agent. */
export interface MastraAdapter extends AdapterLedger {
  /** Processor for an agent's `inputProcessors` and `errorProcessors`. */
  readonly processor: MastraProcessor;
  /** Tools to add. Without them evicted content can't be recalled. */
  readonly tools: { readonly recall: FrameworkRecallTool & { readonly id: "recall" } };
}

type Chunks = Parameters<MastraProcessor["processLLMResponse"]>[0]["chunks"];

const TOOLS = "tools";
const MADE = "made";

const MAX_RETRIES = 1;

/**
 * Returns an adapter of a model, for all Mastra conversations of a process. Tool schemas are never shortened, because Mastra
 * converts them after its processors.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { tare } from "@tare/adapters/mastra";
 *
 * const { processor, total } = tare({ model: "gpt-5.5" });
 * const prompt = [{ role: "user", content: [{ type: "text", text: "Hello." }] }];
 * const planned = await processor.processLLMRequest({ prompt, model: { modelId: "gpt-5.5" }, state: {} });
 * // Nothing was evicted, and the call isn't recorded before its reply.
 * assertEquals([planned.prompt, total.calls], [prompt, 0]);
 * ```
 *
 * @throws {TypeError} if an option is invalid; from the processor, if a message has an unknown role.
 */
function ofMastra({ model, ...options }: MastraOptions): MastraAdapter {
  const conversations = new AdaptedConversations<PromptMessage, MastraCall>(model, {
    ...options,
    planning: { ...options.planning, mechanisms: { ...options.planning?.mechanisms, schemas: false } },
    reader: PROMPT_READER,
  });
  const { profile } = withDefaults(model, options);
  const { conversation: nameOf = threadOf } = options;
  const recall = standardRecallTool(conversations);
  return {
    get ledger() {
      return conversations.ledger;
    },
    get total() {
      return conversations.total;
    },
    processor: {
      id: "tare",
      processInputStep({ tools = {}, state }) {
        state[TOOLS] = Object.entries(tools).map(readTool);
        return undefined;
      },
      async processLLMRequest(request) {
        const { prompt, model, state } = request;
        const made = await conversations.view({
          given: prompt,
          tools: (state[TOOLS] ?? []) as readonly ToolDefinition[],
          name: nameOf(request),
          model: model.modelId,
        });
        state[MADE] = made;
        const written = writePrompt(prompt, made);
        const marked = await withBreakpoints(written.prompt, {
          ...written,
          ...made,
          profile,
          tools: [],
          call: {},
        });
        return { prompt: [...marked] as (typeof prompt)[number][] };
      },
      async processLLMResponse({ chunks, state, fromCache }) {
        const { [MADE]: made } = state as { readonly [MADE]?: AdaptedView };
        if (made && !fromCache) await made.record(readUsage(chunks), callsOf(chunks));
        return undefined;
      },
      async processAPIError({ error, state, retryCount }) {
        const { [MADE]: made } = state as { readonly [MADE]?: AdaptedView };
        return { retry: await made?.failed(error) === true && retryCount < MAX_RETRIES };
      },
    },
    tools: {
      recall: {
        id: "recall",
        ...recall,
        execute: (input, call) => {
          const { agent } = Object(call) as { readonly agent?: { readonly toolCallId?: string } };
          return recall.execute(
            input,
            agent?.toolCallId === undefined ? call : { toolCallId: agent.toolCallId },
          );
        },
      },
    },
  };
}

function threadOf({ requestContext }: MastraCall): string | undefined {
  const { thread } = Object(requestContext?.get("MastraMemory")) as {
    readonly thread?: { readonly id?: unknown };
  };
  return typeof thread?.id === "string" ? thread.id : undefined;
}

function callsOf(chunks: Chunks): string[] {
  return chunks.flatMap(({ type, payload }) =>
    type === "tool-call" ? (payload as { readonly toolCallId: string }).toolCallId : []
  );
}

/** Returns a tool's definition; without parameters if it has no Standard JSON Schema. */
function readTool([name, tool]: readonly [string, unknown]): ToolDefinition {
  const { description, inputSchema } = tool as {
    readonly description?: string;
    readonly inputSchema?: {
      readonly "~standard"?: { readonly jsonSchema?: { input(how: { target: string }): JsonSchema } };
    };
  };
  const parameters = inputSchema?.["~standard"]?.jsonSchema?.input({ target: "draft-07" });
  return {
    type: "function",
    function: { name, ...(description !== undefined && { description }), ...(parameters && { parameters }) },
  };
}

interface StepFinish {
  readonly output?: {
    readonly usage?: {
      readonly inputTokens?: number;
      readonly cachedInputTokens?: number;
      readonly outputTokens?: number;
    };
  };
}

function readUsage(
  chunks: Chunks,
): Usage | undefined {
  const finish = chunks.findLast(({ type }) => type === "finish" || type === "step-finish");
  const { inputTokens, cachedInputTokens = 0, outputTokens = 0 } = (finish?.payload as StepFinish | undefined)
    ?.output?.usage ?? {};
  if (inputTokens === undefined || !Number.isFinite(inputTokens)) return undefined;
  return { promptTokens: inputTokens, cachedTokens: cachedInputTokens, outputTokens };
}

export { ofMastra as tare };
