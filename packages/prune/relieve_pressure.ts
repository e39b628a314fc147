import { countRequestTokens, type Message } from "@tare/messages";
import type { Fold, FoldMessage } from "./apply_fold.ts";
import type { Elision } from "./apply_elisions.ts";
import { fold, type FoldOptions } from "./fold.ts";
import { pressure, type PressureOptions } from "./pressure.ts";
import { type PruneOptions, pruneResults } from "./prune_results.ts";

/** What {@linkcode relievePressure} may do. */
export interface ReliefOptions extends PruneOptions, FoldOptions, Omit<PressureOptions, "promptTokens"> {
  /** Tokens of the prompt that aren't in the messages: those of the tool definitions. Default 0. */
  readonly otherTokens?: number;
}

/** What was done about a full window. */
export interface Relief<M extends Message = Message> {
  /** The messages; the very array that was handed in if nothing changed. */
  readonly messages: readonly (M | FoldMessage)[];
  /** Results that were pruned, by their place in the messages that were handed in. */
  readonly elisions: readonly Elision[];
  /** What was folded after pruning. */
  readonly fold?: Fold;
  /** True if the window is still so full that only a fold would do: stop calling the model. */
  readonly paused: boolean;
  /** Tokens of all the messages before. */
  readonly tokensBefore: number;
  /** Tokens of all the messages after. */
  readonly tokensAfter: number;
  /** What went wrong; see {@linkcode pruneResults} and {@linkcode fold}. */
  readonly failure?: Error;
}

/**
 * Acts on a full window: prunes from 0.8 of it on, and folds if pruning didn't bring the prompt below that, or if it
 * had reached 0.9. Does nothing below, and nothing if the window is unknown. The prompt's size is counted from the
 * messages, so that neither retries nor sums of usage can mislead it.
 */
export async function relievePressure<M extends Message>(
  messages: readonly M[],
  options: ReliefOptions,
): Promise<Relief<M>> {
  const { otherTokens = 0, countTokens } = options;
  const pressureOf = (tokens: number) => pressure({ ...options, promptTokens: tokens + otherTokens });
  const tokensBefore = countRequestTokens({ messages }, countTokens);
  const before = pressureOf(tokensBefore);
  if (before === "none") {
    return { messages, elisions: [], paused: false, tokensBefore, tokensAfter: tokensBefore };
  }

  const pruned = await pruneResults(messages, options);
  const mustFold = before === "fold" || pressureOf(pruned.tokensAfter) !== "none";
  if (pruned.failure || !mustFold) {
    return { ...pruned, paused: pressureOf(pruned.tokensAfter) === "fold" };
  }
  const folded = await fold(pruned.messages, options);
  return {
    ...folded,
    elisions: pruned.elisions,
    paused: pressureOf(folded.tokensAfter) === "fold",
    tokensBefore,
  };
}
