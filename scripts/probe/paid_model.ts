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

export interface Prices {
  /** USD per million uncached prompt tokens; the profile determines the price of cached ones. */
  readonly inUsd: number;
  /** USD per million output tokens. */
  readonly outUsd: number;
  readonly budgetUsd: number;
}

/** Thrown in place of a request that the budget might not cover. */
export class OutOfBudget extends Error {}

/** Assumed length of a reply until a longer one is received. */
const LEAST_OUTPUT_TOKENS = 1_000;

export function usd(
  { inUsd, outUsd }: Prices,
  profile: Profile,
  usage: Pick<Usage, "promptTokens" | "cachedTokens" | "outputTokens">,
): number {
  return (promptCost(profile, usage) * inUsd + usage.outputTokens * outUsd) / 1e6;
}

/**
 * Returns a model whose requests are paid from a budget. A request is sent only if the budget covers it without cache and
 * with the longest reply so far. Failed requests aren't recorded, because providers report no usage of them.
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
  /** Largest ratio of reported to counted tokens. */
  let scale = 1;
  return async function* (request: ModelRequest) {
    const counted = countRequestTokens(request, countTokens);
    const mostUsd = usd(prices, profile, { promptTokens: scale * counted, cachedTokens: 0, outputTokens });
    const { spentUsd } = account;
    if (spentUsd + mostUsd > prices.budgetUsd) {
      throw new OutOfBudget(
        `Stopped: the next request could cost ${money(mostUsd)}; of the budget of ` +
          `${money(prices.budgetUsd)} ${
            money(spentUsd)
          } are spent. Repeat the command with a higher --budget to continue.`,
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

export function money(usd: number): string {
  return `$${usd.toFixed(4)}`;
}
