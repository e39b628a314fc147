import type { CountTokens, Rewrite, StableMessages, ToolMessage, Usage } from "@tare/messages";
import type { Archive, PruneOptions } from "@tare/prune";
import type { Profile } from "./providers.ts";
import type { Summarise } from "./edits/make_summary.ts";
import type { Pin } from "./edits/pin.ts";
import type { History } from "./edits/view.ts";
import type { Idle, Ping } from "./clock/clock.ts";
import type { compactionOf } from "./agents.ts";
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
  /** A result enters the prompt without notation that says nothing, such as a number in front of each line. */
  readonly notation: boolean;
}

/** What a {@linkcode PromptSession} goes by. */
export interface PromptSessionOptions {
  /**
   * The provider's cache rules and prices, or a function that is asked whenever they count. Where it is `none`, usage
   * that shows cached tokens corrects it. A provider that reports no cache reads for two calls in a row that should have
   * read some counts as one without a cache until it reports a read.
   */
  readonly profile: Profile | (() => Profile);
  /** Where what leaves the prompt goes. */
  readonly archive: Archive;
  /** Counts tokens; what is counted of an object is remembered. */
  readonly countTokens: CountTokens;
  /** The model's context window, or a function that is asked whenever it counts. Default: unknown, and no limit. */
  readonly windowTokens?: number | (() => number | undefined);
  /**
   * Whether that is only assumed: what doesn't fit is sent then, for the provider to refuse, rather than refused by
   * {@linkcode PromptSession.view}. Default: no.
   */
  readonly assumesWindow?: boolean | (() => boolean);
  /** How the client would compact a conversation that doesn't fit: the ledger reckons with it. Default: as cheaply as any. */
  readonly compaction?: NonNullable<ReturnType<typeof compactionOf>>;
  /**
   * Whether everything is sent as it is, and the ledger tells beside it what the planner would have made of it
   * (`LedgerEntry.projected`). Nothing is archived then, and no summary asked for. Default: no.
   */
  readonly observe?: boolean | undefined;
  /**
   * Which mechanisms work. Default: all that aren't named; of references only where they save, which is where nothing is
   * forgotten and where reads from the cache cost next to nothing.
   */
  readonly mechanisms?: Partial<Mechanisms> | undefined;
  /**
   * What leaves a prompt: what costs more than it is worth, or `nothing`, as long as the window isn't full. What is said
   * once goes without loss, and huge results come whole where nothing is forgotten. Default: `costly`.
   */
  readonly forget?: "costly" | "nothing" | undefined;
  /** What pruning wants to know of each tool, by name. Default: nothing is known. */
  readonly tools?: NonNullable<PruneOptions["tools"]>;
  /**
   * Whether a result reports an error of which nobody states whether its call failed; such results stay. Default: that
   * of `selectElisions`.
   */
  readonly isError?: (message: ToolMessage, index: number) => boolean;
  /**
   * Asks a model for a summary of old messages, when the window is full of what isn't tool results. A rejection is a failure,
   * and so is an empty text, which is paid. Default: old turns are dropped.
   */
  readonly summarise?: Summarise;
  /** Longest result that enters the prompt whole, in tokens. Default 16,000; of classic sessions 8,000. */
  readonly truncateTokens?: number | undefined;
  /** Names of tools that are always shown in full. Default: none. */
  readonly alwaysFull?: readonly string[] | undefined;
  /** When the classic mechanisms act; a planner has no triggers. Default: of each its own. */
  readonly triggers?: {
    /** Tokens that turns before the active one may take from a turn's second call on. Default 16,000. */
    readonly historyBudgetTokens?: number | undefined;
    /** Tokens at the end, at most half the window, in which no result is pruned. Default 16,384. */
    readonly protectTokens?: number | undefined;
    /** Results with fewer UTF-8 bytes aren't pruned. Default 1,024. */
    readonly minBytes?: number | undefined;
    /** Share of the window from which on results are pruned, from 0 to 1. Default 0.8. */
    readonly pruneAt?: number | undefined;
    /** Share of the window from which on old turns are summarised as well, from `pruneAt` to 1. Default 0.9. */
    readonly summariseAt?: number | undefined;
    /** Idle time after which the provider's cache is surely gone, in milliseconds. Default: that of the profile. */
    readonly coldAfterMs?: number | undefined;
  } | undefined;
  /** What may leave and what stays. Default of each: what is still wanted stays. */
  readonly retention?: {
    /**
     * What a message's absence is expected to cost at the next call, in the price of one uncached input token: what
     * costs more to carry may leave. As long as nobody refers to the message it must not grow.
     */
    readonly loss?: (standing: {
      /** Tokens of the message, counted by the provider. */
      readonly tokens: number;
      /** Whether it shows a file: a read's result, or a call that edits or writes. */
      readonly fileText: boolean;
      /** Whether it edits or writes. */
      readonly edits: boolean;
      /** Names of which it is the newest bearer. */
      readonly names: number;
      /** Calls since it came. */
      readonly age: number;
      /** Calls since it came or one of its names was last used by a call. */
      readonly wantedAge: number;
      /** Tokens in front of the prompt that the provider counts and that aren't to be seen here. */
      readonly unseenTokens: number;
    }, profile: Profile) => number;
    /** Tokens at the end, at most half the window, in which no result leaves. Infinite: none leaves. */
    readonly resultTailTokens?: number;
    /**
     * Tokens at the end, at most a quarter of the window, in which no step of an old turn leaves: calls and their results
     * together. Infinite: none leaves.
     */
    readonly stepTailTokens?: number;
    /** Whether tools that have been called are shown by names and types alone. */
    readonly compactTools?: boolean;
    /** So many calls long, what stays behind a cut must be worth being written again. Zero: it needn't be. */
    readonly horizonCalls?: number;
    /** So many times as much weighs a read of the active turn whose file the user has named and nobody has edited since. */
    readonly namedWeight?: number;
    /**
     * So many times as much weighs an error that nothing has answered yet; where it leaves with its step, as any other result.
     * Infinite: errors stay.
     */
    readonly errorWeight?: number;
  };
  /**
   * A rewrite is not bought if, were the session to end right after, it would have cost more than resending
   * everything by over this share. Default 0.05; infinite: bought whenever the rent has paid for it. At twice this
   * loss, and at least 2,000 cost units, the session stops rewriting.
   */
  readonly lossLimit?: number;
  /**
   * Does work that may take long, step by step, so that others can be let in between the steps. Calls of one session
   * wait for one another. Default: all steps at once.
   */
  readonly inSlices?: (steps: Iterator<void, void>) => Promise<void>;
  /** What {@linkcode PromptSession.state} was when the session was last used. Default: a new session. */
  readonly state?: unknown;
  /** What {@linkcode PromptSession.lookedAt} was when the session was last used. Default: nothing was looked at. */
  readonly lookedAt?: unknown;
}

/** A model call that is about to be made. */
export interface PromptCall {
  /** The time, in milliseconds since any fixed moment. */
  readonly nowMs: number;
  /** Name of the model: another model has another cache. Default: always the same. */
  readonly model?: string;
  /** Position of the first message of the active turn. Default: where the last turn starts. */
  readonly turnStart?: number;
  /** Number of the call in this turn, from 1. Default: by the model's messages behind the user's last. */
  readonly step?: number;
  /**
   * Whether the request isn't a turn, such as one for a title, a summary, or a token count: it gets the view that the
   * model had last and what is new, and changes nothing; {@linkcode PromptSession.sent} books nothing of it. Default: no.
   */
  readonly oneShot?: boolean;
  /**
   * Whether a request that isn't a turn shows what left the prompt again, as one for a summary must that the client
   * continues from: all of it, or as much as the window holds, the newest first. {@linkcode PromptSession.sent} returns
   * what it cost then, and still changes nothing. Default: no.
   */
  readonly restores?: boolean;
  /** Whether all that may leave leaves with this call, whatever that costs, because somebody asks for it. Default: what pays. */
  readonly leavesNow?: boolean | undefined;
  /** Most tokens of its reply: by that some clients tell when to compact. Default: not known. */
  readonly replyTokens?: number | undefined;
  /** Tools whose definitions the request goes without. Default: none. */
  readonly deferred?: {
    /** Tokens that the request would have more; fewer if negative. */
    readonly tokens: number;
    /** Whether the call would not have been made, because only definitions were looked up since the one before. */
    readonly isDetour: boolean;
  };
  /** Whether the model can recall what left. Default: whether a tool of that name is among the tools. */
  readonly recall?: boolean;
  /** What was asked for of single messages. Default: nothing. */
  readonly pins?: readonly Pin[];
  /** Ends the wait for a summary. */
  readonly signal?: AbortSignal;
  /** Told that a summary which takes long is alive. */
  readonly progress?: () => void;
}

/** What one model call shall send, and what is to be told of it. Plain data. */
export interface SessionView extends History {
  /** The position of each message in the history; −1 for a line that stands for several. */
  readonly places: readonly number[];
  /** What of the messages stays as it is; absent where the policy doesn't know. */
  readonly stable?: StableMessages;
  /** What was rewritten for this call and why, in words. A change that sticks is told once. */
  readonly rewrites: readonly Rewrite[];
  /** Sentences for people, such as that the archive could not be written. */
  readonly warnings: readonly string[];
  /** Pins that are over, because the window has no room for what they keep. Absent: none. */
  readonly endedPins?: readonly Pin[];
  /** What a model was paid for summaries while this was made; absent if none was asked. */
  readonly summary?: Usage;
  /** Tokens that each mechanism keeps out of this very request, and those that deferring tools does. */
  readonly saved: Readonly<Record<keyof Mechanisms, number>> & {
    /** Negative where deferring takes more. Absent: no tool is deferred. */
    readonly deferred?: number;
  };
  /** Tokens of messages and tools, counted here. */
  readonly promptTokens: number;
  /** Of these, tokens that the provider's cache serves if it is still warm. */
  readonly predictedCachedTokens: number;
}

/** What was said is more than the model's window holds, even if all else leaves. Its message says what to do. */
export class PromptTooLong extends Error {
  override readonly name = "PromptTooLong";
  /** Tokens of the prompt after all that could leave has left, as the provider counts: an estimate. */
  readonly promptTokens: number;
  /** The model's context window. */
  readonly windowTokens: number;
  /** Position in the history of the longest message that can't leave, and its tokens, an estimate; −1: the tools. */
  readonly longest: { readonly place: number; readonly tokens: number };

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

/**
 * What a request would cost, told before anything is sent. Costs are in token units: the price of one uncached input
 * token is 1.
 */
export interface Quote {
  /** The prompt as it stands. */
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

/**
 * Decides what the model sees of one session, call by call. Before each call: {@linkcode PromptSession.view}, store
 * {@linkcode PromptSession.state}, send the view. After it: {@linkcode PromptSession.sent}, store the state again. A
 * crash between two of these loses nothing. Its history may go back, or go on in two ways.
 */
export interface PromptSession {
  /**
   * What the next call sends of the whole history and the tools in full. Calls are viewed one after the other; the
   * history only grows, and edits of messages that aren't there any more are forgotten.
   *
   * @throws {PromptTooLong} if the model's window can't hold it, whatever leaves.
   */
  view(history: History, call: PromptCall): Promise<SessionView>;
  /**
   * Takes note of a call that succeeded, and gives its ledger where the policy keeps one.
   *
   * @param usage What the provider reported of this very call; absent or `estimated` if it reported nothing.
   * @param view What was sent. Default: the newest view.
   * @param heldTokens Tokens with which it began like what the provider's cache held, counted here. Default: by what this
   * session has sent.
   * @throws {Error} if nothing was viewed since the session was made.
   */
  sent(usage?: Usage, view?: SessionView, heldTokens?: number): LedgerEntry | undefined;
  /**
   * Takes note of a call that the provider refused because its prompt is too long. View the history again, and send that:
   * the next view is shorter. The window is remembered with the state, for the model that was asked.
   *
   * @param limit The most that the model reads, in tokens, if the provider said it: see `windowOfError()`.
   * @param told What else it said, and what was sent.
   * @throws {Error} if nothing was viewed since the session was made.
   */
  rejected(limit?: number, told?: {
    /** Tokens of the prompt, if the provider told how many it counted. */
    readonly promptTokens?: number | undefined;
    /** What was sent. Default: the newest view. */
    readonly view?: SessionView;
  }): void;
  /**
   * All that a restart needs to go on as if nothing had happened: plain JSON data, the same object as long as nothing
   * has changed. Must be stored after each view, before its request is sent, and after {@linkcode PromptSession.sent}.
   */
  readonly state: unknown;
  /**
   * What a request for this history would cost, told before anything is sent. Costs are in token units: the price of one
   * uncached input token is 1. Absent where the policy knows nothing of costs.
   */
  readonly quote?: (history: History, call: PromptCall) => Quote;
  /**
   * The next ping that keeps the newest request's prefix warm while nothing is asked for; nothing if its cache is to lapse.
   * It sets no timer: ask when a request has been answered, after each ping, and when something else is waited for, and ask
   * again when the time has come. Absent where the policy knows nothing of costs.
   */
  readonly nextPing?: (idle: Idle) => Ping | undefined;
  /**
   * Takes note of a ping of the newest request that was answered, so that the next view knows what is warm, and gives what it
   * cost. The state must be stored afterwards. One that failed is none. Absent where `nextPing` is.
   *
   * @throws {Error} if nothing was sent yet.
   */
  readonly pinged?: (ping: PingSent) => PingEntry;
  /** Why nothing can be asked of single messages, in words that follow "Cannot pin"; absent if it can. */
  readonly noPins?: string | undefined;
  /** The cache rules and prices that it goes by. */
  readonly profile: Profile;
  /**
   * What a restart needs beside {@linkcode PromptSession.state} where the history may not go on from the one that was
   * viewed last: hashes and token counts of its messages, as plain JSON data. It is made when it is asked for. Absent:
   * nothing was viewed, or the policy needs none.
   */
  readonly lookedAt?: unknown;
  /**
   * Goes on from a {@linkcode PromptSession.state} that came of this session's elsewhere, as a session does that is made with
   * it, but without working out again what is known of the messages. Nothing may be under way. Absent: make one with it.
   *
   * @throws {TypeError} if that is no state.
   */
  readonly resume?: (state: unknown) => void;
  /** Forgets the edits of all but the first `length` messages: the history went back there. */
  cutBack(length: number): void;
  /**
   * A new session with what this one knows of the first `length` messages. It owes and has saved nothing, begins its
   * first request as this one's last as long as the cache holds that, and archives to an archive of its own, which must
   * hold what this one's holds.
   *
   * @param options.aside Whether it only plans a request of this session's that isn't a turn, whose cost is compared with the
   * baseline as this session's would be. Default: no.
   */
  fork(length: number, archive: Archive, options?: { readonly aside?: boolean }): PromptSession;
  /** Forgets all edits: from now on everything is sent as it is. */
  revert(): void;
}

/** All mechanisms off. */
export const NO_MECHANISMS: Mechanisms = {
  context: false,
  prune: false,
  schemas: false,
  truncate: false,
  references: false,
  notation: false,
};
