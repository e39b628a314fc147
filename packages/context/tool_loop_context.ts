import { countRequestTokens, type CountTokens, estimateTokens, type Message } from "@tare/messages";
import { checkGiven, countMessageTokens, type NeededOptions } from "@tare/messages/internal";
import { groupTurns, isInstruction, type Turn } from "./group_turns.ts";

/** Messages of one model call, and those removed from it. */
export interface ToolLoopView<M extends Message> {
  /** Messages to send: the same objects, in order. */
  readonly messages: readonly M[];
  /**
   * Removed messages, in order. The model can't recall them unless the caller archives them and inserts a
   * line with the reference at {@linkcode ToolLoopView.removedAt}.
   */
  readonly removed: readonly M[];
  /** Index in `messages` of the first one after all removed ones; 0 if none were removed. */
  readonly removedAt: number;
  /** Tokens of all messages, without tool definitions. */
  readonly tokensBefore: number;
  /** Tokens of the messages to send. */
  readonly tokensAfter: number;
  /** Number of removed turns. */
  readonly removedTurns: number;
}

/** Options of {@linkcode toolLoopContext}. */
export interface ToolLoopOptions {
  /** Token counter. Default: `estimateTokens`. */
  readonly countTokens?: CountTokens | undefined;
  /** Budget of follow-up calls for turns before the active one, in tokens. Default: 16,000. */
  readonly historyBudgetTokens?: number | undefined;
  /** Index of the first message of the active turn. Default: the start of the last turn. */
  readonly activeTurnStart?: number | undefined;
}

const OPTIONS: NeededOptions<ToolLoopOptions> = {
  "countTokens?": "counter",
  "historyBudgetTokens?": "number",
  "activeTurnStart?": "number",
};

/**
 * Returns the messages of the next model call in a tool loop. The first call of a turn gets the whole
 * conversation. Once the active turn contains a tool result, follow-up calls get all system and developer
 * messages, the active turn, and the most recent turns before it that fit into the budget. Turns are removed
 * whole, so that calls keep their results.
 *
 * `messages` is not changed, and the next turn starts from all of it. Until then the model can't read
 * `removed`, unless the caller archives it: see README.md.
 *
 * @throws {RangeError} if the budget is negative or not a number, or if `activeTurnStart` is out of range.
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import type { Message } from "@tare/messages";
 * import { toolLoopContext } from "@tare/context";
 *
 * const messages: Message[] = [
 *   { role: "user", content: "Tell me a story." },
 *   { role: "assistant", content: "Once upon a time … ".repeat(500) },
 *   { role: "user", content: "What time is it?" },
 *   { role: "assistant", tool_calls: [{ id: "1", type: "function", function: { name: "clock", arguments: "{}" } }] },
 *   { role: "tool", tool_call_id: "1", content: "noon" },
 * ];
 * assertEquals(toolLoopContext(messages, { historyBudgetTokens: 1_000 }).messages, messages.slice(2));
 * ```
 */
export function toolLoopContext<M extends Message>(
  messages: readonly M[],
  options: ToolLoopOptions = {},
): ToolLoopView<M> {
  checkGiven("toolLoopContext()", { messages, options }, { messages: "messages", options: OPTIONS });
  const { countTokens = estimateTokens, historyBudgetTokens = 16_000, activeTurnStart } = options;
  const turns = groupTurns(messages, activeTurnStart);
  const earlier = turns.slice(0, -1);
  const recent = fitTurns(messages, earlier, { countTokens, historyBudgetTokens });
  const activeStart = turns.at(-1)?.start ?? 0;
  const isFollowUp = messages.slice(activeStart).some(isResult);
  const tokensBefore = countRequestTokens({ messages }, countTokens);
  if (!isFollowUp || recent.length === earlier.length) {
    return {
      messages,
      removed: [],
      removedAt: 0,
      tokensBefore,
      tokensAfter: tokensBefore,
      removedTurns: 0,
    };
  }
  const keepFrom = recent[0]?.start ?? activeStart;
  const retained = messages.filter((message, at) => at >= keepFrom || isInstruction(message));
  return {
    messages: retained,
    removed: messages.slice(0, keepFrom).filter((message) => !isInstruction(message)),
    removedAt: retained.length - (messages.length - keepFrom),
    tokensBefore,
    tokensAfter: countRequestTokens({ messages: retained }, countTokens),
    removedTurns: earlier.length - recent.length,
  };
}

function isResult(message: Message): boolean {
  return message.role === "tool" || message.role === "function";
}

/**
 * Returns the most recent turns that fit into a budget, oldest first, up to the first that doesn't fit.
 * System and developer messages don't count.
 *
 * @throws {RangeError} if the budget is negative or not a number.
 */
export function fitTurns(
  messages: readonly Message[],
  turns: readonly Turn[],
  { countTokens, historyBudgetTokens }: {
    readonly countTokens: CountTokens;
    /** Total tokens of the turns. */
    readonly historyBudgetTokens: number;
  },
): readonly Turn[] {
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
