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
import {
  type PromptMessage,
  readModelPrompt,
  type RecallTool,
  standardRecallTool,
  writePrompt,
} from "./model_prompt.ts";

export type { Adapter, AdapterOptions } from "./adapted_session.ts";
export type { PromptMessage, PromptPart, RecallTool } from "./model_prompt.ts";

const TOOLS = "tools";
const VIEW = "view";

/**
 * Gives a conversation of a Mastra agent a planner session. Tools are always shown in full: Mastra turns them into what
 * the model is shown after its processors.
 *
 * @throws {TypeError} by the processor, if a prompt has a message of a role that a prompt doesn't have.
 */
export function mastraAdapter(options: AdapterOptions): Adapter & {
  /** To be put among an agent's `inputProcessors`, for one conversation. */
  readonly processor: {
    /** Always `tare`. */
    readonly id: "tare";
    /** Takes note of the tools; changes nothing. */
    processInputStep(step: {
      readonly tools?: Readonly<Record<string, unknown>> | undefined;
      /** Is the same object in all calls of one processor for one step. */
      readonly state: Record<string, unknown>;
    }): undefined;
    /** Puts what the model still needs in place of the prompt. */
    processLLMRequest<PromptItem extends PromptMessage>(
      request: {
        readonly prompt: readonly PromptItem[];
        readonly model: { readonly modelId: string };
        readonly state: Record<string, unknown>;
      },
    ): Promise<{ prompt: PromptItem[] }>;
    /** Books what a call took. */
    processLLMResponse(response: {
      readonly chunks: readonly { readonly type: string; readonly payload: unknown }[];
      readonly state: Record<string, unknown>;
      /** Whether nobody was asked. */
      readonly fromCache: boolean;
    }): Promise<undefined>;
  };
  /** To be put among the tools, by `createTool()`. Without it what leaves the prompt can't be read back. */
  readonly recall: RecallTool & { readonly id: "recall" };
} {
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
      async processLLMRequest({ prompt, model, state }) {
        const pieces = readModelPrompt(prompt);
        const made = await adapted.view(pieces.map(({ message }) => message), {
          tools: (state[TOOLS] ?? []) as readonly ToolDefinition[],
          model: model.modelId,
        });
        state[VIEW] = made.view;
        // What it holds is what came, or made of it.
        return { prompt: [...writePrompt(prompt, pieces, made)] as (typeof prompt)[number][] };
      },
      async processLLMResponse({ chunks, state, fromCache }) {
        const { [VIEW]: view } = state as { readonly [VIEW]?: SessionView };
        if (view && !fromCache) await adapted.book(view, readUsage(chunks));
        return undefined;
      },
    },
    recall: { id: "recall", ...standardRecallTool(adapted) },
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

function readUsage(
  chunks: readonly { readonly type: string; readonly payload: unknown }[],
): Usage | undefined {
  const finish = chunks.findLast(({ type }) => type === "finish" || type === "step-finish");
  const { inputTokens, cachedInputTokens = 0, outputTokens = 0 } = (finish?.payload as StepFinish | undefined)
    ?.output?.usage ?? {};
  if (inputTokens === undefined) return undefined;
  return { promptTokens: inputTokens, cachedTokens: cachedInputTokens, outputTokens };
}
