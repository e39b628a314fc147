/**
 * Tare for the OpenAI Agents SDK: a wrapper of an agent's model. The run and its session memory store the whole history;
 * the provider receives only what the model still needs.
 *
 * @example
 * ```ts ignore
 * import { Agent, OpenAIResponsesModel, run } from "@openai/agents";
 * import OpenAI from "openai";
 * import { tare } from "@tare/adapters/openai-agents";
 *
 * const lean = tare({ model: new OpenAIResponsesModel(new OpenAI(), "gpt-5.5") });
 * const agent = new Agent({ name: "Reviewer", model: lean.model, tools: [...tools, ...lean.tools] });
 * const result = await run(agent, "Why do nightly builds fail?", { session });
 * ```
 *
 * @module
 */
import {
  type AssistantMessage,
  type Content,
  type ContentPart,
  contentText,
  type JsonSchema,
  type Message,
  partsOfBlock,
  type ToolCall,
  type ToolDefinition,
  type Usage,
} from "@tare/messages";
import { checkGiven, sameData } from "@tare/messages/internal";
import { RECALL_TOOL } from "@tare/prune";
import {
  AdaptedConversations,
  type AdaptedView,
  askFitting,
  type Piece,
  type Reader,
  resultMessage,
  withMethods,
} from "./adapted_conversations.ts";
import type { AdapterLedger, TareOptions } from "./options.ts";

/** Fields of a model request that are read here. */
export interface AgentsCall {
  readonly systemInstructions?: string;
  readonly input: string | readonly object[];
}

/** A model of the SDK. */
export interface AgentsModel {
  getResponse(request: never): Promise<unknown>;
  getStreamedResponse(request: never): AsyncIterable<unknown>;
}

/** Options of the adapter. */
export interface AgentsOptions<Model> extends TareOptions<AgentsCall> {
  readonly model: Model;
}

/** The wrapped model and its ledger. */
export interface AgentsAdapter<Model> extends AdapterLedger {
  /**
   * Wrapped model. A request whose history the provider stores (`previousResponseId`, `conversationId`) is forwarded unchanged
   * and not recorded.
   */
  readonly model: Model;
  /** Tools to add. Without them evicted content can't be recalled. */
  readonly tools: readonly [{
    readonly type: "function";
    readonly name: string;
    readonly description: string;
    readonly parameters: {
      type: "object";
      properties: typeof RECALL_TOOL.function.parameters.properties;
      required: string[];
      additionalProperties: true;
    };
    readonly strict: false;
    /** Runs a call in the conversation of its id. */
    readonly invoke: (
      context: unknown,
      input: string,
      details?: { readonly toolCall?: { readonly callId: string } },
    ) => Promise<string>;
    readonly needsApproval: () => Promise<boolean>;
    readonly isEnabled: () => Promise<boolean>;
  }];
}

/**
 * Returns an adapter of a model, for all OpenAI Agents SDK conversations of a process.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { tare } from "@tare/adapters/openai-agents";
 *
 * const model = {
 *   getResponse: (_: object) => Promise.resolve({ output: [], usage: { inputTokens: 9, outputTokens: 2 } }),
 *   async *getStreamedResponse() {},
 * };
 * const lean = tare({ model });
 * await lean.model.getResponse({ input: "Hello.", tools: [] });
 * assertEquals(lean.total.calls, 1);
 * ```
 */
function ofAgents<Model extends AgentsModel>(
  { model, ...options }: AgentsOptions<Model>,
): AgentsAdapter<Model> {
  checkGiven("tare()", { model }, { model: { getResponse: "function", getStreamedResponse: "function" } });
  const fields = model as unknown as ModelFields;
  const conversations = new AdaptedConversations<Item, AgentsCall>(model, { ...options, reader: READER });
  const { conversation: nameOf = () => undefined } = options;

  /** Returns the view of a request; undefined if the provider stores its history. */
  function viewOf(request: Request) {
    if (request.previousResponseId !== undefined || request.conversationId !== undefined) return undefined;
    const { systemInstructions: system, input, tools } = request;
    const items: readonly Item[] = typeof input === "string" ? [{ role: "user", content: input }] : input;
    const given = system ? [{ role: "system", content: system }, ...items] : items;
    const functions = tools.filter((tool): tool is FunctionTool => tool.type === "function");
    const name = nameOf(request);
    return {
      view: () => conversations.view({ given, tools: functions.map(readTool), name, signal: request.signal }),
      written(made: AdaptedView): Request {
        const written = new Map(functions.map((tool, at) => [tool, writeTool(tool, made.view.tools[at])]));
        return {
          ...request,
          input: writeItems(given, made).slice(given.length - items.length),
          tools: tools.map((tool) => written.get(tool as FunctionTool) ?? tool),
        };
      },
    };
  }

  async function getResponse(request: Request): Promise<Reply> {
    const planned = viewOf(request);
    if (!planned) return await fields.getResponse(request);
    const { view, written } = planned;
    const { made, reply } = await askFitting({ view, ask: (made) => fields.getResponse(written(made)) });
    await made.record(readUsage(reply), callsOf(reply));
    return reply;
  }

  async function* getStreamedResponse(request: Request): AsyncGenerator<StreamEvent> {
    const planned = viewOf(request);
    if (!planned) return yield* fields.getStreamedResponse(request);
    const { view, written } = planned;
    for (let isAgain = false;; isAgain = true) {
      const made = await view();
      let hasBegun = false;
      try {
        for await (const event of fields.getStreamedResponse(written(made))) {
          hasBegun = true;
          if (event.type === "response_done" && event.response) {
            await made.record(readUsage(event.response), callsOf(event.response));
          }
          yield event;
        }
        return;
      } catch (error) {
        if (!await made.failed(error) || isAgain || hasBegun) throw error;
      } finally {
        made.release();
      }
    }
  }

  const { name, description, parameters } = RECALL_TOOL.function;
  return {
    get ledger() {
      return conversations.ledger;
    },
    get total() {
      return conversations.total;
    },
    model: withMethods(model, {
      getResponse,
      getStreamedResponse,
    }),
    tools: [{
      type: "function",
      name,
      description,
      // The SDK requires this in non-strict schemas.
      parameters: { ...parameters, additionalProperties: true },
      strict: false,
      invoke: (_, input, details) => conversations.recall(argumentsOf(input), details?.toolCall?.callId),
      needsApproval: () => Promise.resolve(false),
      isEnabled: () => Promise.resolve(true),
    }],
  };
}

/** Parses arguments; invalid JSON becomes `{}`, which is reported to the model. */
function argumentsOf(input: string): unknown {
  try {
    return JSON.parse(input);
  } catch {
    return {};
  }
}

interface ModelFields {
  getResponse(request: Request): Promise<Reply>;
  getStreamedResponse(request: Request): AsyncIterable<StreamEvent>;
}

interface Request extends AgentsCall {
  readonly input: string | readonly Item[];
  readonly tools: readonly { readonly type: string }[];
  readonly previousResponseId?: string;
  readonly conversationId?: string;
  readonly signal?: AbortSignal;
}

interface Reply {
  readonly output?: readonly Item[];
  readonly usage: {
    readonly inputTokens: number;
    readonly outputTokens: number;
    readonly inputTokensDetails?: Details | readonly Details[];
  };
}

type Details = Readonly<Record<string, number>>;

interface StreamEvent {
  readonly type: string;
  readonly response?: Reply;
}

interface FunctionTool {
  readonly type: "function";
  readonly name: string;
  readonly description: string;
  readonly parameters: JsonSchema;
}

interface Block {
  readonly type: string;
  readonly text?: string;
}

interface Item {
  readonly type?: string;
  readonly role?: string;
  readonly callId?: string;
  readonly name?: string;
  readonly arguments?: string;
  readonly status?: string;
  readonly content?: string | readonly Block[];
  readonly output?: string | Block | readonly Block[];
}

/** Reader of items: consecutive items of a reply are one message. */
const READER: Reader<Item> = {
  same: sameItem,
  read(items, from) {
    const pieces: Piece[] = [];
    for (let at = from; at < items.length;) {
      let end = at + 1;
      let message = readItem(items[at]!);
      if (!message) {
        while (end < items.length && !readItem(items[end]!)) end++;
        message = readAnswer(items.slice(at, end));
      }
      pieces.push({ message, at, end });
      at = end;
    }
    return pieces;
  },
};

function sameItem(one: Item, other: Item): boolean {
  return one === other || sameData(one, other);
}

/** Returns a separate item's message; undefined for items of a reply. */
function readItem({ type, role, callId = "", content = "", output }: Item): Message | undefined {
  if (type === "function_call_result") {
    return resultMessage(callId, readContent(output!));
  }
  return role === "user" || role === "system" ? { role, content: readContent(content) } : undefined;
}

function readAnswer(items: readonly Item[]): AssistantMessage {
  const calls = items.filter(({ type }) => type === "function_call").map((item): ToolCall => ({
    id: item.callId ?? "",
    type: "function",
    function: { name: item.name ?? "", arguments: item.arguments ?? "" },
  }));
  const parts = items.filter(({ type }) => type !== "function_call").flatMap(
    (item): readonly ContentPart[] => {
      const content = item.role === "assistant" ? readContent(item.content ?? "") : partsOfBlock(item);
      return typeof content === "string" ? [{ type: "text", text: content }] : content;
    },
  );
  return {
    role: "assistant",
    content: parts.length === 0 ? null : parts,
    ...(calls.length > 0 && { tool_calls: calls }),
  };
}

/** Returns the content; an invalid one unchanged, for the error that identifies its message. */
function readContent(content: string | Block | readonly Block[]): Content {
  if (typeof content === "string" || !content) return content;
  return Array.isArray(content) ? content.flatMap(partsOfBlock) : partsOfBlock(content);
}

/** Unchanged items are the SDK's objects. */
function writeItems(given: readonly Item[], { view, pieces }: AdaptedView): readonly Item[] {
  return view.messages.flatMap((message, row) => {
    const piece = pieces[view.places[row]!];
    if (!piece) return [newItem(message)];
    const items = given.slice(piece.at, piece.end);
    return message === piece.message ? items : items.map((item) => edited(item, message));
  });
}

function newItem({ role, content }: Message): Item {
  const text = contentText(content);
  return role === "user"
    ? { role, content: text }
    : { type: "message", role, status: "completed", content: [{ type: "output_text", text }] };
}

function edited(item: Item, { content }: Message): Item {
  if (item.type === "function_call_result") {
    const text = contentText(content);
    return { ...item, output: typeof item.output === "string" ? text : { type: "text", text } };
  }
  if (typeof item.content === "string" || typeof content === "string" || !content) {
    return { ...item, content: contentText(content) };
  }
  let at = 0;
  const blocks = item.content?.map((block) => {
    const part = content[at];
    at += partsOfBlock(block).length;
    return block.text !== undefined && part?.type === "text" ? { ...block, text: part.text } : block;
  });
  return { ...item, content: blocks ?? [] };
}

function readTool({ name, description, parameters }: FunctionTool): ToolDefinition {
  return { type: "function", function: { name, description, parameters } };
}

function writeTool(tool: FunctionTool, visible: ToolDefinition | undefined): FunctionTool {
  const { description = tool.description, parameters = tool.parameters } = visible?.function ?? {};
  return description === tool.description && parameters === tool.parameters
    ? tool
    : { ...tool, description, parameters };
}

function callsOf({ output = [] }: Reply): string[] {
  return output.flatMap(({ type, callId }) => type === "function_call" ? callId ?? [] : []);
}

function readUsage({ usage }: Reply): Usage | undefined {
  // The SDK reports zeros if the provider reports nothing.
  if (!(usage.inputTokens > 0)) return undefined;
  const { inputTokensDetails: details = [] } = usage;
  const list = (Array.isArray(details) ? details : [details]) as readonly Details[];
  return {
    promptTokens: usage.inputTokens,
    cachedTokens: list.reduce((sum, { cached_tokens: cached = 0 }) => sum + cached, 0),
    outputTokens: usage.outputTokens,
  };
}

export { ofAgents as tare };
