import type { AssistantMessage, Message } from "./message.ts";
import type { ToolDefinition } from "./tool.ts";

/** What of a prompt's messages stays as it is, for providers that cache only up to where a request asks for it. */
export interface StableMessages {
  /** How many of them, from the first, an earlier request showed too. */
  readonly shared: number;
  /** How many of all end with the last that shows something else than when it came; 0 if none does. */
  readonly edited: number;
}

/**
 * How a model shall write, in the words of chat completions. What is absent is the provider's own default; what a
 * provider's protocol has no place for is refused, never dropped.
 */
export interface ModelSettings {
  readonly temperature?: number;
  readonly top_p?: number;
  readonly frequency_penalty?: number;
  readonly presence_penalty?: number;
  readonly seed?: number;
  readonly reasoning_effort?: string;
  readonly verbosity?: string;
  /** That a tool must be called, or which one. Default: the model chooses. */
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
  /** The tools that the model may call. */
  readonly tools: readonly ToolDefinition[];
  /** How the model shall write. Default: as the provider likes. */
  readonly settings?: ModelSettings;
  /** What stays as it is. Default: it isn't known. */
  readonly stable?: StableMessages;
  /** Names the conversation for caches that are found by a name. Default: it has none. */
  readonly cacheKey?: string;
  /** Aborting it stops the request. */
  readonly signal: AbortSignal;
  /** Called when the provider shows that it is alive in a way that is no event, such as a keep-alive. */
  readonly progress?: () => void;
  /** Told of each answer that is a refusal, such as "api.example limits the rate of requests (429)": it may be asked again. And with nothing once one is none. */
  readonly refused?: (why: string | undefined) => void;
  /**
   * Told why that a reply broke off and is asked for again: what came of it doesn't count. Default: one of which anybody has
   * seen something isn't asked for again.
   */
  readonly restarted?: (why: string) => void;
  /** Throws if nobody is to be asked any more: a model asks right before each request that it sends. Default: it may. */
  readonly confirm?: () => void;
  /**
   * Told right before the reply is complete how its prompt is kept in the provider's cache. Never called by a model whose
   * provider has no cheap request for that.
   */
  readonly keepable?: (prompt: KeepablePrompt) => void;
}

/** The prompt of a request that was answered: asked for again, it stays in the provider's cache. */
export interface KeepablePrompt {
  /** Content blocks of the reply. */
  readonly answerBlocks: number;
  /**
   * Asks for it once: `exact` again as it was, without a reply; `upgrade` with the reply behind it, to last for an hour.
   * Gives what that took; nothing if the provider doesn't say.
   *
   * @throws {ModelError} if the provider refuses or can't be reached. It isn't asked again.
   */
  readonly ping: (type: "exact" | "upgrade", signal: AbortSignal) => Promise<Usage | undefined>;
}

/** Why the model stopped writing. */
export type FinishReason = "stop" | "tool_calls" | "length" | "content_filter";

/**
 * What a model streams. The last event of a reply is `completed`; everything before is for those who watch. Calls of
 * which deltas came may be written anew: a stream that breaks off before it has said anything else is asked for again,
 * and one that has where `restarted` is told of it.
 */
export type ModelEvent =
  | { readonly type: "text_delta"; readonly text: string }
  | { readonly type: "reasoning_delta"; readonly text: string }
  | {
    readonly type: "tool_call_delta";
    /** Position of the call in the reply. */
    readonly index: number;
    /** As the provider sent it: perhaps missing, perhaps not unique. `completed` has the final one. */
    readonly id?: string;
    readonly name?: string;
    readonly arguments?: string;
  }
  | {
    readonly type: "completed";
    /** The whole reply, with every field that the provider sent. Its tool calls have ids that are unique and not empty. */
    readonly message: AssistantMessage;
    readonly finishReason: FinishReason;
    /** Absent if the provider sent none. */
    readonly usage?: Usage;
  };

/** The model port: one call of it is one request. Throws `ModelError` when the provider fails. */
export type Model = (request: ModelRequest) => AsyncIterable<ModelEvent>;

/** A change of what the model sees: what left the prompt, and why. */
export interface Rewrite {
  /** Which mechanism made it: `context`, `prune`, `truncate`, `schemas`, … */
  readonly mechanism: string;
  /** Why now, in one sentence. */
  readonly reason: string;
  /** What left, in one sentence. */
  readonly removed: string;
  /** Tokens of the request before this change. */
  readonly tokensBefore: number;
  /** Tokens of the request after it. */
  readonly tokensAfter: number;
  /** What people had asked for of single messages and was done with it. Default: nothing. */
  readonly asked?: readonly {
    /** Position of the message in the history. */
    readonly place: number;
    /** That it comes back and stays, or that it leaves. */
    readonly wish: "keep" | "let_go";
    readonly by: string;
  }[];
}

/** What the model shall see. */
export interface ContextView {
  readonly messages: readonly Message[];
  /** The tools, each in the form that the model is shown now. */
  readonly tools: readonly ToolDefinition[];
  /** What of the messages stays as it is. Default: it isn't known. */
  readonly stable?: StableMessages;
  /** Names the conversation for caches that are found by a name. Default: it has none. */
  readonly cacheKey?: string;
  /** Changes that are new with this request. Sticky changes are reported once, when they are made. */
  readonly rewrites?: readonly Rewrite[];
  /** Tokens that each mechanism keeps out of this very request, by its name. */
  readonly saved?: Readonly<Record<string, number>>;
  /** Of the prompt, tokens that the provider's cache is expected to serve. Default: 0. */
  readonly cachedTokens?: number;
  /** What models were paid for making it, such as one that summarised. It counts even if the request fails. */
  readonly usage?: Usage;
  /** Sentences for people, such as an archive that could not be written. */
  readonly warnings?: readonly string[];
  /**
   * Called once the request has succeeded, with its own usage (not summed over retries), before the reply's calls are
   * run. What it returns, plain data, becomes the `ledger` of the step's end.
   */
  readonly succeeded?: (usage: Usage) => object | undefined;
  /**
   * Called if the provider refused the request because its prompt is too long, with what it said; then the hook is asked
   * once more, for a shorter one. Default: the turn ends.
   */
  readonly rejected?: (words: string) => void;
}

/** The loop's one hook: turns the conversation into the view that the next request sends. */
export type ContextHook = (request: {
  /** The whole conversation, the active turn included. */
  readonly messages: readonly Message[];
  /** Index in `messages` of the first message of the active turn. */
  readonly turnStart: number;
  /** Full definitions of the tools. */
  readonly tools: readonly ToolDefinition[];
  /** Number of the model call in this turn, from 1. */
  readonly step: number;
  /** Aborted when the turn is cancelled. A hook that only computes or archives need not look at it. */
  readonly signal: AbortSignal;
  /** Tells the watchdog that a hook which takes long, such as one that asks a model for a summary, is alive. */
  readonly progress: () => void;
}) => Promise<ContextView> | ContextView;

/** Tokens of one model call, in one dialect for all providers. */
export interface Usage {
  /** Tokens of the whole prompt, cached ones included. */
  readonly promptTokens: number;
  /** Of these, tokens that the provider served from its prefix cache. */
  readonly cachedTokens: number;
  /** Of these, tokens that the provider says it wrote to its cache, where it says so. */
  readonly cacheWriteTokens?: number;
  /** Of the tokens written to the cache, those that stay there for an hour, where it says so. */
  readonly hourWriteTokens?: number;
  /** Tokens that the model wrote, reasoning included. */
  readonly outputTokens: number;
  /** Of these, tokens of reasoning, where it tells of any. */
  readonly reasoningTokens?: number;
  /** True if the provider sent no usage and the numbers were counted here. */
  readonly estimated?: boolean;
  /**
   * What the prompt took when it was read first, where the provider read it more than once for one reply, because it ran tools
   * of its own: the other numbers are sums. Estimated if it told no more than these. Absent: it was read once, or nobody knows.
   */
  readonly firstRead?: Omit<Usage, "outputTokens" | "firstRead">;
}

/** What tokens cost. */
export interface Cost {
  /** What prompts cost in token units: the price of one uncached input token is 1. Output isn't in it. */
  readonly tokenUnits: number;
  /** What prompts and replies cost in US dollars; absent where the model's price isn't known. */
  readonly usd?: number;
}

/** What two calls took together. What one of them doesn't report of cache writes is not in the sum. */
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
