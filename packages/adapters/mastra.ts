/**
 * Tare for Mastra's agents: an input processor. Memory keeps the whole history; the model gets what of it it still needs.
 *
 * README.md shows it in use.
 *
 * @module
 */
import type { JsonSchema, ToolDefinition, Usage } from "@tare/messages";
import type { SessionView } from "@tare/planner";
import { AdaptedSession, type Adapter, type AdapterOptions } from "./adapted_session.ts";
import { type PromptMessage, readPrompt, type RecallTool, recallTool, writePrompt } from "./model_prompt.ts";

export type { Adapter, AdapterOptions } from "./adapted_session.ts";
export type { PromptMessage, PromptPart, RecallTool } from "./model_prompt.ts";

/** What a processor is handed before a step, as far as it is read here. */
export interface InputStep {
  readonly tools?: Readonly<Record<string, unknown>> | undefined;
  /** Is the same object in all calls of one processor for one step. */
  readonly state: Record<string, unknown>;
}

/** What a processor is handed before a request, as far as it is read here. */
export interface LlmRequest<PromptItem extends PromptMessage = PromptMessage> {
  readonly prompt: readonly PromptItem[];
  readonly model: { readonly modelId: string };
  readonly state: Record<string, unknown>;
}

/** What a processor is handed after a reply, as far as it is read here. */
export interface LlmResponse {
  readonly chunks: readonly { readonly type: string; readonly payload: unknown }[];
  readonly state: Record<string, unknown>;
  /** Whether nobody was asked. */
  readonly fromCache: boolean;
}

/** A processor, for `inputProcessors` of an agent. It must be the last of those that change the prompt. */
export interface TareProcessor {
  /** Always `tare`. */
  readonly id: "tare";
  /** Takes note of the tools; changes nothing. */
  processInputStep(step: InputStep): undefined;
  /** Puts what the model still needs in place of the prompt. */
  processLLMRequest<PromptItem extends PromptMessage>(
    request: LlmRequest<PromptItem>,
  ): Promise<{ prompt: PromptItem[] }>;
  /** Books what a call took. */
  processLLMResponse(response: LlmResponse): Promise<undefined>;
}

/** The recall tool as Mastra's `createTool()` takes it. */
export interface MastraRecallTool extends RecallTool {
  /** Always `recall`. */
  readonly id: "recall";
}

/** An {@linkcode Adapter} for Mastra. */
export interface MastraAdapter extends Adapter {
  /** To be put among an agent's `inputProcessors`, for one conversation. */
  readonly processor: TareProcessor;
  /** To be put among the tools, by `createTool()`. Without it what leaves the prompt can't be read back. */
  readonly recall: MastraRecallTool;
}

const TOOLS = "tools";
const VIEW = "view";

/**
 * Gives a conversation of a Mastra agent a planner session. Tools are always shown in full: Mastra turns them into what
 * the model is shown after its processors.
 *
 * @throws {TypeError} by the processor, if a prompt has a message of a role that a prompt doesn't have.
 */
export function mastraAdapter(options: AdapterOptions): MastraAdapter {
  const adapted = new AdaptedSession({ ...options, mechanisms: { ...options.mechanisms, schemas: false } });
  return {
    session: adapted.session,
    ledger: adapted.ledger,
    processor: {
      id: "tare",
      processInputStep({ tools = {}, state }) {
        state[TOOLS] = Object.entries(tools).map(readTool);
        return undefined;
      },
      async processLLMRequest<PromptItem extends PromptMessage>(
        { prompt, model, state }: LlmRequest<PromptItem>,
      ) {
        const pieces = readPrompt(prompt);
        const made = await adapted.view(pieces.map(({ message }) => message), {
          tools: (state[TOOLS] ?? []) as readonly ToolDefinition[],
          model: model.modelId,
        });
        state[VIEW] = made.view;
        // What it holds is what came, or made of it.
        return { prompt: [...writePrompt(prompt, pieces, made)] as PromptItem[] };
      },
      async processLLMResponse({ chunks, state, fromCache }) {
        const { [VIEW]: view } = state as { readonly [VIEW]?: SessionView };
        if (view && !fromCache) await adapted.book(view, readUsage(chunks));
        return undefined;
      },
    },
    recall: { id: "recall", ...recallTool(adapted) },
  };
}

/** A tool as the model is told of it, as far as it says that; of other schemas the shape isn't counted. */
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

function readUsage(chunks: LlmResponse["chunks"]): Usage | undefined {
  const finish = chunks.findLast(({ type }) => type === "finish" || type === "step-finish");
  const { inputTokens, cachedInputTokens = 0, outputTokens = 0 } = (finish?.payload as StepFinish | undefined)
    ?.output?.usage ?? {};
  if (inputTokens === undefined) return undefined;
  return { promptTokens: inputTokens, cachedTokens: cachedInputTokens, outputTokens };
}
