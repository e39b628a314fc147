/**
 * Models, requests, a clock and a checked agent server for the tests of this package. Contains no tests.
 *
 * @module
 */
import { ServerSentEventParseStream } from "@std/http";
import { Keys, type Store } from "@tare/session";
import { memoryStore } from "@tare/session/sqlite";
import type { Clock, LoopEvent } from "@tare/loop";
import {
  type AssistantMessage,
  estimateTokens,
  type FunctionToolCall,
  type Model,
  type ModelRequest,
  type Tool,
  type Usage,
} from "@tare/messages";
import { profileNamed } from "@tare/planner";
import { agentHandler, type AgentOptions, ALLOW_EVERYTHING, type HttpAgent } from "@tare/server";
import { checkedFetch, type OpenapiDocument } from "./http/openapi_fixture_test.ts";
import { type FlatOptions, grouped } from "./options_fixture_test.ts";
import { EventLog } from "./sessions/event_log.ts";

export const echo: Tool = {
  definition: {
    type: "function",
    function: {
      name: "echo",
      parameters: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
    },
  },
  run: ({ text }) => String(text),
};

/** Returns a model with these replies, one after the other, and this usage of each call. */
export function scriptedModel(
  replies: readonly Partial<AssistantMessage>[],
  usage: Usage = { promptTokens: 10, cachedTokens: 5, outputTokens: 2 },
): Model {
  let next = 0;
  return async function* () {
    const message: AssistantMessage = { role: "assistant", content: "", ...replies[next++] };
    if (message.content) yield { type: "text_delta", text: String(message.content) };
    yield {
      type: "completed",
      message,
      finishReason: message.tool_calls ? "tool_calls" : "stop",
      usage,
    };
  };
}

/** A usage of a provider that reports none. */
export const UNREPORTED: Usage = { promptTokens: 0, cachedTokens: 0, outputTokens: 2, estimated: true };

/** Returns a model that is silent until it is stopped; `requested` settles when it is first called. */
export function silentModel(): { model: Model; requested: Promise<void> } {
  const { promise: requested, resolve } = Promise.withResolvers<void>();
  const model: Model = async function* ({ signal }) {
    resolve();
    await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    yield { type: "text_delta", text: "never" };
  };
  return { model, requested };
}

interface Reply {
  readonly text: string | null;
  readonly call?: FunctionToolCall;
}

/** Returns a model whose replies the test sends. */
export function steppedModel() {
  const requests: ModelRequest[] = [];
  const waiting: PromiseWithResolvers<Reply>[] = [];
  let requested = Promise.withResolvers<void>();
  const model: Model = async function* (request) {
    requests.push(request);
    const reply = Promise.withResolvers<Reply>();
    waiting.push(reply);
    requested.resolve();
    request.signal.addEventListener("abort", () => reply.reject(request.signal.reason));
    const { text: content, call } = await reply.promise;
    if (content !== null) yield { type: "text_delta", text: content };
    yield {
      type: "completed",
      message: { role: "assistant", content, ...(call && { tool_calls: [call] }) },
      finishReason: call ? "tool_calls" : "stop",
      usage: { promptTokens: 10, cachedTokens: 5, outputTokens: 2 },
    };
  };
  return {
    model,
    requests,
    async requested() {
      while (waiting.length === 0) {
        await requested.promise;
        requested = Promise.withResolvers();
      }
    },
    async reply(text: string) {
      await this.requested();
      waiting.shift()!.resolve({ text });
    },
    async call(name: string) {
      await this.requested();
      const call = { id: "1", type: "function", function: { name, arguments: "{}" } } as const;
      waiting.shift()!.resolve({ text: null, call });
    },
  };
}

/** A clock that the test advances. */
export class FakeClock implements Clock {
  #now = 0;
  #timers: { readonly at: number; readonly callback: () => void }[] = [];

  now(): number {
    return this.#now;
  }

  after(ms: number, callback: () => void): () => void {
    const timer = { at: this.#now + ms, callback };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  }

  advance(ms: number): void {
    this.#now += ms;
    const due = this.#timers.filter(({ at }) => at <= this.#now);
    this.#timers = this.#timers.filter(({ at }) => at > this.#now);
    for (const { callback } of due) callback();
  }
}

export async function newLog(): Promise<EventLog> {
  const store = memoryStore();
  await store.commit([{ type: "session", kind: "agent", id: "s", createdAtMs: 0, settings: {} }]);
  return new EventLog(store, { sessionId: "s", last: 0 });
}

/** Options of a test's agent server. */
export interface TestOptions extends FlatOptions {
  /** Whether sessions that name no model have one. Default: yes. */
  readonly hasModel?: boolean;
  /** Time of its store. Default: always 0. */
  readonly now?: Store["now"];
}

/** Returns an agent server with this model. Each response is checked against its OpenAPI document. */
export function agent(
  model: Model,
  { hasModel = true, now = () => 0, store = memoryStore(), ...options }: TestOptions = {},
): HttpAgent {
  const all = grouped({
    model: () => model,
    ...(hasModel && { defaultModel: "scripted" }),
    instructions: "Be brief.",
    tools: [echo],
    approvals: { rules: ALLOW_EVERYTHING },
    // Its reports may change, so that it isn't copied.
    store: Object.assign(Object.create(store), { now }),
    countTokens: () => Promise.resolve(estimateTokens),
    profile: profileNamed("none"),
    windowTokens: 100_000,
    ...options,
  }) as AgentOptions;
  const handler = agentHandler(all);
  const { hosts = ["localhost"] } = all.http ?? {};
  let document: Promise<OpenapiDocument> | undefined;
  const readDocument = async () => {
    const request = new Request(`http://${hosts[0]}/openapi.json`);
    return await (await handler.unguarded(request, { caller: Keys.OWNER })).json();
  };
  const checked = checkedFetch(handler.fetch, () => document ??= readDocument(), {
    forwardsTo: all.gateway !== undefined,
  });
  // The document contains only routes.
  const isFile = ({ url }: Request) => all.http?.files?.has(new URL(url).pathname) ?? false;
  return {
    ...handler,
    fetch: (request, client) => isFile(request) ? handler.fetch(request) : checked(request, client),
  };
}

/** A response, with its body read as JSON. */
export interface Answered {
  readonly status: number;
  readonly body: unknown;
  readonly headers: Headers;
}

export interface SeenEvent {
  readonly id: number;
  readonly event: LoopEvent;
}

export async function call(
  handler: HttpAgent,
  method: string,
  path: string,
  body?: unknown,
): Promise<Answered> {
  const response = await handler.fetch(request(method, path, body));
  const text = await response.text();
  return { status: response.status, body: text === "" ? null : JSON.parse(text), headers: response.headers };
}

export function request(method: string, path: string, body?: unknown): Request {
  return new Request(`http://localhost${path}`, {
    method,
    ...(body !== undefined && {
      headers: { "content-type": "application/json" },
      body: typeof body === "string" ? body : JSON.stringify(body),
    }),
  });
}

/** Creates a session and returns its path. */
export async function newSession(handler: HttpAgent, body: unknown = {}): Promise<string> {
  const { body: session } = await call(handler, "POST", "/tare/v1/sessions", body);
  return `/tare/v1/sessions/${(session as { id: string }).id}`;
}

/** Returns the events of a stream, read to its end. */
export async function events(response: Response): Promise<SeenEvent[]> {
  const seen: SeenEvent[] = [];
  for await (const { id, data } of response.body!.pipeThrough(new ServerSentEventParseStream())) {
    seen.push({ id: Number(id), event: JSON.parse(data!) });
  }
  return seen;
}

/** Plays a turn and returns its events. */
export async function turn(handler: HttpAgent, session: string, input: unknown): Promise<SeenEvent[]> {
  return await events(await handler.fetch(request("POST", `${session}/turns`, { input })));
}

/** Returns the result of {@linkcode refused} for an error. */
export function error(status: number, code: string, message: string): Omit<Answered, "headers"> {
  return { status, body: { error: { status, code, message } } };
}

/** Sends a request and returns status and body of the response. */
export async function refused(
  handler: HttpAgent,
  method: string,
  path: string,
  body?: unknown,
): Promise<Omit<Answered, "headers">> {
  const answer = await call(handler, method, path, body);
  return { status: answer.status, body: answer.body };
}
