/**
 * Tare for the Vercel AI SDK 5, 6 and 7: a wrapper of a model. `generateText()`, `streamText()` and agents store the whole
 * history; the provider receives only what the model still needs.
 *
 * @example
 * ```ts ignore
 * import { openai } from "@ai-sdk/openai";
 * import { generateText, stepCountIs } from "ai";
 * import { tare } from "@tare/adapters/ai-sdk";
 *
 * const lean = tare({ model: openai("gpt-5.5") });
 * const { text } = await generateText({
 *   model: lean.model,
 *   tools: { ...tools, ...lean.tools },
 *   prompt: "Why do nightly builds fail?",
 *   stopWhen: stepCountIs(100),
 * });
 * console.log(text, lean.total);
 * ```
 *
 * @module
 */
import type { ToolDefinition, Usage } from "@tare/messages";
import { checkGiven, sameData } from "@tare/messages/internal";
import { AdaptedConversations, type AdaptedView, askFitting, withMethods } from "./adapted_conversations.ts";
import {
  type FrameworkRecallTool,
  PROMPT_READER,
  type PromptMessage,
  type PromptPart,
  standardRecallTool,
  withBreakpoints,
  writePrompt,
} from "./model_prompt.ts";
import { type AdapterLedger, type TareOptions, withDefaults } from "./options.ts";

export { fromAiSdk, toAiSdk } from "./model_prompt.ts";

/** Parameters of a model call that are read here. */
export interface CallParams {
  readonly prompt: readonly PromptMessage[];
  readonly tools?: readonly { readonly type: string; readonly name: string }[] | undefined;
  readonly abortSignal?: AbortSignal | undefined;
  /** `{ tare: { conversation: "…" } }` names the call's conversation. */
  readonly providerOptions?: Readonly<Record<string, Readonly<Record<string, unknown>>>> | undefined;
}

/** A model of any version of the SDK. */
export interface AiSdkModel {
  readonly specificationVersion: string;
  readonly modelId: string;
  doGenerate(params: never): PromiseLike<unknown>;
  doStream(params: never): PromiseLike<unknown>;
}

/** Options of the adapter. */
export interface AiSdkOptions<Model> extends TareOptions<CallParams> {
  /** Model, as returned by a provider's function. */
  readonly model: Model;
}

/** The wrapped model and its ledger. */
export interface AiSdkAdapter<Model> extends AdapterLedger {
  readonly model: Model;
  /**
   * Tools to add. Without them evicted content can't be recalled. AI SDK 5 doesn't support Standard JSON Schema: there, use
   * `jsonSchema(lean.tools.recall.inputSchema["~standard"].jsonSchema.input())`.
   */
  readonly tools: { readonly recall: FrameworkRecallTool };
}

/**
 * Returns an adapter of a model, for all AI SDK conversations of a process.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { tare } from "@tare/adapters/ai-sdk";
 *
 * const model = {
 *   specificationVersion: "v4",
 *   modelId: "gpt-5.5",
 *   doGenerate: (_: object) => Promise.resolve({ content: [], usage: { inputTokens: { total: 9 } } }),
 *   doStream: () => Promise.reject(new Error("not streamed")),
 * };
 * const lean = tare({ model });
 * await lean.model.doGenerate({ prompt: [{ role: "user", content: [{ type: "text", text: "Hello." }] }] });
 * assertEquals(lean.total.calls, 1);
 * ```
 *
 * @throws {TypeError} if an option is invalid; from a call, if a message has an unknown role.
 */
function ofAiSdk<Model extends AiSdkModel>(
  { model, ...options }: AiSdkOptions<Model>,
): AiSdkAdapter<Model> {
  checkGiven("tare()", { model }, { model: { doGenerate: "function", doStream: "function" } });
  const fields = model as unknown as ModelFields;
  const conversations = new AdaptedConversations<PromptMessage, CallParams>(model, {
    ...options,
    reader: PROMPT_READER,
  });
  const { profile } = withDefaults(model, options);
  const readTools = toolReader();
  const { conversation: nameOf = namedByOptions } = options;

  function fitting<Result>(params: CallParams, ask: (params: CallParams) => PromiseLike<Result>) {
    const { prompt, tools = [], abortSignal: signal } = params;
    const { functions, definitions } = readTools(tools);
    const name = nameOf(params);
    const view = () =>
      conversations.view({ given: prompt, tools: definitions, name, model: model.modelId, signal });
    return askFitting({
      view,
      async ask(made) {
        const writtenTools = new Map(
          functions.map((tool, at) => [tool, writeTool(tool, made.view.tools[at])]),
        );
        const written = writePrompt(prompt, made);
        return await ask({
          ...params,
          prompt: await withBreakpoints(written.prompt, {
            ...written,
            ...made,
            profile,
            tools,
            call: params,
          }),
          ...(params.tools && { tools: tools.map((tool) => writtenTools.get(tool as FunctionTool) ?? tool) }),
        });
      },
    });
  }

  async function doGenerate(given: CallParams): Promise<Generated> {
    const { made, reply } = await fitting(given, (params) => fields.doGenerate(params));
    await made.record(readUsage(reply.usage), callsOf(reply.content ?? []));
    return reply;
  }

  async function doStream(given: CallParams): Promise<Streamed> {
    const { made, reply } = await fitting(given, (params) => fields.doStream(params));
    return { ...reply, stream: reply.stream.pipeThrough(recordStream(made)) };
  }

  return {
    get ledger() {
      return conversations.ledger;
    },
    get total() {
      return conversations.total;
    },
    model: withMethods(model, {
      doGenerate,
      doStream,
    }),
    tools: { recall: standardRecallTool(conversations) },
  };
}

interface ModelFields {
  doGenerate(params: CallParams): PromiseLike<Generated>;
  doStream(params: CallParams): PromiseLike<Streamed>;
}

interface Generated {
  readonly content?: readonly PromptPart[];
  readonly usage?: ReportedUsage;
}

interface Streamed {
  readonly stream: ReadableStream<PromptPart>;
}

/** Usage: numbers in version 5 of the SDK, objects later. */
interface ReportedUsage {
  readonly inputTokens?: number | {
    readonly total?: number | undefined;
    readonly cacheRead?: number | undefined;
    readonly cacheWrite?: number | undefined;
  };
  readonly cachedInputTokens?: number | undefined;
  readonly outputTokens?: number | { readonly total?: number | undefined };
}

function namedByOptions({ providerOptions }: CallParams): string | undefined {
  const name = providerOptions?.["tare"]?.["conversation"];
  return typeof name === "string" ? name : undefined;
}

/** Records a streamed call when it finishes, and its end if it is interrupted. */
function recordStream(made: AdaptedView): TransformStream<PromptPart, PromptPart> {
  const replied: string[] = [];
  return new TransformStream<PromptPart, PromptPart>({
    async transform(part, controller) {
      replied.push(...callsOf([part]));
      if (part.type === "finish") await made.record(readUsage((part as FinishPart).usage), replied);
      if (part.type === "error") await made.failed((part as ErrorPart).error);
      controller.enqueue(part);
    },
    flush: made.release,
    cancel: made.release,
  });
}

function callsOf(parts: readonly PromptPart[]): string[] {
  return parts.flatMap((part) =>
    part.type === "tool-call" ? (part as PromptPart & { toolCallId: string }).toolCallId : []
  );
}

/** Returns a reader of tools that returns the same definitions for equal tools, which the SDK recreates per call. */
function toolReader() {
  let known: {
    readonly functions: readonly FunctionTool[];
    readonly definitions: readonly ToolDefinition[];
  } = {
    functions: [],
    definitions: [],
  };
  return (tools: NonNullable<CallParams["tools"]>): typeof known => {
    const functions = tools.filter((tool): tool is FunctionTool => tool.type === "function");
    const definitions = functions.map((tool, at) =>
      sameData(tool, known.functions[at]) ? known.definitions[at]! : readTool(tool)
    );
    return known = { functions, definitions };
  };
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

interface ErrorPart extends PromptPart {
  readonly error: unknown;
}

function readTool({ name, description, inputSchema }: FunctionTool): ToolDefinition {
  return {
    type: "function",
    function: { name, ...(description !== undefined && { description }), parameters: inputSchema },
  };
}

function writeTool(tool: FunctionTool, visible: ToolDefinition | undefined): FunctionTool {
  const { description, parameters } = visible?.function ?? {};
  if (!parameters || (description === tool.description && parameters === tool.inputSchema)) return tool;
  return { ...tool, ...(description !== undefined && { description }), inputSchema: parameters };
}

function readUsage({ inputTokens, cachedInputTokens, outputTokens }: ReportedUsage = {}): Usage | undefined {
  const input = typeof inputTokens === "object"
    ? inputTokens
    : { total: inputTokens, cacheRead: cachedInputTokens };
  if (!Number.isFinite(input.total)) return undefined;
  const { total = 0, cacheRead = 0, cacheWrite } = input;
  const output = typeof outputTokens === "object" ? outputTokens.total : outputTokens;
  return {
    promptTokens: total,
    cachedTokens: cacheRead,
    ...(cacheWrite !== undefined && { cacheWriteTokens: cacheWrite }),
    outputTokens: output ?? 0,
  };
}

export { ofAiSdk as tare };
