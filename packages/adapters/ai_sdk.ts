/**
 * Tare for the Vercel AI SDK: a language-model middleware. `generateText()`, `streamText()` and agents go on keeping
 * the whole history; the provider gets what of it the model still needs.
 *
 * README.md shows it in use.
 *
 * @module
 */
import {
  type AssistantMessage,
  type ContentPart,
  contentText,
  type Message,
  type ToolCall,
  type ToolDefinition,
  type Usage,
} from "@tare/messages";
import type { SessionView } from "@tare/planner";
import { looksLikeError, RECALL_TOOL } from "@tare/prune";
import { AdaptedSession, type AdaptedView, type Adapter, type AdapterOptions } from "./adapted_session.ts";

export type { Adapter, AdapterOptions } from "./adapted_session.ts";

/** A part of a message, as far as it is read here. */
export interface PromptPart {
  readonly type: string;
}

/** A message of a prompt as the AI SDK hands it to a model. */
export interface PromptMessage {
  readonly role: string;
  readonly content: string | readonly PromptPart[];
}

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

/** A middleware of specification `v4`, for `wrapLanguageModel()`. */
export interface TareMiddleware {
  /** Always `v4`. */
  readonly specificationVersion: "v4";
  /** Puts what the model still needs in place of the prompt. */
  transformParams<Params extends CallParams>(
    call: { readonly params: Params; readonly model: { readonly modelId: string } },
  ): Promise<Params>;
  /** Books what a call took. */
  wrapGenerate<Result extends { readonly usage: ReportedUsage }>(
    call: { readonly doGenerate: () => PromiseLike<Result>; readonly params: CallParams },
  ): Promise<Result>;
  /** Books what a streamed call took, once it has finished. */
  wrapStream<Result extends { readonly stream: ReadableStream<PromptPart> }>(
    call: { readonly doStream: () => PromiseLike<Result>; readonly params: CallParams },
  ): Promise<Result>;
}

/** The recall tool as the AI SDK takes it. Its name among the tools must be `recall`. */
export interface RecallTool {
  readonly description: string;
  /** JSON Schema of the arguments, by the Standard JSON Schema specification. */
  readonly inputSchema: {
    readonly "~standard": {
      readonly version: 1;
      readonly vendor: string;
      readonly validate: (value: unknown) => { readonly value: unknown };
      readonly jsonSchema: {
        readonly input: () => Record<string, unknown>;
        readonly output: () => Record<string, unknown>;
      };
    };
  };
  readonly execute: (input: unknown) => Promise<string>;
}

/** An {@linkcode Adapter} for the AI SDK. */
export interface AiSdkAdapter extends Adapter {
  /** To be put around the model of one conversation. */
  readonly middleware: TareMiddleware;
  /** To be put among the tools, as `recall`. Without it what leaves the prompt can't be read back. */
  readonly recall: RecallTool;
}

/**
 * Gives a conversation of the AI SDK a planner session.
 *
 * @throws {TypeError} by the middleware, if a prompt has a message of a role that the AI SDK doesn't have.
 */
export function aiSdkAdapter(options: AdapterOptions): AiSdkAdapter {
  const { isError = looksLikeError } = options;
  const adapted = new AdaptedSession({
    ...options,
    isError: (message, index) => (message as ReadResult).failed || isError(message, index),
  });
  const views = new WeakMap<readonly PromptMessage[], SessionView>();

  async function book({ prompt }: CallParams, reported: ReportedUsage): Promise<void> {
    const view = views.get(prompt);
    if (view) await adapted.book(view, readUsage(reported));
  }

  return {
    session: adapted.session,
    ledger: adapted.ledger,
    middleware: {
      specificationVersion: "v4",
      async transformParams({ params, model }) {
        const pieces = params.prompt.flatMap(readMessage);
        const tools = params.tools ?? [];
        const functions = tools.filter((tool): tool is FunctionTool => tool.type === "function");
        const made = await adapted.view(pieces.map(({ message }) => message), {
          tools: functions.map(readTool),
          model: model.modelId,
          signal: params.abortSignal,
        });
        const prompt = writePrompt(params.prompt, pieces, made);
        views.set(prompt, made.view);
        const shown = new Map(functions.map((tool, at) => [tool, writeTool(tool, made.view.tools[at])]));
        return {
          ...params,
          prompt,
          ...(params.tools && { tools: tools.map((tool) => shown.get(tool as FunctionTool) ?? tool) }),
        };
      },
      async wrapGenerate({ doGenerate, params }) {
        const result = await doGenerate();
        await book(params, result.usage);
        return result;
      },
      async wrapStream({ doStream, params }) {
        const result = await doStream();
        const booking = new TransformStream<PromptPart, PromptPart>({
          async transform(part, controller) {
            if (part.type === "finish") await book(params, (part as FinishPart).usage);
            controller.enqueue(part);
          },
        });
        return { ...result, stream: result.stream.pipeThrough(booking) };
      },
    },
    recall: {
      description: RECALL_TOOL.function.description ?? "",
      inputSchema: {
        "~standard": {
          version: 1,
          vendor: "tare",
          // What is wrong with the arguments the model is told as the tool's answer.
          validate: (value) => ({ value }),
          jsonSchema: { input: recallSchema, output: recallSchema },
        },
      },
      execute: (input) => adapted.recall(input),
    },
  };
}

function recallSchema(): Record<string, unknown> {
  return { ...RECALL_TOOL.function.parameters };
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

interface TextPart extends PromptPart {
  readonly text: string;
}

interface FilePart extends PromptPart {
  readonly mediaType: string;
  readonly data: { readonly type: string; readonly data?: unknown; readonly url?: unknown };
}

interface CallPart extends PromptPart {
  readonly toolCallId: string;
  readonly toolName: string;
  readonly input: unknown;
}

interface ResultPart extends PromptPart {
  readonly toolCallId: string;
  readonly output: { readonly type: string; readonly value?: unknown; readonly reason?: string };
}

/** A result that is known to report an error. */
interface ReadResult {
  readonly failed?: boolean;
}

/** A chat message, and what of the prompt it was read from: a message, or a part of it. */
interface Piece {
  readonly message: Message;
  /** Position in the prompt. */
  readonly at: number;
  readonly part?: ResultPart;
}

function readMessage({ role, content }: PromptMessage, at: number): Piece[] {
  const parts = typeof content === "string" ? [] : content;
  switch (role) {
    case "system":
      return [{ at, message: { role, content: content as string } }];
    case "user":
      return [{ at, message: { role, content: parts.map(readPart) } }];
    case "assistant":
      return [{ at, message: readAnswer(parts) }];
    case "tool": {
      const results = parts.filter((part): part is ResultPart => part.type === "tool-result");
      if (results.length > 0) return results.map((part) => ({ at, part, message: readResult(part) }));
      // Nothing but what people allowed, which stays where it is.
      return [{ at, message: { role: "function", name: "approval", content: JSON.stringify(parts) } }];
    }
    default:
      throw new TypeError(
        `Cannot read message ${at} of the prompt: its role is ${role}; it must be system, user, assistant or tool`,
      );
  }
}

/** What is neither text nor file stands as the JSON that it is, so that it counts. */
function readPart(part: PromptPart): ContentPart {
  if (part.type === "text") return { type: "text", text: (part as TextPart).text };
  if (part.type !== "file") return { type: "text", text: JSON.stringify(part) };
  const { mediaType, data } = part as FilePart;
  const bytes = data.data instanceof Uint8Array ? `${data.data.length} bytes` : data.data;
  const place = String(bytes ?? data.url ?? JSON.stringify(data));
  return mediaType.startsWith("image")
    ? { type: "image_url", image_url: { url: place } }
    : { type: "file", file: { file_data: place } };
}

function readAnswer(parts: readonly PromptPart[]): AssistantMessage {
  const calls = parts.filter((part): part is CallPart => part.type === "tool-call");
  const said = parts.filter(({ type }) => type !== "tool-call" && type !== "reasoning").map(readPart);
  const thoughts = parts.filter(({ type }) => type === "reasoning").map((part) => (part as TextPart).text);
  return {
    role: "assistant",
    content: said.length === 0 ? null : said,
    ...(thoughts.length > 0 && { reasoning_content: thoughts.join("\n") }),
    ...(calls.length > 0 && { tool_calls: calls.map(readCall) }),
  };
}

function readCall({ toolCallId, toolName, input }: CallPart): ToolCall {
  return {
    id: toolCallId,
    type: "function",
    function: { name: toolName, arguments: JSON.stringify(input ?? {}) },
  };
}

function readResult({ toolCallId, output }: ResultPart): Message & ReadResult {
  const { type, value, reason = "Denied." } = output;
  const content = type === "content"
    ? (value as PromptPart[]).map(readPart)
    : type === "execution-denied"
    ? reason
    : typeof value === "string"
    ? value
    : JSON.stringify(value);
  return {
    role: "tool",
    tool_call_id: toolCallId,
    content,
    ...(type.startsWith("error") && { failed: true }),
  };
}

/** The prompt after what was planned. What the plan leaves as it is stays the very object that the SDK made. */
function writePrompt(
  prompt: readonly PromptMessage[],
  pieces: readonly Piece[],
  { view, history }: AdaptedView,
): readonly PromptMessage[] {
  const results = new Map<ResultPart, PromptPart>();
  const written: PromptMessage[] = [];
  let open: { readonly at: number } | undefined;
  view.messages.forEach((message, row) => {
    const place = view.places[row]!;
    const piece = pieces[place];
    if (!piece) {
      const line: TextPart = { type: "text", text: contentText(message.content) };
      written.push({ role: message.role, content: [line] });
      return;
    }
    const { at, part } = piece;
    const isAsItWas = message === history[place];
    if (part) results.set(part, isAsItWas ? part : { ...part, output: textOutput(message) } as PromptPart);
    if (open?.at === at) return;
    open = { at };
    const origin = prompt[at]!;
    written.push(part || isAsItWas ? origin : { ...origin, content: shortened(origin, message) });
  });
  return written.map((message) => message.role === "tool" ? withResults(message, results) : message);
}

function textOutput({ content }: Message) {
  return { type: "text", value: contentText(content) };
}

/** What the user said, with the texts that the plan has shortened. */
function shortened({ content }: PromptMessage, message: Message): PromptMessage["content"] {
  const shown = message.content;
  if (typeof content === "string" || typeof shown === "string" || !shown) return contentText(shown);
  return content.map((part, at) =>
    part.type === "text" ? { ...part, text: (shown[at] as TextPart).text } : part
  );
}

/** A message of results, each as the plan shows it; those that the plan leaves out are not in it. */
function withResults(message: PromptMessage, results: ReadonlyMap<ResultPart, PromptPart>): PromptMessage {
  const parts = message.content as readonly PromptPart[];
  const shown = parts.flatMap((part) =>
    part.type === "tool-result" ? results.get(part as ResultPart) ?? [] : part
  );
  return shown.every((part, at) => part === parts[at]) && shown.length === parts.length
    ? message
    : { ...message, content: shown };
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
