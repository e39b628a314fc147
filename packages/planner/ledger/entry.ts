import type { Usage } from "@tare/messages";
import type { observeUpgrade } from "../clock/upgrade.ts";

/** What one call cost and why. Costs are in token units: the price of one uncached input token is 1. */
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
    /** What user and model said in earlier turns. */
    readonly oldTurns: number;
    /** What user and model said in the turn that is being worked on. */
    readonly activeTurn: number;
    /** Tool results that are there. */
    readonly results: number;
    /** Lines that stand for what left. */
    readonly placeholders: number;
  };
  /**
   * Tokens that were not served from the cache, by cause: the session's `first_call`; `new`, they were not in the request
   * before; `own_rewrite`, an edit moved them; `tools_changed`; `model_changed`; `client_changed`, its client changed
   * something in front of them; `not_marked`, no request had asked to cache them; `expired`, the call came after the
   * profile's time to live; `provider_lost`, it came before.
   */
  readonly uncached: readonly {
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
  /** What its client had changed of what it had sent before; absent if nothing. */
  readonly changed?: {
    readonly where: "tools" | "instructions" | "message";
    /**
     * What changed: a line for the bill, the state of a repository, a date or time, a number or hash, another text; of tools
     * also their order, or which there are.
     */
    readonly kind: "bill" | "git_status" | "date" | "number" | "text" | "order" | "list";
    /** Position of the message in the history, or of the tool. */
    readonly place: number;
    /** The line of its text, from 1; null where it isn't a text that changed. */
    readonly line: number | null;
    /** What stood there before, and what stands there now, at most 120 characters of each. */
    readonly before: string;
    readonly after: string;
    /** Tokens that stood there before too, and behind what changed, counted here. */
    readonly tokens: number;
  };
  /** What a model reported that was asked for a summary before this call. */
  readonly summary?: Usage;
  /** What the prompt cost, a summary made for it included. */
  readonly tokenUnits: number;
  /**
   * What this call would have taken without Tare: the very same where nothing has left its prompt, and nothing but the rest
   * of its reply where it only follows a recall.
   */
  readonly without: Usage;
  /**
   * What its client would have taken before it for compacting a conversation that its window doesn't hold; absent where it
   * would not have.
   */
  readonly withoutCompaction?: Usage;
  /** What both prompts would have cost. */
  readonly withoutTokenUnits: number;
  /** What resending everything would have cost; absent where that doesn't fit the window. */
  readonly resendTokenUnits?: number;
  /** What would have been sent of a prompt that is only observed, and what that would have cost; else absent. */
  readonly projected?: {
    readonly promptTokens: number;
    readonly cachedTokens: number;
    /** What that prompt would have cost, with what reading things back is expected to cost that left for it. */
    readonly tokenUnits: number;
    /**
     * Of that, the estimate of reading back: over 20 calls, by the same hazard by which things are let go. Summed over 23
     * recorded sessions of three agents it was 1.0 to 1.9 times what repairs took, of single agents 0.6 to 5 times.
     */
    readonly repairTokenUnits: number;
  };
  /** What pings have shown here; absent if nothing was kept warm for it. Without Tare there are none, and it finds the cache cold. */
  readonly warmth?: {
    /** Tokens that were served only because pings had kept them warm. */
    readonly keptTokens: number;
    /** What that saved: {@linkcode withoutTokenUnits} holds it. */
    readonly creditTokenUnits: number;
    /** What it shows of the upgrade before, for `observeUpgrade()`. */
    readonly upgrade?: Parameters<typeof observeUpgrade>[1];
  };
  /** What the session has saved so far against what its client would have paid, pings counted; negative if it lost. */
  readonly savedTokenUnits: number;
  /** Whether rewriting has cost the session so much more than it saved that it stopped. */
  readonly stopped: boolean;
  /** The rewrite that was weighed for this call, in numbers. Costs are in the price of one uncached input token. */
  readonly decision?: {
    /**
     * Why the prompt was rewritten: `price`, the rent paid for what left equals what its leaving costs; `window`, the
     * prompt would not fit. Or why it was not: `wait`, its price is not paid yet; `loss_limit`, buying now could cost
     * the session more than its limit; `stopped`, earlier rewrites cost the session more than they saved.
     */
    readonly cause: "price" | "window" | "asked" | "wait" | "loss_limit" | "stopped";
    /** Probability that the cached prefix was still there. */
    readonly alive: number;
    /** Tokens by which the prompt shrinks (ΔT). */
    readonly tokens: number;
    /** Tokens that the cache would have served and that it no longer can: those behind the cut (S, and what was cached of ΔT). */
    readonly brokenTokens: number;
    /** What carrying the tokens has cost so far. */
    readonly rent: number;
    /** What this call costs more than without the rewrite; negative if it costs less. */
    readonly price: number;
  };
}

/** What a ping was and took: one that succeeded. */
export interface PingSent {
  readonly type: "exact" | "upgrade";
  /** When it was made, by the same clock as the calls. */
  readonly atMs: number;
  /** What the provider reported of it. */
  readonly usage: Usage;
}

/** What a ping cost and showed. Without Tare it would not have been made. */
export interface PingEntry extends PingSent {
  /** What it cost, in the price of one uncached input token. */
  readonly tokenUnits: number;
  /** Whether it read the prefix; else that was gone and was written anew. */
  readonly isWarm: boolean;
  /** What the session has saved so far, this ping counted. */
  readonly savedTokenUnits: number;
  /** What its bill shows of upgrades, for `observeUpgrade()`; absent if it was none, or the prefix was gone. */
  readonly upgrade?: Parameters<typeof observeUpgrade>[1];
}
