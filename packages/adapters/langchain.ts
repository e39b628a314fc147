/**
 * Tare for LangChain's agents: a middleware's `wrapModelCall`. The agent's state keeps the whole history; the model gets
 * what of it it still needs.
 *
 * README.md shows it in use.
 *
 * @module
 */
import {
  type Content,
  type ContentPart,
  contentText,
  type JsonSchema,
  type Message,
  type ToolDefinition,
  type Usage,
} from "@tare/messages";
import { RECALL_TOOL, type RecallParameters } from "@tare/prune";
import {
  AdaptedSession,
  type AdaptedView,
  type Adapter,
  type AdapterOptions,
  askFitting,
} from "./adapted_session.ts";

export type { Adapter, AdapterOptions } from "./adapted_session.ts";

/** A message of LangChain's, as far as it is read here. */
export interface LangChainMessage {
  /** `system`, `human`, `ai`, `tool` and others. */
  readonly type: string;
  /** Text, or blocks. */
  readonly content: string | readonly unknown[];
}

/**
 * Gives a conversation of a LangChain agent a planner session. Tools are always shown in full: LangChain lets no
 * middleware show them otherwise.
 *
 * @throws {TypeError} by `wrapModelCall`, if a message is of a type that isn't known here.
 */
export function langchainAdapter(options: AdapterOptions): Adapter & {
  /** For `createMiddleware()` of one conversation. It must be the last of those that change messages. */
  readonly wrapModelCall: <
    Call extends {
      readonly model: unknown;
      /** Each is handed on as it came, or as a copy of its own class. */
      readonly messages: readonly LangChainMessage[];
      readonly systemMessage: LangChainMessage;
      readonly tools: readonly unknown[];
      readonly runtime: { readonly signal?: AbortSignal | undefined };
    },
    Reply,
  >(
    call: Call,
    handler: (call: Call) => Reply | PromiseLike<Reply>,
  ) => Promise<Reply>;
  /** The recall tool as LangChain's `tool()` takes it, `tool(recall.run, recall)`, to be put among the tools. Without it what leaves the prompt can't be read back. */
  readonly recall: {
    /** Always `recall`. */
    readonly name: string;
    readonly description: string;
    /** JSON Schema of the arguments. */
    readonly schema: RecallParameters;
    readonly run: (args: unknown) => Promise<string>;
  };
} {
  const adapted = new AdaptedSession({
    ...options,
    mechanisms: { ...options.mechanisms, schemas: false },
  });
  return {
    session: adapted.session,
    ledger: adapted.ledger,
    async wrapModelCall(call, handler) {
      const { systemMessage, runtime, tools, model } = call;
      const isBare = contentText(readContent(systemMessage.content)) === "";
      const given: readonly LangChainMessage[] = isBare ? call.messages : [systemMessage, ...call.messages];
      const history = given.map(readMessage);
      const view = () =>
        adapted.view(history, {
          tools: tools.flatMap(readTool),
          model: (model as { readonly model?: string }).model,
          signal: runtime.signal,
        });
      const ask = async (made: AdaptedView) => {
        const shown = writeMessages(given, made);
        return await handler({ ...call, messages: isBare ? shown : shown.slice(1) });
      };
      const { made, reply } = await askFitting(adapted, { view, ask });
      await adapted.book(made.view, readUsage(reply));
      return reply;
    },
    recall: {
      name: RECALL_TOOL.function.name,
      description: RECALL_TOOL.function.description,
      schema: RECALL_TOOL.function.parameters,
      run: (args) => adapted.recall(args),
    },
  };
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
      return { role: "tool", tool_call_id, content, ...(status === "error" && { failed: true }) };
    }
    default:
      throw new TypeError(
        `Cannot read message ${at}: its type is ${message.type}; it must be system, human, ai or tool`,
      );
  }
}

/** What is neither text nor picture stands as the JSON that it is, so that it counts. */
function readContent(content: LangChainMessage["content"]): Content {
  if (typeof content === "string") return content;
  return content.map((given): ContentPart => {
    const block = given as Block;
    if (block.type === "text") return { type: "text", text: block.text ?? "" };
    const text = JSON.stringify(block);
    // Pictures don't count by their bytes.
    return /^image/.test(block.type)
      ? { type: "image_url", image_url: { url: text } }
      : { type: "text", text };
  });
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
  { view, history }: AdaptedView,
): LangChainMessage[] {
  return view.messages.map((message, row) => {
    const place = view.places[row]!;
    const origin = given[place];
    if (!origin) return newMessage(given, message);
    return message === history[place] ? origin : withContent(origin, message);
  });
}

/** A copy of a message, of its own class, that says something else. */
function withContent(origin: LangChainMessage, { content }: Message): LangChainMessage {
  const blocks = origin.content;
  const shown =
    typeof blocks === "string" || typeof content === "string" || !content || origin.type === "tool"
      ? contentText(content)
      : blocks.map((block, at) => {
        const part = content[at];
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

/** What the model reported; a reply that was parsed holds the message that it was parsed from. */
function readUsage(reply: unknown): Usage | undefined {
  const { usage_metadata: own, messages } = reply as AiMessage & { readonly messages?: readonly AiMessage[] };
  const usage = own ?? messages?.[0]?.usage_metadata;
  if (!usage) return undefined;
  const { cache_read: cachedTokens = 0, cache_creation: written } = usage.input_token_details ?? {};
  return {
    promptTokens: usage.input_tokens,
    cachedTokens,
    ...(written !== undefined && { cacheWriteTokens: written }),
    outputTokens: usage.output_tokens,
  };
}
