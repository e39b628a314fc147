import type { ContextHook } from "@tare/loop";
import type { CountTokens, Tool } from "@tare/messages";
import type { Conversation, Profile, Quote, Summarise } from "@tare/planner";
import type { Archive } from "@tare/prune";

/** Decides what the model sees of one session, call by call. */
export interface SessionContext {
  /** The loop's hook. */
  readonly view: ContextHook;
  /**
   * All that a restart needs to go on as if nothing had happened, as JSON. Must be stored after each view and before
   * its request is sent, and again once the request has succeeded.
   */
  readonly state: unknown;
  /** What a request for this conversation would cost. Absent where the policy knows nothing of costs. */
  readonly quote?: (conversation: Conversation) => Quote;
}

/** The mechanisms that keep the prompt small, each on or off. */
export interface Mechanisms {
  /** Old turns leave the prompt. */
  readonly context: boolean;
  /** Old tool results become placeholders. */
  readonly prune: boolean;
  /** A tool's schema is shown in full once and compact afterwards. */
  readonly schemas: boolean;
  /** A huge result enters the prompt as its head and tail. */
  readonly bound: boolean;
}

/** What decides when the mechanisms act. */
export interface ContextOptions {
  /** Which mechanisms work. */
  readonly mechanisms: Mechanisms;
  /** The provider's cache rules and prices. */
  readonly profile: Profile;
  /** The model's context window in tokens. */
  readonly windowTokens: number;
  /** The session's tools. */
  readonly tools: readonly Tool[];
  /** Where originals go. */
  readonly archive: Archive;
  /** Counts tokens. */
  readonly countTokens: CountTokens;
  /** A sentence that every turn starts with, as a warning. Default: none. */
  readonly notice?: string;
  /** Asks a model for a summary when the window is full of what isn't tool results. Default: old turns are dropped. */
  readonly summarise?: Summarise;
  /** The time in milliseconds since the epoch. Default: `Date.now`. */
  readonly now?: () => number;
  /** What {@linkcode SessionContext.state} was when the session was last used. Default: a new session. */
  readonly state?: unknown;
}
