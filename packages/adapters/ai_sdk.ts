/**
 * Tare for the Vercel AI SDK: a language-model middleware. `generateText()`, `streamText()` and agents go on keeping
 * the whole history; the provider gets what of it the model still needs.
 *
 * README.md shows it in use.
 *
 * @module
 */
import type { ToolDefinition, Usage } from "@tare/messages";
import type { SessionView } from "@tare/planner";
import { AdaptedSession, type Adapter, type AdapterOptions } from "./adapted_session.ts";
import {
  type PromptMessage,
  type PromptPart,
  readModelPrompt,
  type RecallTool,
  standardRecallTool,
  writePrompt,
} from "./model_prompt.ts";

export type { Adapter, AdapterOptions } from "./adapted_session.ts";
export type { PromptMessage, PromptPart, RecallTool } from "./model_prompt.ts";

/** What a model is called with, as far as it is read here. */
export interface CallParams {
  readonly prompt: readonly PromptMessage[];
  readonly tools?: readonly { readonly type: string; readonly name: string }[] | undefined;
  readonly abortSignal?: AbortSignal | undefined;
}

/** What a model reports of a call, as far as it is read here. */
export interface ReportedUsage {
  readonly inputTokens: {
    readonly total: number | undefined;
    readonly cacheRead: number | undefined;
    readonly cacheWrite: number | undefined;
  };
  readonly outputTokens: { readonly total: number | undefined };
}

/**
 * Gives a conversation of the AI SDK a planner session.
 *
 * @throws {TypeError} by the middleware, if a prompt has a message of a role that the AI SDK doesn't have.
 */
export function aiSdkAdapter(options: AdapterOptions): Adapter & {
  /** A middleware of specification `v4`, for `wrapLanguageModel()`, to be put around the model of one conversation. */
  readonly middleware: {
    /** Always `v4`. */
    readonly specificationVersion: "v4";
    /** Puts what the model still needs in place of the prompt. */
    transformParams<Params extends CallParams>(
      call: { readonly params: Params; readonly model: { readonly modelId: string } },
    ): Promise<Params>;
    /** Books what a call took. One that is refused because its prompt is too long is made once more, for less. */
    wrapGenerate<Result extends { readonly usage: ReportedUsage }>(
      call: {
        readonly doGenerate: () => PromiseLike<Result>;
        readonly params: CallParams;
        readonly model?: object;
      },
    ): Promise<Result>;
    /** Books what a streamed call took, once it has finished. */
    wrapStream<Result extends { readonly stream: ReadableStream<PromptPart> }>(
      call: {
        readonly doStream: () => PromiseLike<Result>;
        readonly params: CallParams;
        readonly model?: object;
      },
    ): Promise<Result>;
  };
  /** To be put among the tools, as `recall`. Without it what leaves the prompt can't be read back. */
  readonly recall: RecallTool;
} {
  const adapted = new AdaptedSession(options);
  /** What was made of each prompt, by what is sent. */
  const sent = new WeakMap<readonly PromptMessage[], Sent>();

  async function book({ prompt }: CallParams, reported: ReportedUsage): Promise<void> {
    const { view } = sent.get(prompt) ?? {};
    if (view) await adapted.book(view, readUsage(reported));
  }

  async function transform<Params extends CallParams>(params: Params, modelId: string): Promise<Params> {
    const pieces = readModelPrompt(params.prompt);
    const tools = params.tools ?? [];
    const functions = tools.filter((tool): tool is FunctionTool => tool.type === "function");
    const made = await adapted.view(pieces.map(({ message }) => message), {
      tools: functions.map(readTool),
      model: modelId,
      signal: params.abortSignal,
    });
    const prompt = writePrompt(params.prompt, pieces, made);
    sent.set(prompt, { view: made.view, again: () => transform(params, modelId) });
    const shown = new Map(functions.map((tool, at) => [tool, writeTool(tool, made.view.tools[at])]));
    return {
      ...params,
      prompt,
      ...(params.tools && { tools: tools.map((tool) => shown.get(tool as FunctionTool) ?? tool) }),
    };
  }

  /** Makes a call; once more, for less, if the prompt is refused because it is too long. Gives what was sent at last, too. */
  async function ask<Result>(
    params: CallParams,
    { first, more }: {
      readonly first: () => PromiseLike<Result>;
      readonly more: ((params: CallParams) => PromiseLike<Result>) | undefined;
    },
  ): Promise<{ readonly result: Result; readonly params: CallParams }> {
    try {
      return { result: await first(), params };
    } catch (error) {
      const made = sent.get(params.prompt);
      if (!made || !await adapted.refused(made.view, error) || !more) throw error;
      const shorter = await made.again();
      return { result: await more(shorter), params: shorter };
    }
  }

  return {
    session: adapted.session,
    ledger: adapted.ledger,
    middleware: {
      specificationVersion: "v4",
      transformParams: ({ params, model }) => transform(params, model.modelId),
      async wrapGenerate({ doGenerate, params: given, model }) {
        // The SDK hands the model itself.
        const asked = model as { doGenerate(params: CallParams): ReturnType<typeof doGenerate> } | undefined;
        const more = asked && ((params: CallParams) => asked.doGenerate(params));
        const { result, params } = await ask(given, { first: doGenerate, more });
        await book(params, result.usage);
        return result;
      },
      async wrapStream({ doStream, params: given, model }) {
        const asked = model as { doStream(params: CallParams): ReturnType<typeof doStream> } | undefined;
        const more = asked && ((params: CallParams) => asked.doStream(params));
        const { result, params } = await ask(given, { first: doStream, more });
        const booking = new TransformStream<PromptPart, PromptPart>({
          async transform(part, controller) {
            if (part.type === "finish") await book(params, (part as FinishPart).usage);
            controller.enqueue(part);
          },
        });
        return { ...result, stream: result.stream.pipeThrough(booking) };
      },
    },
    recall: standardRecallTool(adapted),
  };
}

/** What was made of a prompt, and how to make it again. */
interface Sent {
  readonly view: SessionView;
  readonly again: () => Promise<CallParams>;
}

interface FunctionTool {
  readonly type: "function";
  readonly name: string;
  readonly description?: string;
  readonly inputSchema: Readonly<Record<string, unknown>>;
}

interface FinishPart extends PromptPart {
  readonly usage: ReportedUsage;
}

function readTool({ name, description, inputSchema }: FunctionTool): ToolDefinition {
  return {
    type: "function",
    function: { name, ...(description !== undefined && { description }), parameters: inputSchema },
  };
}

/** A tool as the plan shows it. */
function writeTool(tool: FunctionTool, shown: ToolDefinition | undefined): FunctionTool {
  const { description, parameters } = shown?.function ?? {};
  if (!parameters || (description === tool.description && parameters === tool.inputSchema)) return tool;
  return { ...tool, ...(description !== undefined && { description }), inputSchema: parameters };
}

function readUsage({ inputTokens, outputTokens }: ReportedUsage): Usage | undefined {
  if (inputTokens.total === undefined) return undefined;
  return {
    promptTokens: inputTokens.total,
    cachedTokens: inputTokens.cacheRead ?? 0,
    ...(inputTokens.cacheWrite !== undefined && { cacheWriteTokens: inputTokens.cacheWrite }),
    outputTokens: outputTokens.total ?? 0,
  };
}
