/**
 * Tare for the OpenAI Agents SDK: put around an agent's model. The run and its session memory keep the whole history;
 * the provider gets what of it the model still needs.
 *
 * README.md shows it in use.
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
  type ToolCall,
  type ToolDefinition,
  type Usage,
} from "@tare/messages";
import type { SessionView } from "@tare/planner";
import { RECALL_TOOL, type RecallParameters } from "@tare/prune";
import { AdaptedSession, type AdaptedView, type Adapter, type AdapterOptions } from "./adapted_session.ts";

export type { Adapter, AdapterOptions } from "./adapted_session.ts";

/** A model of the SDK, as far as it is put around here. */
export interface AgentsModel {
  /** Asks for a reply. */
  getResponse(request: never): Promise<unknown>;
  /** Asks for a reply that is streamed. */
  getStreamedResponse(request: never): AsyncIterable<unknown>;
}

/** Gives a conversation of the OpenAI Agents SDK a planner session. */
export function openAiAgentsAdapter(options: AdapterOptions): Adapter & {
  /**
   * The model, asked for what is still needed. A request whose history the provider keeps (`previousResponseId`,
   * `conversationId`) goes as it is, and isn't booked.
   */
  readonly wrapModel: <Model extends AgentsModel>(model: Model) => Model;
  /** To be put among the tools by `tool()`. Without it what leaves the prompt can't be read back. */
  readonly recall: {
    /** Always `recall`. */
    readonly name: string;
    readonly description: string;
    /** JSON Schema of the arguments. */
    readonly parameters: Omit<RecallParameters, "additionalProperties"> & {
      additionalProperties: true;
    };
    readonly strict: false;
    readonly execute: (args: unknown) => Promise<string>;
  };
} {
  const adapted = new AdaptedSession(options);

  async function shown(
    request: Request,
  ): Promise<{ readonly request: Request; readonly view?: SessionView }> {
    if (request.previousResponseId !== undefined || request.conversationId !== undefined) return { request };
    const { systemInstructions: system, input, tools } = request;
    const items: readonly Item[] = typeof input === "string" ? [{ role: "user", content: input }] : input;
    const pieces: readonly Piece[] = [
      ...(system ? [{ message: { role: "system", content: system } as const, items: [] }] : []),
      ...readItems(items),
    ];
    const functions = tools.filter((tool): tool is FunctionTool => tool.type === "function");
    const made = await adapted.view(pieces.map(({ message }) => message), {
      tools: functions.map(readTool),
      signal: request.signal,
    });
    const written = new Map(functions.map((tool, at) => [tool, writeTool(tool, made.view.tools[at])]));
    return {
      request: {
        ...request,
        input: writeItems(pieces, made),
        tools: tools.map((tool) => written.get(tool as FunctionTool) ?? tool),
      },
      view: made.view,
    };
  }

  async function getResponse(model: Model, given: Request): Promise<Reply> {
    const { request, view } = await shown(given);
    try {
      const reply = await model.getResponse(request);
      if (view) await adapted.book(view, readUsage(reply));
      return reply;
    } catch (error) {
      if (!view || !await adapted.refused(view, error)) throw error;
      const shorter = await shown(given);
      const reply = await model.getResponse(shorter.request);
      await adapted.book(shorter.view ?? view, readUsage(reply));
      return reply;
    }
  }

  async function* getStreamedResponse(model: Model, given: Request): AsyncGenerator<StreamEvent> {
    let { request, view } = await shown(given);
    for (let isAgain = false;; isAgain = true) {
      let hasBegun = false;
      try {
        for await (const event of model.getStreamedResponse(request)) {
          hasBegun = true;
          if (view && event.type === "response_done" && event.response) {
            await adapted.book(view, readUsage(event.response));
          }
          yield event;
        }
        return;
      } catch (error) {
        if (isAgain || hasBegun || !view || !await adapted.refused(view, error)) throw error;
        ({ request, view } = await shown(given));
      }
    }
  }

  const { name, description, parameters } = RECALL_TOOL.function;
  return {
    session: adapted.session,
    ledger: adapted.ledger,
    wrapModel: (model) =>
      new Proxy(model, {
        get(target, key) {
          const asked = target as unknown as Model;
          if (key === "getResponse") return (request: Request) => getResponse(asked, request);
          if (key === "getStreamedResponse") return (request: Request) => getStreamedResponse(asked, request);
          const value: unknown = Reflect.get(target, key);
          // A model may have private fields, which its methods find on itself alone.
          return typeof value === "function" ? value.bind(target) : value;
        },
      }),
    recall: {
      name,
      description,
      // The SDK wants schemas that aren't strict to say so.
      parameters: { ...parameters, additionalProperties: true },
      strict: false,
      execute: (args) => adapted.recall(args),
    },
  };
}

/** As much of the SDK's `Model` as is used here. */
interface Model {
  getResponse(request: Request): Promise<Reply>;
  getStreamedResponse(request: Request): AsyncIterable<StreamEvent>;
}

interface Request {
  readonly systemInstructions?: string;
  readonly input: string | readonly Item[];
  readonly tools: readonly { readonly type: string }[];
  readonly previousResponseId?: string;
  readonly conversationId?: string;
  readonly signal?: AbortSignal;
}

interface Reply {
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

/** An item of a run's history; a message may lack the type. */
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

/** A chat message, and the items that it was read from: several of what the model said at once. */
interface Piece {
  readonly message: Message;
  readonly items: readonly Item[];
}

function readItems(items: readonly Item[]): Piece[] {
  const pieces: Piece[] = [];
  let said: Item[] = [];
  const flush = () => {
    if (said.length > 0) pieces.push({ message: readSaid(said), items: said });
    said = [];
  };
  for (const item of items) {
    const message = readItem(item);
    if (!message) {
      said.push(item);
      continue;
    }
    flush();
    pieces.push({ message, items: [item] });
  }
  flush();
  return pieces;
}

/** The message of an item that is one by itself; none of what belongs to the model's reply. */
function readItem({ type, role, callId = "", content = "", output = "" }: Item): Message | undefined {
  if (type === "function_call_result") {
    return { role: "tool", tool_call_id: callId, content: readContent(output) };
  }
  return role === "user" || role === "system" ? { role, content: readContent(content) } : undefined;
}

function readSaid(items: readonly Item[]): AssistantMessage {
  const calls = items.filter(({ type }) => type === "function_call").map((item): ToolCall => ({
    id: item.callId ?? "",
    type: "function",
    function: { name: item.name ?? "", arguments: item.arguments ?? "" },
  }));
  const parts = items.filter(({ type }) => type !== "function_call").flatMap(
    (item): readonly ContentPart[] => {
      const content = item.role === "assistant" ? readContent(item.content ?? "") : JSON.stringify(item);
      return typeof content === "string" ? [{ type: "text", text: content }] : content;
    },
  );
  return {
    role: "assistant",
    content: parts.length === 0 ? null : parts,
    ...(calls.length > 0 && { tool_calls: calls }),
  };
}

/** What is neither text nor picture stands as the JSON that it is, so that it counts. */
function readContent(content: string | Block | readonly Block[]): Content {
  if (typeof content === "string") return content;
  return (Array.isArray(content) ? content as readonly Block[] : [content as Block]).map(
    (block): ContentPart => {
      if (block.text !== undefined) return { type: "text", text: block.text };
      const text = JSON.stringify(block);
      // Pictures don't count by their bytes.
      return block.type.endsWith("image")
        ? { type: "image_url", image_url: { url: text } }
        : { type: "text", text };
    },
  );
}

/** The history after what was planned. What the plan leaves as it is stays the very object that the SDK made. */
function writeItems(pieces: readonly Piece[], { view, history }: AdaptedView): readonly Item[] {
  return view.messages.flatMap((message, row) => {
    const place = view.places[row]!;
    const piece = pieces[place];
    if (!piece) return [newItem(message)];
    return message === history[place] ? piece.items : piece.items.map((item) => edited(item, message));
  });
}

function newItem({ role, content }: Message): Item {
  const text = contentText(content);
  return role === "user"
    ? { role, content: text }
    : { type: "message", role, status: "completed", content: [{ type: "output_text", text }] };
}

/** A result or a text of the user, as the plan shows it. */
function edited(item: Item, { content }: Message): Item {
  if (item.type === "function_call_result") {
    const text = contentText(content);
    return { ...item, output: typeof item.output === "string" ? text : { type: "text", text } };
  }
  if (typeof item.content === "string" || typeof content === "string" || !content) {
    return { ...item, content: contentText(content) };
  }
  const blocks = item.content?.map((block, at) => {
    const part = content[at];
    return block.text !== undefined && part?.type === "text" ? { ...block, text: part.text } : block;
  });
  return { ...item, content: blocks ?? [] };
}

function readTool({ name, description, parameters }: FunctionTool): ToolDefinition {
  return { type: "function", function: { name, description, parameters } };
}

/** A tool as the plan shows it. */
function writeTool(tool: FunctionTool, shown: ToolDefinition | undefined): FunctionTool {
  const { description = tool.description, parameters = tool.parameters } = shown?.function ?? {};
  return description === tool.description && parameters === tool.parameters
    ? tool
    : { ...tool, description, parameters };
}

function readUsage({ usage }: Reply): Usage | undefined {
  // The SDK writes zeros where the provider reports nothing.
  if (usage.inputTokens === 0) return undefined;
  const { inputTokensDetails: details = [] } = usage;
  const list = (Array.isArray(details) ? details : [details]) as readonly Details[];
  return {
    promptTokens: usage.inputTokens,
    cachedTokens: list.reduce((sum, { cached_tokens: cached = 0 }) => sum + cached, 0),
    outputTokens: usage.outputTokens,
  };
}
