import type { TurnLedger } from "@tare/loop";
import type { ResponsesRequest } from "./openai_responses_schema.ts";

/** A message of a response. */
export interface MessageItem {
  /** Its name. */
  readonly id: string;
  /** What it is. */
  readonly type: "message";
  /** Who says it. */
  readonly role: "assistant";
  /** Whether it is whole. */
  readonly status: "in_progress" | "completed" | "incomplete";
  /** What is said: one part, or none at first. */
  readonly content: readonly {
    readonly type: "output_text";
    readonly text: string;
    readonly annotations: readonly never[];
    readonly logprobs: readonly never[];
  }[];
}

/** What a response tells of its progress. */
export interface ReasoningItem {
  /** Its name. */
  readonly id: string;
  /** What it is. */
  readonly type: "reasoning";
  /** Whether it is whole. */
  readonly status: "in_progress" | "completed" | "incomplete";
  /** What is told: one part, or none at first. */
  readonly summary: readonly { readonly type: "summary_text"; readonly text: string }[];
}

/** One item of a response. */
export type OutputItem = MessageItem | ReasoningItem;

/** A response as clients see it. */
export interface ResponseBody {
  /** Its name: `resp_` and 32 hexadecimal digits, which are also in the names of its items. */
  readonly id: string;
  /** Always `response`. */
  readonly object: "response";
  /** When it was asked for, in seconds since the epoch. */
  readonly created_at: number;
  /** When it was complete, in seconds since the epoch. */
  readonly completed_at: number | null;
  /** How far it is, or how it ended. */
  readonly status: "in_progress" | "completed" | "incomplete" | "failed";
  /** Always `false`. */
  readonly background: false;
  /** Why it failed. */
  readonly error: { readonly code: string; readonly message: string } | null;
  /** Why it isn't whole. */
  readonly incomplete_details: { readonly reason: "max_output_tokens" | "content_filter" } | null;
  /** As asked. */
  readonly instructions: string | null;
  /** As asked. */
  readonly max_output_tokens: number | null;
  /** As asked. */
  readonly metadata: Readonly<Record<string, string>>;
  /** The model's id. */
  readonly model: string;
  /** What it says. */
  readonly output: readonly OutputItem[];
  /** Always `true`. */
  readonly parallel_tool_calls: true;
  /** The response that it follows. */
  readonly previous_response_id: string | null;
  /** Whether it can be read later and be followed. */
  readonly store: boolean;
  /** Always `null`: the server's own settings are used. */
  readonly temperature: null;
  /** Always plain text. */
  readonly text: { readonly format: { readonly type: "text" } };
  /** Always `auto`. */
  readonly tool_choice: "auto";
  /** Always none: the agent's tools are its own affair. */
  readonly tools: readonly never[];
  /** Always `null`: the server's own settings are used. */
  readonly top_p: null;
  /** Always `disabled`: what leaves the agent's prompt can be read back. */
  readonly truncation: "disabled";
  /** What its turn cost: sums over the model calls. Reasoning isn't told apart. */
  readonly usage: {
    readonly input_tokens: number;
    readonly input_tokens_details: { readonly cached_tokens: number };
    readonly output_tokens: number;
    readonly output_tokens_details: { readonly reasoning_tokens: number };
    readonly total_tokens: number;
  } | null;
  /** As asked. */
  readonly user: string | null;
}

/** The response to a request before anything is said. */
export function emptyResponse(
  request: ResponsesRequest,
  { id, createdAtMs }: { readonly id: string; readonly createdAtMs: number },
): ResponseBody {
  return {
    id,
    object: "response",
    created_at: toSeconds(createdAtMs),
    completed_at: null,
    status: "in_progress",
    background: false,
    error: null,
    incomplete_details: null,
    instructions: request.instructions ?? null,
    max_output_tokens: request.max_output_tokens ?? null,
    metadata: request.metadata ?? {},
    model: request.model,
    output: [],
    parallel_tool_calls: true,
    previous_response_id: request.previous_response_id ?? null,
    store: request.store ?? true,
    temperature: null,
    text: { format: { type: "text" } },
    tool_choice: "auto",
    tools: [],
    top_p: null,
    truncation: "disabled",
    usage: null,
    user: request.user ?? null,
  };
}

/** What a turn cost, as a response says it. */
export function responseUsage(
  { promptTokens, cachedTokens, outputTokens }: TurnLedger,
): ResponseBody["usage"] {
  return {
    input_tokens: promptTokens,
    input_tokens_details: { cached_tokens: cachedTokens },
    output_tokens: outputTokens,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: promptTokens + outputTokens,
  };
}

/** Milliseconds as whole seconds. */
export function toSeconds(ms: number): number {
  return Math.floor(ms / 1000);
}
