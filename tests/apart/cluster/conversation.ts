import { assert, assertEquals } from "@std/assert";
import type { FunctionToolCall } from "@tare/messages";
import type { SimulatedReply } from "@tare/simulator";
import { jsonPost } from "../../crash/json_post.ts";
import { DEFINITIONS, parametersOf, runTool, SCRIPT, TOOLS } from "../../gateway/long_session.ts";
import { isBroken, pause, send, until } from "./client.ts";
import { SCRIPTED } from "./cluster_model.ts";
import type { RecordedRequest } from "../../recording_provider.ts";
import { extendsRequest, type Provider } from "./provider.ts";

export const PROTOCOLS = ["chat", "responses", "messages"] as const;

export type Protocol = typeof PROTOCOLS[number];

export const EXCHANGES: number = SCRIPT.length;

interface Dialect {
  readonly path: string;
  readonly body: (name: string, replies: readonly SimulatedReply[]) => unknown;
  readonly end: string;
}

const THINKING_MS = 100;

const MODEL = "simulated";
const QUESTION = "Why do nightly builds fail?";

/** Gateway client in a conversation with the provider; it retries interrupted requests. */
export class Conversation {
  readonly name: string;
  readonly #dialect: Dialect;
  readonly #provider: Provider;
  get exchanges(): number {
    return this.#replies;
  }

  #replies = 0;
  retries = 0;

  /** Creates a conversation with a unique `name`, by which the provider identifies it. */
  constructor(protocol: Protocol, name: string, provider: Provider) {
    this.name = `${SCRIPTED} ${protocol}: ${name}. ${"You review a code base with tools. ".repeat(8)}`;
    this.#dialect = DIALECTS[protocol];
    this.#provider = provider;
  }

  get isOver(): boolean {
    return this.#replies === EXCHANGES;
  }

  /** Continues until the script or `isOver` ends it. */
  async work(url: string, isOver: () => boolean): Promise<void> {
    while (!this.isOver && !isOver()) {
      await this.exchange(url);
      await pause(THINKING_MS);
    }
  }

  async exchange(url: string): Promise<void> {
    const { path, body, end } = this.#dialect;
    const request = body(this.name, SCRIPT.slice(0, this.#replies));
    const answer = await until(`the answer to ${this.name}`, async () => {
      const text = await received(`${url}${path}`, request);
      if (text?.includes(end)) return text;
      this.retries++;
      return undefined;
    });
    for (const { id } of callsOf(SCRIPT[this.#replies])) {
      assert(answer.includes(`"${id}"`), `${id} is missing`);
    }
    this.#replies++;
  }

  requests(): Promise<readonly RecordedRequest[]> {
    return this.#provider.requestsOf(this.name);
  }

  /** Returns the indices of requests that don't extend the one before. */
  async breaks(exchanges: number = EXCHANGES): Promise<readonly number[]> {
    const requests = await this.requests();
    return Array.from(requests.keys()).filter((index) =>
      index > 0 && index < exchanges && !extendsRequest(requests[index - 1]!, requests[index]!)
    );
  }
}

async function received(url: string, request: unknown): Promise<string | undefined> {
  try {
    const response = await send(url, jsonPost(request, { authorization: "Bearer a key" }));
    const text = await response.text();
    if (response.status < 500) assertEquals(response.status, 200, text);
    return response.ok ? text : undefined;
  } catch (error) {
    if (!isBroken(error)) throw error;
    return undefined;
  }
}

function callsOf(reply: SimulatedReply | undefined): readonly FunctionToolCall[] {
  return (reply?.tool_calls ?? []) as readonly FunctionToolCall[];
}

function resultOf({ function: { name, arguments: args } }: FunctionToolCall): string {
  return runTool(name, args);
}

const CACHED = { cache_control: { type: "ephemeral" } };

const DIALECTS: Readonly<Record<Protocol, Dialect>> = {
  chat: {
    path: "/v1/chat/completions",
    end: "data: [DONE]",
    body: (name, replies) => ({
      model: MODEL,
      stream: true,
      tools: DEFINITIONS,
      messages: [
        { role: "system", content: name },
        { role: "user", content: QUESTION },
        ...replies.flatMap((reply) => [
          { role: "assistant", content: reply.content, tool_calls: callsOf(reply) },
          ...callsOf(reply).map((call) => ({ role: "tool", tool_call_id: call.id, content: resultOf(call) })),
        ]),
      ],
    }),
  },
  responses: {
    path: "/v1/responses",
    end: '"response.completed"',
    body: (name, replies) => ({
      model: MODEL,
      stream: true,
      store: false,
      tools: DEFINITIONS.map(({ type, function: definition }) => ({ type, ...definition, strict: true })),
      instructions: name,
      input: [
        { type: "message", role: "user", content: QUESTION },
        ...replies.flatMap((reply) => [
          ...(reply.content
            ? [{
              type: "message",
              role: "assistant",
              content: [{ type: "output_text", text: reply.content }],
            }]
            : []),
          ...callsOf(reply).map((call) => ({ type: "function_call", call_id: call.id, ...call.function })),
          ...callsOf(reply).map((call) => ({
            type: "function_call_output",
            call_id: call.id,
            output: resultOf(call),
          })),
        ]),
      ],
    }),
  },
  messages: {
    path: "/v1/messages",
    end: "message_stop",
    body: (name, replies) => ({
      model: MODEL,
      stream: true,
      max_tokens: 1000,
      tools: TOOLS.map((tool) => ({
        name: tool.name,
        description: tool.description,
        input_schema: parametersOf(tool),
      })),
      system: [{ type: "text", text: name, ...CACHED }],
      messages: markedAtEnd([
        { role: "user", content: [{ type: "text", text: QUESTION }] },
        ...replies.flatMap((reply) => [
          {
            role: "assistant",
            content: [
              ...(reply.content ? [{ type: "text", text: reply.content }] : []),
              ...callsOf(reply).map((call) => ({
                type: "tool_use",
                id: call.id,
                name: call.function.name,
                input: JSON.parse(call.function.arguments),
              })),
            ],
          },
          {
            role: "user",
            content: callsOf(reply).map((call) => ({
              type: "tool_result",
              tool_use_id: call.id,
              content: resultOf(call),
            })),
          },
        ]),
      ]),
    }),
  },
};

function markedAtEnd(
  messages: readonly { readonly role: string; readonly content: readonly object[] }[],
): unknown[] {
  return messages.map(({ role, content }, at) => ({
    role,
    content: content.map((block, index) =>
      at === messages.length - 1 && index === content.length - 1 ? { ...block, ...CACHED } : block
    ),
  }));
}
