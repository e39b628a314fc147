import { memoryStore } from "@tare/session/sqlite";
import {
  type AssistantMessage,
  estimateTokens,
  type JsonSchema,
  type Model,
  type ModelRequest,
} from "@tare/messages";
import { profileNamed } from "@tare/planner";
import type { HttpAgent } from "@tare/server";
import { ALLOW_EVERYTHING } from "../approvals/rules.ts";
import { echo } from "../fixture_test.ts";
import { dispatcher } from "../http/dispatcher.ts";
import { checkedFetch, type OpenapiDocument } from "../http/openapi_fixture_test.ts";
import { openapiDocument } from "../route_table.ts";
import { type FlatOptions, grouped } from "../options_fixture_test.ts";
import type { SessionOptions } from "../sessions/session_options.ts";
import { Sessions } from "../sessions/sessions.ts";
import { asModelRoutes } from "./as_model_routes.ts";
import type { AsModelOptions } from "./continue_conversation.ts";
import { respondAt } from "./errors.ts";

export function echoCall(text: string): Partial<AssistantMessage> {
  return {
    tool_calls: [
      { id: "c1", type: "function", function: { name: "echo", arguments: JSON.stringify({ text }) } },
    ],
  };
}

/** A model with scripted replies or failures, which records its requests. */
export function scriptedModel(replies: readonly (Partial<AssistantMessage> | Error)[]): {
  readonly model: Model;
  readonly requests: ModelRequest[];
} {
  const requests: ModelRequest[] = [];
  const model: Model = async function* (request) {
    requests.push(request);
    const reply = replies[requests.length - 1] ?? new Error("The script has no more replies.");
    if (reply instanceof Error) throw reply;
    const message: AssistantMessage = { role: "assistant", content: "", ...reply };
    if (message.reasoning_content) yield { type: "reasoning_delta", text: message.reasoning_content };
    for (const text of String(message.content ?? "").match(/.{1,4}/gs) ?? []) {
      yield { type: "text_delta", text };
    }
    yield {
      type: "completed",
      message,
      finishReason: message.tool_calls ? "tool_calls" : "stop",
      usage: { promptTokens: 10, cachedTokens: 5, outputTokens: 2 },
    };
  };
  return { model, requests };
}

/** Options of the routes, in memory. */
export function routeOptions(model: Model, changes: FlatOptions = {}): AsModelOptions {
  const store = memoryStore({ now: () => 5_000 });
  const all = grouped({
    model: () => model,
    defaultModel: "scripted",
    tools: [echo],
    store,
    countTokens: () => Promise.resolve(estimateTokens),
    profile: profileNamed("none"),
    windowTokens: 100_000,
    mechanisms: {
      context: false,
      prune: false,
      schemas: false,
      truncate: false,
      references: false,
      normalization: false,
    },
    maxRunningTurns: 10,
    approvals: { rules: ALLOW_EVERYTHING },
    ...changes,
  });
  const sessions = new Sessions(all as SessionOptions);
  return { sessions, store, instructions: "Be brief.", heartbeat: {}, onError() {} };
}

/** Returns a handler of the routes that throws if an answer isn't documented. */
export function serve(options: AsModelOptions): HttpAgent["fetch"] {
  const routes = asModelRoutes(options);
  const { onError, store } = options;
  const { answer } = dispatcher(routes, { maxBodyBytes: 2 ** 20, store, respondAt, onError });
  const document = openapiDocument(routes) as JsonSchema & OpenapiDocument;
  return checkedFetch(answer, () => Promise.resolve(document));
}

export async function post(
  handler: (request: Request) => Promise<Response>,
  path: string,
  body: unknown,
): Promise<Response> {
  return await handler(
    new Request(`http://localhost${path}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    }),
  );
}
