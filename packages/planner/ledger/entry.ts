import type { Usage } from "@tare/messages";
import type { UpgradeOutcome } from "../clock/upgrade.ts";

export type PromptShares = LedgerEntry["shares"];

export type UncachedTokens = LedgerEntry["uncached"][number];

export type ProjectedCall = NonNullable<LedgerEntry["projected"]>;

export type Decision = NonNullable<LedgerEntry["decision"]>;

/** Cost of one call and its causes. Costs are in cost units: the price of one uncached input token is 1. */
export interface LedgerEntry {
  readonly usage: Usage;
  /** Prompt tokens that the cache model expected to be served. */
  readonly predictedCachedTokens: number;
  /** Prompt tokens by kind of content, counted locally. */
  readonly shares: {
    readonly tools: number;
    readonly core: number;
    /** Messages of user and model in earlier turns. */
    readonly oldTurns: number;
    /** Messages of user and model in the active turn. */
    readonly activeTurn: number;
    readonly results: number;
    readonly placeholders: number;
  };
  /** Tokens not served from the cache, by cause. */
  readonly uncached: readonly {
    /**
     * `first_call` of the session; `new`, not in the request before; `own_rewrite`, moved by an edit;
     * `tools_changed`; `model_changed`; `client_changed`, after a client's change; `not_marked`, without a
     * cache breakpoint; `expired`, after the cache lifetime; `provider_lost`, within it.
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
  /** A client's change to content that it had sent before. Absent: none. */
  readonly changed?: {
    readonly where: "tools" | "instructions" | "message";
    /**
     * Billing line, repository status, date or time, number or hash, other text; for tools also their order
     * or set.
     */
    readonly kind: "bill" | "git_status" | "date" | "number" | "text" | "order" | "list";
    readonly place: number;
    /** Line of its text, from 1; null if the change is not in a text. */
    readonly line: number | null;
    /** Old and new text, at most 120 characters each. */
    readonly before: string;
    readonly after: string;
    /** Unchanged tokens after the change, counted locally. */
    readonly tokens: number;
  };
  readonly summary?: Usage;
  /** Cost of the prompt, including its summary. */
  readonly costUnits: number;
  /**
   * Usage of the baseline: equal if nothing was evicted; only the rest of the reply if the call only follows
   * a recall.
   */
  readonly baseline: Usage;
  /** The baseline's compaction before the call if the conversation exceeds the window. Absent: none. */
  readonly baselineCompaction?: Usage;
  /** Cost of both baseline prompts. */
  readonly baselineCostUnits: number;
  /** Cost of resending everything. Absent: it exceeds the window. */
  readonly resendCostUnits?: number;
  /** Plan of a dry run. Absent: requests are edited. */
  readonly projected?: {
    readonly promptTokens: number;
    readonly cachedTokens: number;
    readonly costUnits: number;
    /**
     * Expected refetch cost over 20 calls, by the retention rule. Over 23 recorded sessions of three agents
     * it was 1.0 to 1.9 times the actual cost in total, 0.6 to 5 times for single agents.
     */
    readonly refetchCostUnits: number;
  };
  /** Effect of keep-alive requests. Absent: none. The baseline has none. */
  readonly keepAlive?: {
    /** Tokens that were served only because of keep-alive requests. */
    readonly retainedTokens: number;
    /** Saving by them, part of `LedgerEntry.baselineCostUnits`. */
    readonly creditCostUnits: number;
    /** Evidence on the previous extended keep-alive, for `observeUpgrade()`. */
    readonly upgrade?: UpgradeOutcome;
  };
  /**
   * Estimated saving of the session against the baseline, including keep-alive requests; negative for a loss.
   */
  readonly savedCostUnits: number;
  /** Whether the session has stopped rewriting because of its losses. */
  readonly stopped: boolean;
  readonly decision?: {
    /**
     * Reason for the rewrite: `price`, the carrying cost equals the rewrite cost; `window`, the prompt would
     * not fit; `requested`, on request. Or against it: `wait`, the carrying cost is lower; `loss_limit`, a
     * rewrite could exceed the limit; `stopped`, because of earlier losses.
     */
    readonly cause: "price" | "window" | "requested" | "wait" | "loss_limit" | "stopped";
    /** Cache hit probability. */
    readonly cacheHitProbability: number;
    /** Tokens by which the prompt shrinks (ΔT). */
    readonly tokens: number;
    /** Tokens after the cut that the cache would have served (S, and the cached part of ΔT). */
    readonly brokenTokens: number;
    /** Carrying cost so far. */
    readonly carryingCost: number;
    /** Rewrite cost of this call; negative for a saving. */
    readonly rewriteCost: number;
  };
}

/** A successful keep-alive request. */
export interface SentKeepAlive {
  readonly type: "exact" | "upgrade";
  readonly atMs: number;
  readonly usage: Usage;
}

/** Cost and effect of a keep-alive request. */
export interface KeepAliveEntry extends SentKeepAlive {
  readonly costUnits: number;
  readonly isWarm: boolean;
  readonly savedCostUnits: number;
  /**
   * Evidence on extended keep-alive, for `observeUpgrade()`. Absent: it wasn't extended, or the prefix was
   * gone.
   */
  readonly upgrade?: UpgradeOutcome;
}

/** A successful request. */
export interface RequestMade {
  readonly atMs: number;
  readonly usage: Usage;
  /** Tokens that it shares with the start of the previous request and its reply. */
  readonly sharedTokens: number;
  /** Cost of its prompt, and of its reply if that has a price. */
  readonly costUnits: number;
}
