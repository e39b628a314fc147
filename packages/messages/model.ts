import type { AssistantMessage, Message } from "./message.ts";
import type { ToolDefinition } from "./tool.ts";

/** Unchanged part of a prompt, for cache breakpoints. */
export interface StableMessages {
  /** Number of leading messages that an earlier request also contained. */
  readonly shared: number;
  /** Number of messages up to the last edited one; 0 without one. */
  readonly edited: number;
}

/**
 * Generation settings of chat completions. Default: the provider's. Settings that its protocol doesn't
 * support are refused.
 */
export interface ModelSettings {
  readonly temperature?: number;
  readonly top_p?: number;
  readonly frequency_penalty?: number;
  readonly presence_penalty?: number;
  readonly seed?: number;
  readonly reasoning_effort?: string;
  readonly verbosity?: string;
  /** Requires a tool call, optionally of one tool. Default: the model chooses. */
  readonly tool_choice?: "required" | {
    readonly type: "function";
    readonly function: { readonly name: string };
  };
  readonly parallel_tool_calls?: boolean;
}

/** One request to a model. */
export interface ModelRequest {
  readonly messages: readonly Message[];
  readonly tools: readonly ToolDefinition[];
  readonly settings?: ModelSettings;
  /** Default: unknown. */
  readonly stable?: StableMessages;
  /** Key of the provider's cache, where it has one. Default: none. */
  readonly cacheKey?: string;
  readonly signal: AbortSignal;
  /** Called at keep-alives and other signs of life without event. */
  readonly progress?: () => void;
  /**
   * Called with the reason of each retryable refusal, such as "api.example limits the rate of requests
   * (429)", and without one after a success.
   */
  readonly refused?: (why: string | undefined) => void;
  /**
   * Called with the reason before a retry that invalidates previous events. Default: replies with visible
   * output aren't retried.
   */
  readonly restarted?: (why: string) => void;
  /** Throws if no request may be sent any more; called right before each one. Default: allowed. */
  readonly confirm?: () => void;
  /** Called right before the reply is complete, if its prompt can be kept cached cheaply. */
  readonly keepable?: (prompt: KeepablePrompt) => void;
}

/** A prompt that can be kept cached. */
export interface KeepablePrompt {
  readonly answerBlocks: number;
  /**
   * Sends one keep-alive request, without retry: `exact` repeats the prompt; `upgrade` adds the reply and
   * extends the lifetime to an hour. Returns its usage, if reported.
   * @throws {ModelError} if the provider refuses or can't be reached.
   */
  readonly keepAliveBytes: (type: "exact" | "upgrade", signal: AbortSignal) => Promise<Usage | undefined>;
}

/** Reason why a reply ended. */
export type FinishReason = "stop" | "tool_calls" | "length" | "content_filter";

/**
 * A streamed event of a model. `completed` is the last one; the others are for display. Tool-call deltas may
 * repeat after a retry, as may all deltas where `restarted` is set.
 */
export type ModelEvent =
  | { readonly type: "text_delta"; readonly text: string }
  | { readonly type: "reasoning_delta"; readonly text: string }
  | {
    readonly type: "tool_call_delta";
    /** Position of the call. */
    readonly index: number;
    /** The provider's id, possibly missing or not unique. */
    readonly id?: string;
    readonly name?: string;
    readonly arguments?: string;
  }
  | {
    readonly type: "completed";
    /** The complete reply, with every field of the provider. Calls have unique, non-empty ids. */
    readonly message: AssistantMessage;
    readonly finishReason: FinishReason;
    readonly usage?: Usage;
  };

/** The model port: one request per call. Throws `ModelError` when the provider fails. */
export type Model = (request: ModelRequest) => AsyncIterable<ModelEvent>;

/** A change of the visible prompt. */
export interface Rewrite {
  /** `context`, `prune`, `truncate`, `schemas`, … */
  readonly mechanism: string;
  /** One sentence. */
  readonly reason: string;
  /** Removed content, in one sentence. */
  readonly removed: string;
  readonly tokensBefore: number;
  readonly tokensAfter: number;
  /** Fulfilled user requests. Default: none. */
  readonly pins?: readonly {
    readonly place: number;
    /** Retains or evicts the message. */
    readonly wish: "retain" | "evict";
    readonly by: string;
  }[];
}

/** The visible prompt. */
export interface ContextView {
  readonly messages: readonly Message[];
  readonly tools: readonly ToolDefinition[];
  /** Default: unknown. */
  readonly stable?: StableMessages;
  /** Key of the provider's cache, where it has one. Default: none. */
  readonly cacheKey?: string;
  /** New changes; sticky ones are reported once. */
  readonly rewrites?: readonly Rewrite[];
  /** Tokens removed from this request, by mechanism. */
  readonly saved?: Readonly<Record<string, number>>;
  /** Prompt tokens expected from the provider's cache. Default: 0. */
  readonly cachedTokens?: number;
  /** Usage of models that made the view, such as for a summary; counted even if the request fails. */
  readonly usage?: Usage;
  readonly warnings?: readonly string[];
  /**
   * Called with the usage of a successful request (without retries), before its calls run. The returned plain
   * data becomes the `ledger` of the step's end.
   */
  readonly succeeded?: (usage: Usage) => object | undefined;
  /**
   * Called with the provider's message if the prompt is too long, before the hook is called for a shorter
   * one. Default: the turn ends.
   */
  readonly rejected?: (words: string) => void;
}

/** The loop's hook: turns the conversation into a view. */
export type ContextHook = (request: {
  /** Includes the active turn. */
  readonly messages: readonly Message[];
  /** Index of the active turn's first message. */
  readonly turnStart: number;
  readonly tools: readonly ToolDefinition[];
  /** Number of the call in this turn, from 1. */
  readonly step: number;
  readonly signal: AbortSignal;
  /** Resets the watchdog, for slow hooks. */
  readonly progress: () => void;
}) => Promise<ContextView> | ContextView;

/** Token usage of one model call, normalized across providers. */
export interface Usage {
  /** All prompt tokens, including cached ones. */
  readonly promptTokens: number;
  /** Prompt tokens read from the cache. */
  readonly cachedTokens: number;
  /** Prompt tokens written to the cache, if reported. */
  readonly cacheWriteTokens?: number;
  /** Cache writes for an hour, if reported. */
  readonly hourWriteTokens?: number;
  /** Includes reasoning. */
  readonly outputTokens: number;
  readonly reasoningTokens?: number;
  /** True if the provider sent no usage. */
  readonly estimated?: boolean;
  /**
   * Usage of the first prompt read, if the provider's own tools caused several; the others are totals.
   * Absent: read once, or unknown.
   */
  readonly firstRead?: Pick<
    Usage,
    "promptTokens" | "cachedTokens" | "cacheWriteTokens" | "hourWriteTokens" | "estimated"
  >;
  /** Service tier or speed other than standard, such as `priority`, `flex`, `batch` or `fast`. */
  readonly tier?: string;
  /** Region of the inference if not global, such as `us`. */
  readonly region?: string;
  /** Uses of the provider's own tools by name, such as `web_search`. */
  readonly serverTools?: Readonly<Record<string, number>>;
  /** Model that served the call in place of the requested one. */
  readonly model?: string;
  /** Model calls inside this one; the other fields exclude them. */
  readonly innerCalls?: readonly InnerCall[];
  /** Cost in US dollars as reported by the provider. */
  readonly reportedUsd?: number;
}

/** Usage of a model call inside another one, such as a compaction or an advisor. */
export interface InnerCall extends
  Pick<
    Usage,
    "promptTokens" | "cachedTokens" | "cacheWriteTokens" | "hourWriteTokens" | "outputTokens"
  > {
  /** Purpose as reported, such as `compaction` or `advisor_message`. */
  readonly type: string;
  /** Absent: unknown, or for a compaction the model of the outer call. */
  readonly model?: string;
}

/** Cost of model calls. */
export interface Cost {
  /** Cost of prompts, without output, in cost units: one is the price of one uncached input token. */
  readonly costUnits: number;
  /** Total cost in US dollars; absent if the price is unknown. */
  readonly usd?: number;
}

/** Returns the total of two usages. Different tiers or regions become a name without a price. */
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
    ...addBilling(a, b),
  };
}

type Billing = Pick<Usage, "tier" | "region" | "serverTools" | "innerCalls" | "reportedUsd">;

function addBilling(a: Billing, b: Billing): Billing {
  const named = (name: "tier" | "region", usual: string) =>
    (a[name] ?? b[name]) !== undefined &&
    { [name]: [...new Set([a[name] ?? usual, b[name] ?? usual])].join(" and ") };
  const serverTools: Record<string, number> = { ...a.serverTools };
  for (const [name, uses] of Object.entries(b.serverTools ?? {})) {
    serverTools[name] = (serverTools[name] ?? 0) + uses;
  }
  const innerCalls = [...a.innerCalls ?? [], ...b.innerCalls ?? []];
  return {
    ...named("tier", "standard"),
    ...named("region", "global"),
    ...(Object.keys(serverTools).length > 0 && { serverTools }),
    ...(innerCalls.length > 0 && { innerCalls }),
    ...(a.reportedUsd !== undefined && b.reportedUsd !== undefined &&
      { reportedUsd: a.reportedUsd + b.reportedUsd }),
  };
}
