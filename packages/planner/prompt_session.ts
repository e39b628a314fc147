import type {
  CountTokens,
  Rewrite,
  StableMessages,
  ToolDefinition,
  ToolMessage,
  Usage,
} from "@tare/messages";
import type { Archive, ToolTraits } from "@tare/prune";
import type { Profile } from "./providers.ts";
import type { Summarize } from "./edits/make_summary.ts";
import type { Pin } from "./edits/pin.ts";
import type { History } from "./edits/view.ts";
import type { Idle, KeepAliveRequest } from "./clock/clock.ts";
import type { KeepAliveEntry, LedgerEntry, SentKeepAlive } from "./ledger/entry.ts";

/** Mechanisms that keep a prompt small, each on or off. */
export interface Mechanisms {
  /** Eviction of old steps and turns. */
  readonly context: boolean;
  /** Eviction of old tool results. */
  readonly prune: boolean;
  /** Compact schemas of tools after their first use. */
  readonly schemas: boolean;
  /** Truncation of huge results. */
  readonly truncate: boolean;
  /** Deduplication by references. */
  readonly references: boolean;
  /** Normalization of results. */
  readonly normalization: boolean;
}

/** Options of a {@linkcode PromptSession}. */
export interface PromptSessionOptions {
  /**
   * The provider's cache rules and prices, or a function that returns the current ones. If it is `none`,
   * usage with cached tokens corrects it.
   */
  readonly profile: Profile | (() => Profile);
  /** Archive of evicted content. */
  readonly archive: Archive;
  /** Token counter; counts are cached by object. */
  readonly countTokens: CountTokens;
  /**
   * The model's context window in tokens, or a function that returns the current one. Default: unknown, no
   * limit.
   */
  readonly windowTokens?: number | (() => number | undefined);
  /**
   * Dry run: requests are sent unchanged, and the ledger contains the plan's cost (`LedgerEntry.projected`).
   * Nothing is archived or summarized. Default: false.
   */
  readonly dryRun?: boolean | undefined;
  /** Active mechanisms. Default: all. */
  readonly mechanisms?: Partial<Mechanisms> | undefined;
  /**
   * Weight of refetches: `balanced` counts failed edits and repeated reads, too; `eager` evicts sooner, for
   * work that hardly returns to what it read; `lossless` evicts nothing until the window is full. Default:
   * `balanced`.
   */
  readonly evict?: "lossless" | "balanced" | "eager" | undefined;
  /** Traits of the tools, by name. Default: none. */
  readonly tools?: ToolTraits | undefined;
  /**
   * Summarizes old messages if the window is full of messages other than tool results. Default: old turns are
   * evicted.
   */
  readonly summarize?: Summarize | undefined;
  /** Longest result that isn't truncated, in tokens. Default: 16,000; 8,000 for classic sessions. */
  readonly truncateTokens?: number | undefined;
  /** Names of tools whose schemas stay full. Default: none. */
  readonly alwaysFull?: readonly string[] | undefined;
  /** Stored {@linkcode PromptSession.state}. Default: a new session. */
  readonly state?: unknown;
  /** Options that few callers need. Default: none. */
  readonly advanced?: AdvancedSessionOptions;
}

/** Options of a {@linkcode PromptSession} that few callers need. */
export interface AdvancedSessionOptions {
  /**
   * Whether the window is assumed. Then a prompt that doesn't fit is sent, for the provider to refuse.
   * Default: false.
   */
  readonly assumesWindow?: boolean | (() => boolean);
  /** Compaction by the client, for the baseline. Default: the cheapest known one. */
  readonly compaction?: {
    /**
     * Returns the prompt tokens from which it compacts, for replies of up to `replyTokens`. Default: where
     * the rest of the window can't hold a reply. `listedTokens` is the model's published window.
     */
    readonly fullFrom?: (
      windowTokens: number,
      replyTokens: number | undefined,
      listedTokens?: number,
    ) => number;
    /** Whether it decides by the last prompt, not by the next one. Default: false. */
    readonly isLate?: boolean;
    /**
     * Characters of each result in the summary call, which then contains only the removed messages. Default:
     * the whole prompt, which a warm cache serves.
     */
    readonly resultChars?: number;
    /** Returns the characters of the retained newest messages, as JSON, by `fullFrom`. Default: none. */
    readonly retainedChars?: (fullFrom: number) => number;
    /** Tokens of other content retained after the session's first prompt. Default: 0. */
    readonly retainedTokens?: number;
    /** Whether a warm cache serves that first prompt; otherwise only its tools and system messages. */
    readonly keepsFront: boolean;
  } | undefined;
  /**
   * Returns whether a result without a stated outcome reports an error. Default: that of `selectElisions`.
   */
  readonly isError?: ((message: ToolMessage, index: number) => boolean) | undefined;
  /** Retention rules. Default: evict what costs more to carry than to fetch again. */
  readonly retention?: Partial<Retention>;
  /**
   * Most that a rewrite may lose if the session ended right after it, as a share of the cost of resending
   * everything. At twice this loss, and at least 2,000 cost units, rewriting stops. Infinite: no limit.
   * Default: 0.05.
   */
  readonly lossLimit?: number;
  /** Runs long work step by step, so that other work can run in between. Default: all steps at once. */
  readonly inSlices?: (steps: Iterator<void, void>) => Promise<void>;
  /** Stored {@linkcode PromptSession.inspected}. Default: none. */
  readonly inspected?: unknown;
}

export interface FlatSessionOptions extends Omit<PromptSessionOptions, "advanced">, AdvancedSessionOptions {}

export function allAtOnce(steps: Iterator<void, void>): Promise<void> {
  while (!steps.next().done) { /* The steps do the work. */ }
  return Promise.resolve();
}

/** Properties of a message that a retention rule uses before one call. Ages are in calls, counted from 1. */
export interface Standing {
  /** Tokens of the message, as the provider counts them. */
  readonly tokens: number;
  /** Whether it contains text of a file: a read's result, or a call that edits or writes. */
  readonly fileText: boolean;
  /** Whether it edits or writes, or is a read of the batch that is being edited: no read has followed the first edit. */
  readonly isWorkedOn: boolean;
  /** Number of names that last appeared in it. */
  readonly names: number;
  /** Calls since it entered. */
  readonly age: number;
  /** Calls since it entered or a call last used one of its names. */
  readonly wantedAge: number;
  /** Tokens at the start of the prompt that only the provider sees. */
  readonly unseenTokens: number;
}

/** Rules for eviction. */
export interface Retention {
  /**
   * Returns how often the next call is expected to need a message. A message that costs more to carry than
   * this times its refetch cost may be evicted. Must not grow while nothing refers to the message.
   */
  readonly hazard: (standing: Standing) => number;
  /** Returns the cost of needing an evicted message, in cost units. */
  readonly refetchCost: (standing: Pick<Standing, "tokens" | "unseenTokens">, profile: Profile) => number;
  /** Protected tokens at the end, at most half the window, for results. Infinite: none is evicted. */
  readonly resultTailTokens: number;
  /**
   * Protected tokens at the end, at most a quarter of the window, for steps of old turns. Infinite: none is
   * evicted.
   */
  readonly stepTailTokens: number;
  /** Whether schemas of called tools are compact. */
  readonly compactTools: boolean;
  /** Calls within which a cut must pay for writing the rest again. 0: no such condition. */
  readonly horizonCalls: number;
  /**
   * Weight multiplier for an active-turn read of a file that the user named and that has not been edited
   * since.
   */
  readonly namedWeight: number;
  /** Weight multiplier for an unanswered error, unless it is evicted with its step. Infinite: errors stay. */
  readonly errorWeight: number;
}

/** A planned model call. */
export interface PromptCall {
  /** Time in milliseconds since any fixed moment. */
  readonly nowMs: number;
  /** Name of the model: each model has its own cache. Default: always the same. */
  readonly model?: string | undefined;
  /** Position of the first message of the active turn. Default: the start of the last turn. */
  readonly turnStart?: number;
  /** Number of the call in this turn, from 1. Default: derived from the messages since the user's last. */
  readonly step?: number;
  /**
   * Whether the request isn't a turn, such as one for a title, a summary or a token count. It gets the
   * model's newest view plus new messages; nothing is changed or recorded. Default: false.
   */
  readonly oneShot?: boolean;
  /**
   * Whether a request that isn't a turn gets evicted content back, the newest first, as far as it fits; for
   * compaction by the client. {@linkcode PromptSession.sent} returns its cost. Default: false.
   */
  readonly restores?: boolean;
  /** Whether everything evictable is evicted with this call, whatever it costs. Default: false. */
  readonly evictNow?: boolean | undefined;
  /** Longest reply in tokens, for the client's compaction. Default: unknown. */
  readonly replyTokens?: number | undefined;
  /** Tools whose definitions are not in the request. Default: none. */
  readonly deferred?: {
    /** The tools of the request without deferral. */
    readonly tools: readonly ToolDefinition[];
    /** Tokens that the definitions would add; negative if they would remove some. */
    readonly tokens: number;
    /** Whether the call only follows a lookup of definitions and would not have been made otherwise. */
    readonly isDetour: boolean;
  } | undefined;
  /** Whether the model can recall evicted content. Default: whether `recall` is among the tools. */
  readonly recall?: boolean;
  /** Pins of single messages. Default: none. */
  readonly pins?: readonly Pin[] | undefined;
  /** Signal that aborts the wait for a summary. Default: none. */
  readonly signal?: AbortSignal | undefined;
  /** Callback during a long summary. Default: none. */
  readonly progress?: (() => void) | undefined;
}

/** Content and changes of one model call. Plain data. */
export interface SessionView extends History {
  /** Position of each message in the history; −1 for a line that replaces several. */
  readonly places: readonly number[];
  /** Messages that will not change. Absent: unknown to the policy. */
  readonly stable?: StableMessages;
  /** Rewrites for this call with their reasons. A lasting change is reported once. */
  readonly rewrites: readonly Rewrite[];
  /** Warnings for users, such as that the archive could not be written. */
  readonly warnings: readonly string[];
  /** Pins that ended because the window has no room for their messages. Absent: none. */
  readonly endedPins?: readonly Pin[];
  /** Usage of the summary call for this view. Absent: none was made. */
  readonly summary?: Usage;
  /** Tokens that each mechanism removes from this request. */
  readonly saved: Readonly<Record<keyof Mechanisms, number>> & {
    /** Tokens removed by deferring tools; negative if added. Absent: no tool is deferred. */
    readonly deferred?: number;
  };
  /** Tokens of messages and tools, counted locally. */
  readonly promptTokens: number;
  /** Tokens of these that the provider's cache serves if it is still warm. */
  readonly predictedCachedTokens: number;
}

/** Error for a prompt that exceeds the model's window after every eviction that is worth it. */
export class PromptTooLong extends Error {
  override readonly name = "PromptTooLong";
  /** Estimated tokens of that prompt, as the provider counts. */
  readonly promptTokens: number;
  readonly windowTokens: number;
  /** The longest message that can't be evicted. */
  readonly longest: {
    /** Position in the history; −1: the tools. */
    readonly place: number;
    readonly tokens: number;
  };

  constructor(
    { promptTokens, windowTokens, longest }: Pick<PromptTooLong, "promptTokens" | "windowTokens" | "longest">,
    what: string,
  ) {
    super(
      `Cannot send the prompt: it has about ${promptTokens} tokens, and the model ` +
        `reads ${windowTokens} at most. ${what} takes about ${longest.tokens} of them. ${WHAT_TO_DO}.`,
    );
    this.promptTokens = promptTokens;
    this.windowTokens = windowTokens;
    this.longest = longest;
  }
}

const WHAT_TO_DO = "Shorten or split it, put it in a file that is read piece by piece, or use a model with " +
  "a larger window";

/** Cost of one prompt in cost units: the price of one uncached input token is 1. */
export type QuotedPrompt = Quote["asIs"];

/** Cost of a request before it is sent. */
export interface Quote {
  readonly asIs: {
    readonly promptTokens: number;
    readonly cachedTokens: number;
    /** Cost with a warm cache. */
    readonly warmCostUnits: number;
    /** Cost with a cold cache. */
    readonly coldCostUnits: number;
  };
  /** The prompt without everything evictable, estimated. */
  readonly rewritten: Quote["asIs"];
  /** Cache hit probability. */
  readonly cacheHitProbability: number;
}

/** Options of {@linkcode PromptSession.fork}. */
export interface ForkOptions {
  /**
   * Whether the fork only plans a request of this session that isn't a turn and is compared with this
   * session's baseline. Default: false.
   */
  readonly aside?: boolean;
}

/**
 * Decides the model's view of one session, call by call. Before each call: {@linkcode PromptSession.view},
 * store {@linkcode PromptSession.state}, send the view. After it: {@linkcode PromptSession.sent}, store the
 * state again. A crash in between loses nothing. The history may be truncated, or branch.
 */
export interface PromptSession {
  /**
   * Returns the next request for the whole history and the full tools. Views are made one after the other;
   * edits of removed messages are removed.
   *
   * @throws {PromptTooLong} if the model's window can't hold it, whatever is evicted.
   */
  view(history: History, call: PromptCall): Promise<SessionView>;
  /**
   * Records a successful call. Returns its ledger entry if the policy keeps a ledger.
   * @param usage Reported usage of this call; absent or `estimated` if none was reported.
   * @param view The view that was sent. Default: the newest.
   * @param heldTokens Tokens shared with the provider's cache, counted locally. Default: derived from this
   * session's requests.
   * @throws {Error} if there was no view since the session was made.
   */
  sent(usage?: Usage, view?: SessionView, heldTokens?: number): LedgerEntry | undefined;
  /**
   * Records a call that the provider refused because its prompt is too long. The next view is shorter. The
   * window is stored in the state by model.
   * @param limit Most tokens of the model, if the provider reported it: see `readTooLong()`.
   * @throws {Error} if there was no view since the session was made.
   */
  rejected(limit?: number, refusal?: {
    /** Tokens of the prompt, if the provider reported them. */
    readonly promptTokens?: number | undefined;
    /** The view that was sent. Default: the newest. */
    readonly view?: SessionView;
  }): void;
  /**
   * State for a restart: plain JSON data, the same object until it changes. Must be stored after each view,
   * before its request is sent, and after {@linkcode PromptSession.sent}.
   */
  readonly state: unknown;
  /** Returns the cost of a request for this history before it is sent. Absent: the policy has no costs. */
  readonly quote?: (history: History, call: PromptCall) => Quote;
  /**
   * Returns the next keep-alive request for the newest prefix; `undefined` if its cache may expire. Sets no
   * timer: call it after each request and keep-alive request, when the awaited party changes, and when the
   * request is due. Absent: the policy has no costs.
   *
   * @example
   * ```ts
   * import { assertEquals } from "@std/assert";
   * import { estimateTokens } from "@tare/messages";
   * import { observeUpgrade, plannerSession, profileNamed, UNTRIED } from "@tare/planner";
   * import { memoryArchive } from "@tare/prune";
   *
   * const session = plannerSession({
   *   profile: profileNamed("anthropic-5m"),
   *   archive: memoryArchive(),
   *   countTokens: estimateTokens,
   * });
   * const messages = [{ role: "user", content: "Is the server up?" }] as const;
   * for (let minute = 0; minute < 40; minute++) {
   *   await session.view({ messages, tools: [] }, { nowMs: minute * 60_000 });
   *   session.sent({ promptTokens: 50_000, cachedTokens: minute === 0 ? 0 : 49_000, outputTokens: 300 });
   * }
   * // To be stored for each provider, key and model.
   * let trial = UNTRIED;
   * const request = session.nextKeepAlive({ nowMs: 40 * 60_000, pending: "user", trial });
   * assertEquals([request?.type, request?.atMs], ["upgrade", 39 * 60_000 + 280_000]);
   * // Send it then, and pass the reported usage: here the provider grants the hour.
   * const usage = {
   *   promptTokens: 50_305,
   *   cachedTokens: 50_000,
   *   cacheWriteTokens: 300,
   *   hourWriteTokens: 300,
   *   outputTokens: 0,
   * };
   * const { costUnits, upgrade } = session.recordKeepAlive({ type: "upgrade", atMs: request!.atMs, usage });
   * if (upgrade) trial = observeUpgrade(trial, upgrade); // also with `keepAlive.upgrade` of each ledger entry
   * assertEquals([costUnits, trial.isBilled], [5_605, true]);
   * assertEquals(session.nextKeepAlive({ nowMs: request!.atMs, pending: "user", trial }), undefined);
   * ```
   */
  readonly nextKeepAlive?: (idle: Idle) => KeepAliveRequest | undefined;
  /**
   * Records a successful keep-alive request and returns its cost. The state must be stored afterwards. Absent
   * if `nextKeepAlive` is.
   * @throws {Error} if nothing was sent yet.
   */
  readonly recordKeepAlive?: (request: SentKeepAlive) => KeepAliveEntry;
  /** Reason why messages can't be pinned, to follow "Cannot pin". Absent: they can. */
  readonly noPins?: string | undefined;
  /** The current cache rules and prices. */
  readonly profile: Profile;
  /**
   * Data for a restart, in addition to {@linkcode PromptSession.state}, if the history may differ from the
   * one viewed last: hashes and token counts of its messages, as plain JSON data, made on access. Absent:
   * there was no view, or the policy needs none.
   */
  readonly inspected?: unknown;
  /**
   * Continues from a {@linkcode PromptSession.state} that this session reached elsewhere, without analyzing
   * the messages again. No call may be in progress. Absent: make a session with that state.
   * @throws {TypeError} if the state is invalid.
   */
  readonly resume?: (state: unknown) => void;
  /** Removes the edits of all but the first `length` messages, after the history was truncated there. */
  cutBack(length: number): void;
  /**
   * Returns a new session with the plan for the first `length` messages and without this one's costs. Its
   * first request starts like this one's last while that is cached. Its archive must contain everything in
   * this one's.
   */
  fork(length: number, archive: Archive, options?: ForkOptions): PromptSession;
  /** Removes all edits; requests are sent unchanged from now on. */
  revert(): void;
}

/** All mechanisms off. */
export const NO_MECHANISMS: Mechanisms = eachMechanism(false);

/** Returns the same value for each mechanism. */
export function eachMechanism<T>(value: T): Readonly<Record<keyof Mechanisms, T>> {
  return {
    context: value,
    prune: value,
    schemas: value,
    truncate: value,
    references: value,
    normalization: value,
  };
}
