import type { AssistantMessage, Message } from "./message.ts";
import type { ToolDefinition } from "./tool.ts";

/** Unchanged part of a prompt, for providers that cache only up to requested breakpoints. */
export interface StableMessages {
  /** Number of messages, from the first, that an earlier request also contained. */
  readonly shared: number;
  /** Number of messages up to the last edited one; 0 if none is. */
  readonly edited: number;
}

/**
 * Generation settings, named as in chat completions. Absent ones are the provider's defaults; those that a
 * provider's protocol doesn't support are refused, never dropped.
 */
export interface ModelSettings {
  readonly temperature?: number;
  readonly top_p?: number;
  readonly frequency_penalty?: number;
  readonly presence_penalty?: number;
  readonly seed?: number;
  readonly reasoning_effort?: string;
  readonly verbosity?: string;
  /** Requires a tool call, or names the tool. Default: the model chooses. */
  readonly tool_choice?: "required" | {
    readonly type: "function";
    readonly function: { readonly name: string };
  };
  /** Whether one reply may call several tools. */
  readonly parallel_tool_calls?: boolean;
}

/** One request to a model. */
export interface ModelRequest {
  readonly messages: readonly Message[];
  readonly tools: readonly ToolDefinition[];
  /** Generation settings. Default: the provider's. */
  readonly settings?: ModelSettings;
  /** Unchanged part of the prompt. Default: unknown. */
  readonly stable?: StableMessages;
  /** Cache key of the conversation, for caches that are keyed by name. Default: none. */
  readonly cacheKey?: string;
  /** Aborting it stops the request. */
  readonly signal: AbortSignal;
  /** Called at a sign of life that is no event, such as a keep-alive. */
  readonly progress?: () => void;
  /**
   * Called with the reason of each refused answer that may be retried, such as "api.example limits the rate
   * of requests (429)", and without one after the next success.
   */
  readonly refused?: (why: string | undefined) => void;
  /**
   * Called with the reason when an interrupted reply is requested again; its events so far are void. Default:
   * a reply with visible output isn't retried.
   */
  readonly restarted?: (why: string) => void;
  /**
   * Throws if no request may be sent any more. Models call it right before each request. Default: allowed.
   */
  readonly confirm?: () => void;
  /**
   * Called right before the reply is complete, with the means to keep its prompt cached. Models without a
   * cheap keep-alive request never call it.
   */
  readonly keepable?: (prompt: KeepablePrompt) => void;
}

/** The prompt of an answered request, which a keep-alive request retains in the provider's cache. */
export interface KeepablePrompt {
  /** Number of content blocks of the reply. */
  readonly answerBlocks: number;
  /**
   * Sends one keep-alive request, without retry: `exact` repeats the prompt without a reply; `upgrade`
   * includes the reply and extends the lifetime to an hour. Returns its usage, or `undefined` if the provider
   * reports none.
   * @throws {ModelError} if the provider refuses or can't be reached.
   */
  readonly ping: (type: "exact" | "upgrade", signal: AbortSignal) => Promise<Usage | undefined>;
}

/** Reason why the model stopped generating. */
export type FinishReason = "stop" | "tool_calls" | "length" | "content_filter";

/**
 * A streamed event of a model. The last one is `completed`; all others are for display. A stream that fails
 * before any other output than tool-call deltas is retried, so calls may repeat; one that fails later is
 * retried where `restarted` is set.
 */
export type ModelEvent =
  | { readonly type: "text_delta"; readonly text: string }
  | { readonly type: "reasoning_delta"; readonly text: string }
  | {
    readonly type: "tool_call_delta";
    /** Position of the call in the reply. */
    readonly index: number;
    /** Id as the provider sent it: possibly missing or not unique. `completed` has the final one. */
    readonly id?: string;
    readonly name?: string;
    readonly arguments?: string;
  }
  | {
    readonly type: "completed";
    /**
     * The complete reply, with every field that the provider sent. Its tool calls have unique ids that are
     * not empty.
     */
    readonly message: AssistantMessage;
    readonly finishReason: FinishReason;
    /** Absent if the provider sent none. */
    readonly usage?: Usage;
  };

/** The model port: each call is one request. Throws `ModelError` when the provider fails. */
export type Model = (request: ModelRequest) => AsyncIterable<ModelEvent>;

/** A change of the visible prompt: what was removed, and why. */
export interface Rewrite {
  /** Mechanism that made the change: `context`, `prune`, `truncate`, `schemas`, … */
  readonly mechanism: string;
  /** Reason, in one sentence. */
  readonly reason: string;
  /** Removed content, in one sentence. */
  readonly removed: string;
  /** Tokens of the request before this change. */
  readonly tokensBefore: number;
  /** Tokens of the request after it. */
  readonly tokensAfter: number;
  /** User requests for single messages that this change fulfils. Default: none. */
  readonly asked?: readonly {
    /** Position of the message in the history. */
    readonly place: number;
    /** Restores and retains the message, or evicts it. */
    readonly wish: "keep" | "let_go";
    readonly by: string;
  }[];
}

/** The prompt that the model receives. */
export interface ContextView {
  readonly messages: readonly Message[];
  /** Tools in their current form. */
  readonly tools: readonly ToolDefinition[];
  /** Unchanged part of the messages. Default: unknown. */
  readonly stable?: StableMessages;
  /** Cache key of the conversation, for caches that are keyed by name. Default: none. */
  readonly cacheKey?: string;
  /** Changes that are new with this request. Sticky changes are reported once, when they are made. */
  readonly rewrites?: readonly Rewrite[];
  /** Tokens that each mechanism removes from this request, by mechanism. */
  readonly saved?: Readonly<Record<string, number>>;
  /** Prompt tokens that are expected to be served from the provider's cache. Default: 0. */
  readonly cachedTokens?: number;
  /** Usage of models that made the view, such as for a summary. Counted even if the request fails. */
  readonly usage?: Usage;
  /** Warnings for users, such as an archive that could not be written. */
  readonly warnings?: readonly string[];
  /**
   * Called once the request has succeeded, before the reply's calls run, with its own usage (without
   * retries). The returned plain data becomes the `ledger` of the step's end.
   */
  readonly succeeded?: (usage: Usage) => object | undefined;
  /**
   * Called with the provider's message if the prompt is too long; the hook is then called once more, for a
   * shorter one. Default: the turn ends.
   */
  readonly rejected?: (words: string) => void;
}

/** The loop's one hook: turns the conversation into the view that the next request sends. */
export type ContextHook = (request: {
  /** The whole conversation, including the active turn. */
  readonly messages: readonly Message[];
  /** Index in `messages` of the first message of the active turn. */
  readonly turnStart: number;
  /** Full definitions of the tools. */
  readonly tools: readonly ToolDefinition[];
  /** Number of the model call in this turn, from 1. */
  readonly step: number;
  /** Aborted when the turn is cancelled. Hooks that only compute or archive may ignore it. */
  readonly signal: AbortSignal;
  /** Resets the watchdog, for slow hooks such as one that requests a summary. */
  readonly progress: () => void;
}) => Promise<ContextView> | ContextView;

/** Token usage of one model call, normalized across providers. */
export interface Usage {
  /** Tokens of the whole prompt, including cached ones. */
  readonly promptTokens: number;
  /** Prompt tokens read from the cache. */
  readonly cachedTokens: number;
  /** Prompt tokens written to the cache, where reported. */
  readonly cacheWriteTokens?: number;
  /** Tokens written to the cache for an hour, where reported. */
  readonly hourWriteTokens?: number;
  /** Output tokens, including reasoning. */
  readonly outputTokens: number;
  /** Output tokens of reasoning, where reported. */
  readonly reasoningTokens?: number;
  /** True if the provider sent no usage and the numbers were counted here. */
  readonly estimated?: boolean;
  /**
   * Usage of the first prompt read, where the provider ran its own tools and read the prompt several times
   * for one reply; the other numbers are totals. Estimated if only totals were reported. Absent: read once,
   * or unknown.
   */
  readonly firstRead?: Omit<Usage, "outputTokens" | "firstRead">;
}

/** Cost of tokens. */
export interface Cost {
  /** Cost of prompts in cost units: one is the price of one uncached input token. Output is excluded. */
  readonly tokenUnits: number;
  /** Cost of prompts and replies in US dollars; absent if the model's price is unknown. */
  readonly usd?: number;
}

/** Returns the total of two usages. Optional fields that one of them lacks count as 0. */
export function addUsage(a: Usage, b: Usage): Usage {
  const both = (name: "cacheWriteTokens" | "hourWriteTokens" | "reasoningTokens") =>
    (a[name] ?? b[name]) !== undefined && { [name]: (a[name] ?? 0) + (b[name] ?? 0) };
  return {
    promptTokens: a.promptTokens + b.promptTokens,
    cachedTokens: a.cachedTokens + b.cachedTokens,
    ...both("cacheWriteTokens"),
    ...both("hourWriteTokens"),
    outputTokens: a.outputTokens + b.outputTokens,
    ...both("reasoningTokens"),
    ...((a.estimated || b.estimated) && { estimated: true }),
  };
}
