/**
 * Tare for LangChain's agents: a middleware's `wrapModelCall`. The agent's state keeps the whole history; the model gets
 * what of it it still needs.
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
import { type Books, cachesMarked, modelName, type TareOptions, withDefaults } from "./options.ts";

/** A message of LangChain's, as far as it is read here. */
export interface LangChainMessage {
  /** `system`, `human`, `ai`, `tool` and others. */
  readonly type: string;
  /** Text, or blocks. */
  readonly content: string | readonly unknown[];
}

/** A call of a model that an agent is about to make, as far as it is read here. */
export interface LangChainCall {
  readonly model: unknown;
  /** Each is handed on as it came, or as a copy of its own class. */
  readonly messages: readonly LangChainMessage[];
  readonly systemMessage: LangChainMessage;
  readonly tools: readonly unknown[];
  /** Options of the model for this call. */
  readonly modelSettings?: Readonly<Record<string, unknown>>;
  /** What its agent runs in. */
  readonly runtime: {
    readonly signal?: AbortSignal | undefined;
    readonly configurable?: { readonly thread_id?: string | undefined } | undefined;
  };
}

/** Options of the adapter. */
export interface LangChainOptions extends TareOptions<LangChainCall> {
  /** The model that is called, or its name. */
  readonly model: string | object;
}

/** A middleware, as `createMiddleware()` takes it. */
export interface LangChainAdapter extends Books {
  /** Always `Tare`. */
  readonly name: "Tare";
  /** Calls the model with what is still needed. */
  readonly wrapModelCall: <Call extends LangChainCall, Reply>(
    call: Call,
    handler: (call: Call) => Reply | PromiseLike<Reply>,
  ) => Promise<Reply>;
  /** Answers calls of the recall tool; passes all others on. */
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
 * Puts the conversations of LangChain's agents under planner sessions: a middleware, as `createMiddleware()` takes it. It
 * must be the last of those that change messages. It has the recall tool with it. Tools are always shown in full:
 * LangChain lets no middleware show them otherwise.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { tare } from "@tare/adapters/langchain";
 *
 * const lean = tare({ model: "gpt-5.5" });
 * const said = { type: "ai", content: "Hello.", usage_metadata: { input_tokens: 9, output_tokens: 2 } };
 * const call = {
 *   model: "gpt-5.5",
 *   systemMessage: { type: "system", content: "Be brief." },
 *   messages: [{ type: "human", content: "Hello." }],
 *   tools: [],
 *   runtime: {},
 * };
 * await lean.wrapModelCall(call, () => said);
 * assertEquals(lean.total.calls, 1);
 * ```
 *
 * @throws {TypeError} if an option is wrong; by a call, if a message is of a type that isn't known here.
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
      // Two tools of one name are refused.
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
          const shown = writeMessages(given, made);
          const messages = isBare ? shown : shown.slice(1);
          const settings = cachesMarked(profile)
            ? (await import("./cache_breakpoints.ts")).settingsWithBreakpoint(
              { ...call, messages: shown },
              profile,
            )
            : {};
          return await handler({ ...call, ...settings, messages, tools: [...tools, ...recall] });
        },
      });
      const [said] = answersOf(reply);
      await made.book(readUsage(said), (said?.tool_calls ?? []).flatMap(({ id }) => id ?? []));
      return reply;
    },
    async wrapToolCall(call, handler) {
      const { name, id, args } = call.toolCall;
      if (name !== RECALL_TOOL.function.name) return await handler(call);
      // What an agent asks of a tool is that it can be invoked.
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

/** Whether two messages say the same: an agent's state holds the same ones at each call, unless it was loaded anew. */
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
        `Cannot read message ${at}: its type is ${message.type}; it must be system, human, ai or tool`,
      );
  }
}

/** What isn't as LangChain says stays, for the error that names its message. */
function readContent(content: LangChainMessage["content"]): Content {
  return Array.isArray(content) ? content.flatMap(partsOfBlock) : content as string;
}

function readTool(tool: unknown): ToolDefinition | [] {
  const given = tool as ToolDefinition & { name?: string; description?: string; schema?: object };
  if (given.function) return given;
  const { name, description, schema } = given;
  // The tool of a provider: it is no function.
  if (name === undefined || !schema) return [];
  return {
    type: "function",
    function: { name, ...(description !== undefined && { description }), parameters: jsonSchemaOf(schema) },
  };
}

const jsonSchemas = new WeakMap<object, JsonSchema>();

/** A schema as JSON Schema, if it is one or says it; of others the shape isn't counted. */
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

/** The messages after what was planned. What the plan leaves as it is stays the very object of the agent's state. */
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

/** A copy of a message, of its own class, that says something else. */
function withContent(origin: LangChainMessage, { content }: Message): LangChainMessage {
  const blocks = origin.content;
  let at = 0;
  const shown =
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
    content: shown,
    lc_kwargs: { ...fields, content: shown },
  });
}

/** A message that stands for several, of the class that others of its kind have. */
function newMessage(given: readonly LangChainMessage[], { role, content }: Message): LangChainMessage {
  const type = role === "user" ? "human" : "ai";
  // Something said by both stands in each history that is long enough for this.
  const like = given.find((message) => message.type === type) as LangChainMessage;
  const Kind = like.constructor as new (fields: { content: string }) => LangChainMessage;
  return new Kind({ content: contentText(content) });
}

/** The model's message in a reply; one that was parsed holds the message that it was parsed from. */
function answersOf(reply: unknown): readonly AiMessage[] {
  const { messages } = Object(reply) as { readonly messages?: readonly AiMessage[] };
  return messages ?? [reply as AiMessage];
}

function readUsage(said: AiMessage | undefined): Usage | undefined {
  const { usage_metadata: usage } = said ?? {};
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
