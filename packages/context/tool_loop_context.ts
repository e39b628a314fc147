import { countRequestTokens, type CountTokens, estimateTokens, type Message } from "@tare/messages";
import { checkGiven, countMessageTokens, type NeededOptions } from "@tare/messages/internal";
import { groupTurns, isInstruction, type Turn } from "./group_turns.ts";

/** The messages of one model call, and those that were removed for it. */
export interface ToolLoopView<M extends Message> {
  /** The messages to send: the very objects that were passed in, in their order. */
  readonly messages: readonly M[];
  /**
   * The messages that were removed, in order. They are archived nowhere and the model doesn't learn of them: a caller
   * that wants the model to be able to read them back archives them, and inserts a line that says where at index
   * {@linkcode ToolLoopView.removedAt}.
   */
  readonly removed: readonly M[];
  /** Index, in `messages`, of the first one after all that were removed; 0 if none were. */
  readonly removedAt: number;
  /** Tokens of all messages, without tool definitions. */
  readonly tokensBefore: number;
  /** Tokens of the messages to send. */
  readonly tokensAfter: number;
  /** Number of turns that were removed. */
  readonly removedTurns: number;
}

/** Options of {@linkcode toolLoopContext}. */
export interface ToolLoopOptions {
  /** Counts the tokens of a text. Default: `estimateTokens`. */
  readonly countTokens?: CountTokens | undefined;
  /** Tokens that turns before the active one may take in follow-up calls. Default: 16,000. */
  readonly historyBudgetTokens?: number | undefined;
  /** Index of the first message of the active turn, for callers that know it. Default: where the last turn starts. */
  readonly activeTurnStart?: number | undefined;
}

const OPTIONS: NeededOptions<ToolLoopOptions> = {
  "countTokens?": "counter",
  "historyBudgetTokens?": "number",
  "activeTurnStart?": "number",
};

/**
 * Shapes the messages of the next model call in a tool loop. The first call of a turn gets the whole conversation.
 * Once the active turn holds a tool result, follow-up calls get all system and developer messages, the whole active
 * turn, and as many of the most recent turns before it as fit into a budget; older turns are left out whole, so no
 * call is parted from its result.
 *
 * Only the request changes: `messages` is not touched, and the next turn starts from all of it again. Until then the
 * model can't read what was removed, unless the caller archives `removed`, as README.md shows.
 *
 * @throws {RangeError} if the budget is negative or not a number, or if `activeTurnStart` is out of range.
 *
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
  const kept = messages.filter((message, at) => at >= keepFrom || isInstruction(message));
  return {
    messages: kept,
    removed: messages.slice(0, keepFrom).filter((message) => !isInstruction(message)),
    removedAt: kept.length - (messages.length - keepFrom),
    tokensBefore,
    tokensAfter: countRequestTokens({ messages: kept }, countTokens),
    removedTurns: earlier.length - recent.length,
  };
}

function isResult(message: Message): boolean {
  return message.role === "tool" || message.role === "function";
}

/**
 * The most recent turns that fit into a budget, oldest first. Walks from the newest turn to the oldest and stops at
 * the first that doesn't fit; turns stay or go whole. System and developer messages are core context and don't
 * count.
 *
 * @throws {RangeError} if the budget is negative or not a number.
 */
export function fitTurns(
  messages: readonly Message[],
  turns: readonly Turn[],
  { countTokens, historyBudgetTokens }: {
    readonly countTokens: CountTokens;
    /** Tokens that the turns may take together. */
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
