/**
 * Tare for LangChain's agents: a middleware. The agent's state stores the whole history; the model receives only what it
 * still needs.
 *
 * @example
 * ```ts ignore
 * import { createAgent, createMiddleware } from "langchain";
 * import { tare } from "@tare/adapters/langchain";
 *
 * const lean = tare({ model: "gpt-5.5" });
 * const agent = createAgent({ model, tools, middleware: [createMiddleware(lean)] });
 * ```
 *
 * @module
 */
import {
  type Content,
  contentText,
  type JsonSchema,
  type Message,
  partsOfBlock,
  type ToolDefinition,
  type Usage,
} from "@tare/messages";
import { sameData } from "@tare/messages/internal";
import { RECALL_TOOL } from "@tare/prune";
import {
  AdaptedConversations,
  type AdaptedView,
  askFitting,
  type Piece,
  type Reader,
  resultMessage,
} from "./adapted_conversations.ts";
import { type AdapterLedger, cachesMarked, modelName, type TareOptions, withDefaults } from "./options.ts";

/** Fields of a LangChain message that are read here. */
export interface LangChainMessage {
  readonly type: string;
  readonly content: string | readonly unknown[];
}

/** Fields of a model call that are read here. */
export interface LangChainCall {
  readonly model: unknown;
  /** Messages, passed unchanged or as copies of the same class. */
  readonly messages: readonly LangChainMessage[];
  readonly systemMessage: LangChainMessage;
  readonly tools: readonly unknown[];
  readonly modelSettings?: Readonly<Record<string, unknown>>;
  readonly runtime: {
    readonly signal?: AbortSignal | undefined;
    readonly configurable?: { readonly thread_id?: string | undefined } | undefined;
  };
}

/** Options of the adapter. */
export interface LangChainOptions extends TareOptions<LangChainCall> {
  /** Model, or its name. */
  readonly model: string | object;
}

/** Argument of `createMiddleware()`. */
export interface LangChainAdapter extends AdapterLedger {
  readonly name: "Tare";
  /** Calls the model with the view. */
  readonly wrapModelCall: <Call extends LangChainCall, Reply>(
    call: Call,
    handler: (call: Call) => Reply | PromiseLike<Reply>,
  ) => Promise<Reply>;
  /** Runs calls of the recall tool; forwards all others. */
  readonly wrapToolCall: <
    Call extends {
      readonly toolCall: { readonly name: string; readonly id?: string; readonly args: unknown };
    },
    Reply,
  >(
    call: Call,
    handler: (call: Call) => Reply | PromiseLike<Reply>,
  ) => Promise<Reply>;
}

/**
 * Returns an adapter of a model, for all LangChain conversations of a process: an argument of `createMiddleware()`, which
 * includes the recall tool. It must be the last middleware that changes messages. Tool schemas are never shortened, because
 * LangChain doesn't let middleware change them.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { tare } from "@tare/adapters/langchain";
 *
 * const lean = tare({ model: "gpt-5.5" });
 * const reply = { type: "ai", content: "Hello.", usage_metadata: { input_tokens: 9, output_tokens: 2 } };
 * const call = {
 *   model: "gpt-5.5",
 *   systemMessage: { type: "system", content: "Be brief." },
 *   messages: [{ type: "human", content: "Hello." }],
 *   tools: [],
 *   runtime: {},
 * };
 * await lean.wrapModelCall(call, () => reply);
 * assertEquals(lean.total.calls, 1);
 * ```
 *
 * @throws {TypeError} if an option is invalid; from a call, if a message has an unknown type.
 */
function ofLangChain({ model: given, ...options }: LangChainOptions): LangChainAdapter {
  const conversations = new AdaptedConversations<LangChainMessage, LangChainCall>(given, {
    ...options,
    planning: { ...options.planning, mechanisms: { ...options.planning?.mechanisms, schemas: false } },
    reader: READER,
  });
  const { profile } = withDefaults(given, options);
  const { conversation: nameOf = threadOf } = options;
  return {
    get ledger() {
      return conversations.ledger;
    },
    get total() {
      return conversations.total;
    },
    name: "Tare",
    async wrapModelCall(call, handler) {
      const { systemMessage, runtime, tools, model } = call;
      const isBare = contentText(readContent(systemMessage.content)) === "";
      const given: readonly LangChainMessage[] = isBare ? call.messages : [systemMessage, ...call.messages];
      const name = nameOf(call);
      const offered = tools.flatMap(readTool);
      const recall = offered.some(({ function: { name } }) => name === RECALL_TOOL.function.name)
        ? []
        : [RECALL_TOOL];
      const definitions = [...offered, ...recall];
      const view = () =>
        conversations.view({
          given,
          tools: definitions,
          name,
          model: modelName(model),
          signal: runtime.signal,
        });
      const { made, reply } = await askFitting({
        view,
        async ask(made) {
          const written = writeMessages(given, made);
          const messages = isBare ? written : written.slice(1);
          const settings = cachesMarked(profile)
            ? (await import("./cache_breakpoints.ts")).settingsWithBreakpoint(
              { ...call, messages: written },
              profile,
            )
            : {};
          return await handler({ ...call, ...settings, messages, tools: [...tools, ...recall] });
        },
      });
      const [answer] = answersOf(reply);
      await made.record(readUsage(answer), (answer?.tool_calls ?? []).flatMap(({ id }) => id ?? []));
      return reply;
    },
    async wrapToolCall(call, handler) {
      const { name, id, args } = call.toolCall;
      if (name !== RECALL_TOOL.function.name) return await handler(call);
      // The agent only invokes the tool.
      return await handler({ ...call, tool: { name, invoke: () => conversations.recall(args, id) } });
    },
  };
}

function threadOf({ runtime: { configurable } }: LangChainCall): string | undefined {
  return configurable?.thread_id;
}

const READER: Reader<LangChainMessage> = {
  same: sameMessage,
  read(given, from) {
    const pieces: Piece[] = [];
    for (let at = from; at < given.length; at++) {
      pieces.push({ message: readMessage(given[at]!, at), at, end: at + 1 });
    }
    return pieces;
  },
};

/** Returns whether messages are equal; usually they are the same object, except after loading the agent's state. */
function sameMessage(one: LangChainMessage, other: LangChainMessage): boolean {
  if (one === other) return true;
  const [a, b] = [one, other] as readonly LangChainMessage[] as readonly (AiMessage & ResultMessage)[];
  return a!.type === b!.type && sameData(a!.content, b!.content) && a!.tool_call_id === b!.tool_call_id &&
    a!.status === b!.status && sameData(a!.tool_calls ?? [], b!.tool_calls ?? []) &&
    a!.additional_kwargs?.reasoning_content === b!.additional_kwargs?.reasoning_content;
}

interface Block {
  readonly type: string;
  readonly text?: string;
}

interface AiMessage extends LangChainMessage {
  readonly tool_calls?: readonly {
    readonly id?: string;
    readonly name: string;
    readonly args: Readonly<Record<string, unknown>>;
  }[];
  readonly additional_kwargs?: { readonly reasoning_content?: string };
  readonly usage_metadata?: {
    readonly input_tokens: number;
    readonly output_tokens: number;
    readonly input_token_details?: { readonly cache_read?: number; readonly cache_creation?: number };
  };
}

interface ResultMessage extends LangChainMessage {
  readonly tool_call_id: string;
  readonly status?: "success" | "error";
}

function readMessage(message: LangChainMessage, at: number): Message {
  const content = readContent(message.content);
  switch (message.type) {
    case "system":
      return { role: "system", content };
    case "human":
      return { role: "user", content };
    case "ai": {
      const { tool_calls: calls = [], additional_kwargs: { reasoning_content: thoughts } = {} } =
        message as AiMessage;
      return {
        role: "assistant",
        content,
        ...(thoughts !== undefined && { reasoning_content: thoughts }),
        ...(calls.length > 0 && {
          tool_calls: calls.map(({ id = "", name, args }) => ({
            id,
            type: "function",
            function: { name, arguments: JSON.stringify(args) },
          })),
        }),
      };
    }
    case "tool": {
      const { tool_call_id, status } = message as ResultMessage;
      return resultMessage(tool_call_id, content, status === "error");
    }
    default:
      throw new TypeError(
        `Cannot read message ${at}: its type is ${message.type}. Use system, human, ai or tool.`,
      );
  }
}

/** Returns the content; an invalid one unchanged, for the error that identifies its message. */
function readContent(content: LangChainMessage["content"]): Content {
  return Array.isArray(content) ? content.flatMap(partsOfBlock) : content as string;
}

function readTool(tool: unknown): ToolDefinition | [] {
  const given = tool as ToolDefinition & { name?: string; description?: string; schema?: object };
  if (given.function) return given;
  const { name, description, schema } = given;
  // A provider's own tool is no function.
  if (name === undefined || !schema) return [];
  return {
    type: "function",
    function: { name, ...(description !== undefined && { description }), parameters: jsonSchemaOf(schema) },
  };
}

const jsonSchemas = new WeakMap<object, JsonSchema>();

/** Returns a JSON Schema; `{}` for other schemas, which aren't counted. */
function jsonSchemaOf(schema: object): JsonSchema {
  let known = jsonSchemas.get(schema);
  if (known) return known;
  const { "~standard": standard } = schema as {
    readonly "~standard"?: { readonly jsonSchema?: { input(how: { target: string }): JsonSchema } };
  };
  known = standard ? standard.jsonSchema?.input({ target: "draft-07" }) ?? {} : schema as JsonSchema;
  jsonSchemas.set(schema, known);
  return known;
}

/** Unchanged messages are the objects of the agent's state. */
function writeMessages(
  given: readonly LangChainMessage[],
  { view, pieces }: AdaptedView,
): LangChainMessage[] {
  return view.messages.map((message, row) => {
    const place = view.places[row]!;
    const origin = given[place];
    if (!origin) return newMessage(given, message);
    return message === pieces[place]?.message ? origin : withContent(origin, message);
  });
}

function withContent(origin: LangChainMessage, { content }: Message): LangChainMessage {
  const blocks = origin.content;
  let at = 0;
  const visible =
    typeof blocks === "string" || typeof content === "string" || !content || origin.type === "tool"
      ? contentText(content)
      : blocks.map((block) => {
        const part = content[at];
        at += partsOfBlock(block).length;
        return part?.type === "text" && (block as Block).type === "text"
          ? { ...block as Block, text: part.text }
          : block;
      });
  const { lc_kwargs: fields } = origin as { readonly lc_kwargs?: object };
  return Object.assign(Object.create(Object.getPrototypeOf(origin)), origin, {
    content: visible,
    lc_kwargs: { ...fields, content: visible },
  });
}

/** Returns a message for several, of the class of others of its type. */
function newMessage(given: readonly LangChainMessage[], { role, content }: Message): LangChainMessage {
  const type = role === "user" ? "human" : "ai";
  // Every history that is long enough for this contains both types.
  const like = given.find((message) => message.type === type) as LangChainMessage;
  const Kind = like.constructor as new (fields: { content: string }) => LangChainMessage;
  return new Kind({ content: contentText(content) });
}

function answersOf(reply: unknown): readonly AiMessage[] {
  const { messages } = Object(reply) as { readonly messages?: readonly AiMessage[] };
  return messages ?? [reply as AiMessage];
}

function readUsage(answer: AiMessage | undefined): Usage | undefined {
  const { usage_metadata: usage } = answer ?? {};
  if (!Number.isFinite(usage?.input_tokens)) return undefined;
  const { input_tokens: promptTokens = 0, output_tokens: outputTokens = 0, input_token_details: details } =
    usage ?? {};
  const { cache_read: cachedTokens = 0, cache_creation: written } = details ?? {};
  return {
    promptTokens,
    cachedTokens,
    ...(written !== undefined && { cacheWriteTokens: written }),
    outputTokens,
  };
}

export { ofLangChain as tare };
