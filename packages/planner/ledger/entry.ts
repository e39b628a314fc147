import type { Usage } from "@tare/messages";
import type { UpgradeOutcome } from "../clock/upgrade.ts";

/** Tokens of a prompt by what they are, counted here. */
export type PromptShares = LedgerEntry["shares"];

/** Tokens that were not served from the cache. */
export type UncachedTokens = LedgerEntry["uncached"][number];

/** What would have been sent in place of a prompt in a dry run. */
export type ProjectedCall = NonNullable<LedgerEntry["projected"]>;

/** A rewrite that was weighed, in numbers. Costs are in cost units. */
export type Decision = NonNullable<LedgerEntry["decision"]>;

/** What one call cost and why. Costs are in cost units: the price of one uncached input token is 1. */
export interface LedgerEntry {
  /** What the provider reported. */
  readonly usage: Usage;
  /** Of the prompt's tokens, those that the cache model expected to be served. */
  readonly predictedCachedTokens: number;
  /** Tokens of the prompt by what they are, counted here. */
  readonly shares: {
    readonly tools: number;
    /** System and developer messages. */
    readonly core: number;
    /** Messages of user and model in earlier turns. */
    readonly oldTurns: number;
    /** Messages of user and model in the active turn. */
    readonly activeTurn: number;
    /** Visible tool results. */
    readonly results: number;
    /** Lines that stand for what left. */
    readonly placeholders: number;
  };
  /** Tokens that were not served from the cache, by cause. */
  readonly uncached: readonly {
    /**
     * The session's `first_call`; `new`, they were not in the request before; `own_rewrite`, an edit moved them;
     * `tools_changed`; `model_changed`; `client_changed`, its client changed something before them; `not_marked`, no request
     * had a breakpoint for them; `expired`, the call came after the profile's time to live; `provider_lost`, before.
     */
    readonly cause:
      | "first_call"
      | "new"
      | "own_rewrite"
      | "tools_changed"
      | "model_changed"
      | "client_changed"
      | "not_marked"
      | "expired"
      | "provider_lost";
    readonly tokens: number;
  }[];
  /** What the client had changed of what it had sent before. Absent: nothing. */
  readonly changed?: {
    readonly where: "tools" | "instructions" | "message";
    /**
     * A line for the bill, the state of a repository, a date or time, a number or hash, another text; for tools also their
     * order, or which there are.
     */
    readonly kind: "bill" | "git_status" | "date" | "number" | "text" | "order" | "list";
    /** Position of the message in the history, or of the tool. */
    readonly place: number;
    /** The line of its text, from 1; null if it isn't a text that changed. */
    readonly line: number | null;
    /** The old and the new text, at most 120 characters of each. */
    readonly before: string;
    readonly after: string;
    /** Unchanged tokens after the change, counted here. */
    readonly tokens: number;
  };
  /** Usage of a model that summarized before this call. */
  readonly summary?: Usage;
  /** What the prompt cost, a summary made for it included. */
  readonly tokenUnits: number;
  /**
   * The baseline: the very same if nothing has left its prompt, and nothing but the rest of its reply if it only follows a
   * recall.
   */
  readonly without: Usage;
  /** The baseline's compaction before it, where the window can't hold the conversation. Absent: none. */
  readonly withoutCompaction?: Usage;
  /** What both prompts of the baseline would have cost. */
  readonly withoutTokenUnits: number;
  /** What resending everything would have cost. Absent: it doesn't fit the window. */
  readonly resendTokenUnits?: number;
  /** What would have been sent in a dry run. Absent: it is none. */
  readonly projected?: {
    readonly promptTokens: number;
    readonly cachedTokens: number;
    /** Cost of that prompt, with the expected refetch cost of what left for it. */
    readonly tokenUnits: number;
    /**
     * The refetch cost: over 20 calls, by the hazard of the retention rule. Summed over 23 recorded sessions of three agents
     * it was 1.0 to 1.9 times what repairs took, of single agents 0.6 to 5 times.
     */
    readonly repairTokenUnits: number;
  };
  /** What pings have shown in it. Absent: nothing was kept warm for it. The baseline has no pings. */
  readonly warmth?: {
    /** Tokens that were served only because pings had kept them warm. */
    readonly keptTokens: number;
    /** What that saved, part of `LedgerEntry.withoutTokenUnits`. */
    readonly creditTokenUnits: number;
    /** Evidence on the upgrade before, for `observeUpgrade()`. */
    readonly upgrade?: UpgradeOutcome;
  };
  /** What the session has saved so far against the baseline, pings counted; negative if it lost. */
  readonly savedTokenUnits: number;
  /** Whether rewriting has cost the session so much more than it saved that it stopped. */
  readonly stopped: boolean;
  /** The rewrite that was weighed for this call. Costs are in cost units. */
  readonly decision?: {
    /**
     * Why the prompt was rewritten: `price`, the carrying cost paid equals the rewrite cost; `window`, the prompt would not
     * fit; `asked`, on request. Or why it was not: `wait`, its price is not paid yet; `loss_limit`, buying now could cost the
     * session more than its limit; `stopped`, earlier rewrites cost the session more than they saved.
     */
    readonly cause: "price" | "window" | "asked" | "wait" | "loss_limit" | "stopped";
    /** Probability that the cached prefix was still there. */
    readonly alive: number;
    /** Tokens by which the prompt shrinks (ΔT). */
    readonly tokens: number;
    /** Tokens after the cut that the cache would have served (S, and what was cached of ΔT). */
    readonly brokenTokens: number;
    /** What carrying the tokens has cost so far. */
    readonly rent: number;
    /** What this call costs more than without the rewrite; negative if it costs less. */
    readonly price: number;
  };
}

/** A ping that succeeded. */
export interface PingSent {
  readonly type: "exact" | "upgrade";
  /** When it was made, by the same clock as the calls. */
  readonly atMs: number;
  /** What the provider reported. */
  readonly usage: Usage;
}

/** What a ping cost and showed. The baseline has none. */
export interface PingEntry extends PingSent {
  /** What it cost, in cost units. */
  readonly tokenUnits: number;
  /** Whether it read the prefix; else that was gone and was written again. */
  readonly isWarm: boolean;
  /** What the session has saved so far, this ping counted. */
  readonly savedTokenUnits: number;
  /** Evidence on upgrades, for `observeUpgrade()`. Absent: it was none, or the prefix was gone. */
  readonly upgrade?: UpgradeOutcome;
}

/** A request that succeeded. */
export interface RequestMade {
  /** When it was made. */
  readonly atMs: number;
  readonly usage: Usage;
  /** Tokens with which it begins like the request before, that one's reply included. */
  readonly sharedTokens: number;
  /** What it cost: its prompt, and its reply if that has a price. */
  readonly tokenUnits: number;
}
