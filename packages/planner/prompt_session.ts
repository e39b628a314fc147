import type { CountTokens, Rewrite, StableMessages, ToolMessage, Usage } from "@tare/messages";
import type { Archive, ToolTraits } from "@tare/prune";
import type { Profile } from "./providers.ts";
import type { Summarise } from "./edits/make_summary.ts";
import type { Pin } from "./edits/pin.ts";
import type { History } from "./edits/view.ts";
import type { Idle, Ping } from "./clock/clock.ts";
import type { LedgerEntry, PingEntry, PingSent } from "./ledger/entry.ts";

/** The mechanisms that keep a prompt small, each on or off. */
export interface Mechanisms {
  /** Old turns leave the prompt. */
  readonly context: boolean;
  /** Old tool results become placeholders. */
  readonly prune: boolean;
  /** A tool's schema is shown in full once and compact afterwards. */
  readonly schemas: boolean;
  /** A huge result enters the prompt as its head and tail. */
  readonly truncate: boolean;
  /** What the prompt shows already enters it as a reference. */
  readonly references: boolean;
  /** A result enters the prompt without redundant notation, such as a number in front of each line. */
  readonly notation: boolean;
}

/** Options of a {@linkcode PromptSession}. */
export interface PromptSessionOptions {
  /**
   * The provider's cache rules and prices, or a function that returns the current ones. If it is `none`, usage that
   * reports cached tokens corrects it. A provider that reports no cache reads for two calls in a row that should have
   * read some counts as one without a cache until it reports a read.
   */
  readonly profile: Profile | (() => Profile);
  /** Stores what leaves the prompt. */
  readonly archive: Archive;
  /** Counts tokens; the count of an object is remembered. */
  readonly countTokens: CountTokens;
  /** The model's context window, or a function that returns the current one. Default: unknown, and no limit. */
  readonly windowTokens?: number | (() => number | undefined);
  /**
   * Dry run: everything is sent as it is, and the ledger reports what the planner would have made of it
   * (`LedgerEntry.projected`). Nothing is archived and no summary is requested. Default: false.
   */
  readonly observe?: boolean | undefined;
  /** Which mechanisms work. Default: all; `references` only in lossless mode and where cache reads cost next to nothing. */
  readonly mechanisms?: Partial<Mechanisms> | undefined;
  /**
   * What leaves a prompt: what costs more than it is worth, or `nothing` (lossless mode) as long as the window isn't full.
   * Lossless deduplication still applies then, and huge results enter whole. Default: `costly`.
   */
  readonly forget?: "costly" | "nothing" | undefined;
  /** Traits of the tools, by name, as pruning uses them. Default: none. */
  readonly tools?: ToolTraits | undefined;
  /** Summarizes old messages if the window is full of what isn't tool results. Default: old turns are dropped. */
  readonly summarise?: Summarise | undefined;
  /** Longest result that enters the prompt whole, in tokens. Default: 16,000; 8,000 for classic sessions. */
  readonly truncateTokens?: number | undefined;
  /** Names of tools that are always shown in full. Default: none. */
  readonly alwaysFull?: readonly string[] | undefined;
  /** {@linkcode PromptSession.state} as it was stored last. Default: a new session. */
  readonly state?: unknown;
  /** Options that few callers need. */
  readonly advanced?: AdvancedSessionOptions;
}

/** Options of a {@linkcode PromptSession} that few callers need. */
export interface AdvancedSessionOptions {
  /**
   * Whether the window is only assumed. Then a prompt that doesn't fit is sent, for the provider to refuse, rather than
   * refused by {@linkcode PromptSession.view}. Default: false.
   */
  readonly assumesWindow?: boolean | (() => boolean);
  /** How the client would compact a conversation that doesn't fit, for the baseline. Default: the cheapest known way. */
  readonly compaction?: {
    /**
     * Returns the prompt tokens from which it compacts, where a reply may have `replyTokens`. Default: where the rest of the
     * window would not hold a reply.
     */
    readonly fullFrom?: (windowTokens: number, replyTokens: number | undefined) => number;
    /** Whether it goes by the prompt that it sent last, not by the next one. Default: false. */
    readonly isLate?: boolean;
    /**
     * Characters of each result in the call for the summary, which then holds nothing but what leaves. Default: it holds the
     * whole prompt, which a warm cache serves.
     */
    readonly resultChars?: number;
    /** Returns the characters of the newest messages that stay, as JSON, by `fullFrom`. Default: none. */
    readonly keptChars?: (fullFrom: number) => number;
    /** Tokens of other content with which it continues after the session's first prompt. Default: none. */
    readonly keptTokens?: number;
    /** Whether that first prompt is unchanged, so that a warm cache serves it. */
    readonly keepsFront: boolean;
  };
  /**
   * Returns whether a result reports an error if nothing states whether its call failed; such results stay. Default: that
   * of `selectElisions`.
   */
  readonly isError?: ((message: ToolMessage, index: number) => boolean) | undefined;
  /** What may leave and what stays. Default: what is still wanted stays. */
  readonly retention?: Partial<Retention>;
  /**
   * Share of the cost of resending everything that a rewrite may lose if the session ended right after it. Infinite: no
   * limit. At twice this loss, and at least 2,000 cost units, the session stops rewriting. Default: 0.05.
   */
  readonly lossLimit?: number;
  /** Runs long work step by step, so that other work can run in between. Default: all steps at once. */
  readonly inSlices?: (steps: Iterator<void, void>) => Promise<void>;
  /** {@linkcode PromptSession.lookedAt} as it was stored last. Default: nothing. */
  readonly lookedAt?: unknown;
}

/** All options of a {@linkcode PromptSession} in one object. */
export interface FlatSessionOptions extends Omit<PromptSessionOptions, "advanced">, AdvancedSessionOptions {}

/** Runs all steps at once: the default of `inSlices`. */
export function allAtOnce(steps: Iterator<void, void>): Promise<void> {
  while (!steps.next().done) { /* The steps do the work. */ }
  return Promise.resolve();
}

/** What a message is, as far as a retention rule goes by it before one call. Ages are in calls, counted from 1. */
export interface Standing {
  /** Tokens of the message, as the provider counts them. */
  readonly tokens: number;
  /** Whether it shows a file: a read's result, or a call that edits or writes. */
  readonly fileText: boolean;
  /** Whether it edits or writes. */
  readonly edits: boolean;
  /** Number of names of which it is the newest bearer. */
  readonly names: number;
  /** Calls since it entered. */
  readonly age: number;
  /** Calls since it entered or a call last used one of its names. */
  readonly wantedAge: number;
  /** Tokens at the front of the prompt that only the provider sees. */
  readonly unseenTokens: number;
}

/** What may leave the prompt, and what of it stays. */
export interface Retention {
  /**
   * Returns the expected cost of a message's absence at the next call, in cost units. A message that costs more to carry
   * may leave. Must not grow while nothing refers to the message.
   */
  readonly loss: (standing: Standing, profile: Profile) => number;
  /** Tokens at the end, at most half the window, in which no result leaves. Infinite: none leaves. */
  readonly resultTailTokens: number;
  /**
   * Tokens at the end, at most a quarter of the window, in which no step of an old turn leaves. Infinite: none leaves.
   */
  readonly stepTailTokens: number;
  /** Whether tools that have been called are shown by names and types alone. */
  readonly compactTools: boolean;
  /** Calls for which what stays after a cut must be worth writing again. Zero: it needn't be. */
  readonly horizonCalls: number;
  /** Weight multiplier for an active-turn read of a file that the user named and that has not been edited since. */
  readonly namedWeight: number;
  /** Weight multiplier for an unanswered error, unless it leaves with its step. Infinite: errors stay. */
  readonly errorWeight: number;
}

/** A model call that is about to be made. */
export interface PromptCall {
  /** The time, in milliseconds since any fixed moment. */
  readonly nowMs: number;
  /** Name of the model: another model has another cache. Default: always the same. */
  readonly model?: string | undefined;
  /** Position of the first message of the active turn. Default: where the last turn starts. */
  readonly turnStart?: number;
  /** Number of the call in this turn, from 1. Default: by the model's messages after the user's last. */
  readonly step?: number;
  /**
   * Whether the request isn't a turn, such as one for a title, a summary, or a token count: it gets the newest view of the
   * model and what is new, and changes nothing; {@linkcode PromptSession.sent} records nothing of it. Default: false.
   */
  readonly oneShot?: boolean;
  /**
   * Whether a request that isn't a turn shows evicted content again, as a request for a compaction by the client must: all
   * of it, or as much as the window holds, the newest first. {@linkcode PromptSession.sent} returns its cost and still
   * changes nothing. Default: false.
   */
  readonly restores?: boolean;
  /** Whether everything that may leave leaves with this call, whatever it costs. Default: what pays. */
  readonly leavesNow?: boolean | undefined;
  /** Longest reply in tokens, by which some clients decide when to compact. Default: unknown. */
  readonly replyTokens?: number | undefined;
  /** Tools whose definitions the request goes without. Default: none. */
  readonly deferred?: {
    /** Tokens that the request would have more; fewer if negative. */
    readonly tokens: number;
    /** Whether the call only follows a lookup of definitions and would not have been made otherwise. */
    readonly isDetour: boolean;
  } | undefined;
  /** Whether the model can recall evicted content. Default: whether a tool of that name is among the tools. */
  readonly recall?: boolean;
  /** Pins of single messages. Default: none. */
  readonly pins?: readonly Pin[] | undefined;
  /** Ends the wait for a summary. */
  readonly signal?: AbortSignal | undefined;
  /** Called while a summary that takes long makes progress. */
  readonly progress?: (() => void) | undefined;
}

/** What one model call sends, and what changed for it. Plain data. */
export interface SessionView extends History {
  /** The position of each message in the history; −1 for a line that stands for several. */
  readonly places: readonly number[];
  /** Which messages stay as they are. Absent: the policy doesn't know. */
  readonly stable?: StableMessages;
  /** What was rewritten for this call and why, in words. A lasting change is reported once. */
  readonly rewrites: readonly Rewrite[];
  /** Sentences for users, such as that the archive could not be written. */
  readonly warnings: readonly string[];
  /** Pins that ended because the window has no room for what they keep. Absent: none. */
  readonly endedPins?: readonly Pin[];
  /** Usage of the model that summarized for this view. Absent: none did. */
  readonly summary?: Usage;
  /** Tokens that each mechanism keeps out of this request. */
  readonly saved: Readonly<Record<keyof Mechanisms, number>> & {
    /** Tokens that deferring tools keeps out; negative where it takes more. Absent: no tool is deferred. */
    readonly deferred?: number;
  };
  /** Tokens of messages and tools, counted here. */
  readonly promptTokens: number;
  /** Of these, tokens that the provider's cache serves if it is still warm. */
  readonly predictedCachedTokens: number;
}

/** A prompt exceeds the model's window even after everything else has left. Its message says what to do. */
export class PromptTooLong extends Error {
  override readonly name = "PromptTooLong";
  /** Tokens of the prompt after everything that could leave has left, as the provider counts: an estimate. */
  readonly promptTokens: number;
  /** The model's context window. */
  readonly windowTokens: number;
  /** The longest message that can't leave. */
  readonly longest: {
    /** Its position in the history; −1: the tools. */
    readonly place: number;
    /** Its tokens, an estimate. */
    readonly tokens: number;
  };

  /** An error in words that say what can be done. */
  constructor(
    { promptTokens, windowTokens, longest }: Pick<PromptTooLong, "promptTokens" | "windowTokens" | "longest">,
    what: string,
  ) {
    super(
      `Cannot send the prompt: it has about ${promptTokens} tokens after all that could leave has left, and the model ` +
        `reads ${windowTokens} at most. ${what} takes about ${longest.tokens} of them; ${WHAT_TO_DO}.`,
    );
    this.promptTokens = promptTokens;
    this.windowTokens = windowTokens;
    this.longest = longest;
  }
}

const WHAT_TO_DO =
  "shorten it, send it in parts, put it in a file that is read piece by piece, or choose a model with " +
  "a larger window";

/** What one prompt would cost, in cost units: the price of one uncached input token is 1. */
export type QuotedPrompt = Quote["asIs"];

/** What a request would cost, before anything is sent. */
export interface Quote {
  /** The prompt as it is. */
  readonly asIs: {
    /** Tokens of the prompt, as the provider counts them. */
    readonly promptTokens: number;
    /** Of these, tokens that the cache serves if it is still warm. */
    readonly cachedTokens: number;
    /** Cost if the cache is warm. */
    readonly warmTokenUnits: number;
    /** Cost if it is cold. */
    readonly coldTokenUnits: number;
  };
  /** The prompt without everything that could leave it now; its size is an estimate. */
  readonly rewritten: Quote["asIs"];
  /** Probability that the cached prefix is still there. */
  readonly alive: number;
}

/** Options of {@linkcode PromptSession.fork}. */
export interface ForkOptions {
  /**
   * Whether the fork only plans a request of this session that isn't a turn, whose cost is compared with the baseline as
   * this session's would be. Default: false.
   */
  readonly aside?: boolean;
}

/**
 * Decides what the model sees of one session, call by call. Before each call: {@linkcode PromptSession.view}, store
 * {@linkcode PromptSession.state}, send the view. After it: {@linkcode PromptSession.sent}, store the state again. A
 * crash between two of these loses nothing. Its history may go back, or continue in two ways.
 */
export interface PromptSession {
  /**
   * Returns what the next call sends of the whole history and the tools in full. Calls are viewed one after the other;
   * edits of messages that are gone are forgotten.
   *
   * @throws {PromptTooLong} if the model's window can't hold it, whatever leaves.
   */
  view(history: History, call: PromptCall): Promise<SessionView>;
  /**
   * Records a call that succeeded. Returns its ledger entry if the policy keeps a ledger.
   *
   * @param usage What the provider reported of this very call; absent or `estimated` if it reported nothing.
   * @param view What was sent. Default: the newest view.
   * @param heldTokens Tokens that it shares with what the provider's cache held, counted here. Default: by what this
   * session has sent.
   * @throws {Error} if nothing was viewed since the session was made.
   */
  sent(usage?: Usage, view?: SessionView, heldTokens?: number): LedgerEntry | undefined;
  /**
   * Records a call that the provider refused because its prompt is too long. The next view of the history is shorter. The
   * window is stored in the state, by the model's name.
   *
   * @param limit The most that the model reads, in tokens, if the provider reported it: see `readTooLong()`.
   * @throws {Error} if nothing was viewed since the session was made.
   */
  rejected(limit?: number, refusal?: {
    /** Tokens of the prompt, if the provider reported how many it counted. */
    readonly promptTokens?: number | undefined;
    /** What was sent. Default: the newest view. */
    readonly view?: SessionView;
  }): void;
  /**
   * All that a restart needs: plain JSON data, the same object as long as nothing has changed. Must be stored after each
   * view, before its request is sent, and after {@linkcode PromptSession.sent}.
   */
  readonly state: unknown;
  /** Returns what a request for this history would cost, before anything is sent. Absent: the policy knows no costs. */
  readonly quote?: (history: History, call: PromptCall) => Quote;
  /**
   * Returns the next keep-alive request for the newest prefix; `undefined` if its cache is to lapse. Sets no timer: call it
   * when a request has been answered, after each ping, when something else is pending, and when the time has come. Absent:
   * the policy knows no costs.
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
   * const ping = session.nextPing({ nowMs: 40 * 60_000, pending: "person", trial });
   * assertEquals([ping?.type, ping?.atMs], ["upgrade", 39 * 60_000 + 280_000]);
   * // Send it then, and pass the reported usage: here the provider grants the hour.
   * const usage = {
   *   promptTokens: 50_305,
   *   cachedTokens: 50_000,
   *   cacheWriteTokens: 300,
   *   hourWriteTokens: 300,
   *   outputTokens: 0,
   * };
   * const { tokenUnits, upgrade } = session.pinged({ type: "upgrade", atMs: ping!.atMs, usage });
   * if (upgrade) trial = observeUpgrade(trial, upgrade); // also with `warmth.upgrade` of each ledger entry
   * assertEquals([tokenUnits, trial.isBilled], [5_605, true]);
   * assertEquals(session.nextPing({ nowMs: ping!.atMs, pending: "person", trial }), undefined);
   * ```
   */
  readonly nextPing?: (idle: Idle) => Ping | undefined;
  /**
   * Records a ping of the newest request that was answered, and returns its cost. The state must be stored afterwards. A
   * failed ping is not recorded. Absent where `nextPing` is.
   *
   * @throws {Error} if nothing was sent yet.
   */
  readonly pinged?: (ping: PingSent) => PingEntry;
  /** Why single messages can't be pinned, in words that follow "Cannot pin". Absent: they can. */
  readonly noPins?: string | undefined;
  /** The current cache rules and prices. */
  readonly profile: Profile;
  /**
   * What a restart needs in addition to {@linkcode PromptSession.state} if the history may not continue the one viewed
   * last: hashes and token counts of its messages, as plain JSON data, made when it is read. Absent: nothing was viewed, or
   * the policy needs none.
   */
  readonly lookedAt?: unknown;
  /**
   * Continues from a {@linkcode PromptSession.state} that this session reached elsewhere, without analyzing the messages
   * again. Nothing may be under way. Absent: make a session with that state.
   *
   * @throws {TypeError} if that is no state.
   */
  readonly resume?: (state: unknown) => void;
  /** Forgets the edits of all but the first `length` messages: the history went back there. */
  cutBack(length: number): void;
  /**
   * Returns a new session with what this one knows of the first `length` messages. It owes and has saved nothing, begins its
   * first request as this one's last as long as the cache holds that, and uses an archive of its own, which must hold what
   * this one's holds.
   */
  fork(length: number, archive: Archive, options?: ForkOptions): PromptSession;
  /** Forgets all edits: from now on everything is sent as it is. */
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
    notation: value,
  };
}
