import { countRequestTokens, type CountTokens, type Usage } from "@tare/messages";
import type { AskForSummary } from "@tare/prune";
import type { Summarise } from "../edits/make_summary.ts";
import type { Conversation } from "../edits/view.ts";
import { firstOpenCall } from "../retention/find_removals.ts";

/**
 * Asks for a summary of a view's old turns on the conversation as it was sent last, as far as the cache may know it: up to
 * the model's last message.
 */
export function askOnWarmPrefix(
  summarise: Summarise,
  { messages: seen, tools, windowTokens, progress, told }: Conversation & {
    readonly windowTokens: number;
    readonly progress: (() => void) | undefined;
    /** Is told what it took. */
    readonly told: (usage: Usage) => void;
  },
): AskForSummary {
  return async (messages, { end, signal }) => {
    const answered = seen.findLastIndex(({ role }) => role === "assistant");
    const sent = seen.slice(0, Math.max(end, answered));
    const next = seen[end];
    const { text, usage } = await summarise({
      sent: { messages: sent.slice(0, firstOpenCall(sent)), tools },
      messages,
      users: [],
      ...(next && { next }),
      windowTokens,
      ...(signal && { signal }),
      ...(progress && { progress }),
    });
    told(usage);
    return text;
  };
}

/** Why a full window can't be relieved, for people. */
export function describePause(
  request: Conversation,
  { activeMessages, fullTokens, windowTokens, scale, countTokens }: {
    /** How many of the messages are the active turn's. */
    readonly activeMessages: number;
    /** Tokens from which on the window is full. Like the window's, they are the provider's. */
    readonly fullTokens: number;
    readonly windowTokens: number;
    /** What the provider counts for each token that we count. */
    readonly scale: number;
    readonly countTokens: CountTokens;
  },
): string {
  const { messages, tools } = request;
  const tokensOf = (those: Conversation) => Math.ceil(countRequestTokens(those, countTokens) * scale);
  const active = messages.length - activeMessages;
  const fixed = messages.filter(({ role }, at) => at >= active || role === "system" || role === "developer");
  const needed = tokensOf({ messages: fixed, tools });
  const why = needed >= fullTokens
    ? `The window is too small for this turn: with instructions and tools it takes ${needed} of ${windowTokens} tokens`
    : `The window stays full: the prompt takes ${
      tokensOf(request)
    } of ${windowTokens} tokens, and all that may ` +
      "leave is less than a tenth of it";
  return `${why}. Pruning and summaries pause until there is more to win.`;
}
