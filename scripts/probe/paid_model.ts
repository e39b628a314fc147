import {
  countRequestTokens,
  type CountTokens,
  type Model,
  type ModelRequest,
  type Usage,
} from "@tare/messages";
import type { Profile } from "@tare/planner";
import { promptCost } from "@tare/planner/internal/parts";
import type { Results } from "./results.ts";

/** What tokens cost, and how much they may cost together. */
export interface Prices {
  /** USD for a million prompt tokens that aren't served from the cache; the profile says what cached ones cost of it. */
  readonly inUsd: number;
  /** USD for a million tokens that the model writes. */
  readonly outUsd: number;
  /** Most USD that all runs together may cost. */
  readonly budgetUsd: number;
}

/** Thrown in place of a request that the budget might not cover. */
export class OutOfBudget extends Error {}

/** An answer is taken to be at least so long, until a longer one has come. */
const LEAST_OUTPUT_TOKENS = 1_000;

/** What these tokens cost, in USD. */
export function usd(
  { inUsd, outUsd }: Prices,
  profile: Profile,
  usage: Pick<Usage, "promptTokens" | "cachedTokens" | "outputTokens">,
): number {
  return (promptCost(profile, usage) * inUsd + usage.outputTokens * outUsd) / 1e6;
}

/**
 * A model whose requests are paid from a budget: one is made only if it could be paid with nothing of it cached and an
 * answer as long as the longest so far. A request that fails is not booked, as providers report nothing of it.
 *
 * @throws {OutOfBudget} in place of a request that could cost too much.
 */
export function paidModel(
  model: Model,
  { prices, profile, account, countTokens }: {
    readonly prices: Prices;
    readonly profile: Profile;
    readonly account: Pick<Results<unknown>, "spentUsd" | "spend">;
    readonly countTokens: CountTokens;
  },
): Model {
  let outputTokens = LEAST_OUTPUT_TOKENS;
  /** What the provider counts for each token that we count, at most. */
  let scale = 1;
  return async function* (request: ModelRequest) {
    const counted = countRequestTokens(request, countTokens);
    const mostUsd = usd(prices, profile, { promptTokens: scale * counted, cachedTokens: 0, outputTokens });
    const { spentUsd } = account;
    if (spentUsd + mostUsd > prices.budgetUsd) {
      throw new OutOfBudget(
        `Stopped: the next request could cost ${money(mostUsd)}, and of the budget of ` +
          `${money(prices.budgetUsd)} ${
            money(spentUsd)
          } are spent. The same command with a higher --budget goes on from here.`,
      );
    }
    for await (const event of model(request)) {
      if (event.type === "completed") {
        const usage = event.usage ??
          {
            promptTokens: counted,
            cachedTokens: 0,
            outputTokens: countTokens(JSON.stringify(event.message)),
          };
        account.spend(usd(prices, profile, usage));
        outputTokens = Math.max(outputTokens, usage.outputTokens);
        scale = Math.max(scale, usage.promptTokens / counted);
      }
      yield event;
    }
  };
}

/** An amount for people: `$0.0123`. */
export function money(usd: number): string {
  return `$${usd.toFixed(4)}`;
}
