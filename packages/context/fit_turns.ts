import { checkGiven, countMessageTokens, type CountTokens, type Message } from "@tare/messages";
import { type groupTurns, isInstruction } from "./group_turns.ts";

/**
 * The most recent turns that fit into a budget, oldest first. Walks from the newest turn to the oldest and stops at
 * the first that doesn't fit; turns stay or go whole. System and developer messages are core context and don't
 * count.
 *
 * @throws {RangeError} if the budget is negative or not a number.
 */
export function fitTurns(
  messages: readonly Message[],
  turns: ReturnType<typeof groupTurns>,
  options: {
    /** Counts the tokens of a text. */
    readonly countTokens: CountTokens;
    /** Tokens that the turns may take together. */
    readonly historyBudgetTokens: number;
  },
): ReturnType<typeof groupTurns> {
  checkGiven("fitTurns()", { messages, turns, options }, {
    messages: "array",
    turns: "array",
    options: { countTokens: "function" },
  });
  const { countTokens, historyBudgetTokens } = options;
  if (!(historyBudgetTokens >= 0)) {
    throw new RangeError(
      `Cannot fit turns: historyBudgetTokens is ${historyBudgetTokens}, it must be 0 or more`,
    );
  }
  let left = historyBudgetTokens;
  const lastToGo = turns.findLastIndex(({ start, end }) => {
    for (const message of messages.slice(start, end)) {
      if (!isInstruction(message)) left -= countMessageTokens(message, countTokens);
    }
    return left < 0;
  });
  return turns.slice(lastToGo + 1);
}
