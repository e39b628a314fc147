import type { Usage } from "@tare/messages";
import type { AskForSummary, TurnsSummary } from "@tare/prune";
import type { DropEdit, SummariseEdit } from "../edits/edit.ts";
import type { Conversation, PlacedView } from "../edits/view.ts";
import { counted } from "../prompt_session.ts";
import { firstOpenCall } from "../retention/find_removals.ts";
import type { Summarise } from "../rule/plan.ts";

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

/** What lets the old turns of a view leave for good, and how people are told. */
export function summaryEdit(
  { end, kind, ref, text }: TurnsSummary,
  { messages, places }: PlacedView,
): { readonly edit: SummariseEdit | DropEdit; readonly removed: string } {
  const old = messages.slice(0, end).filter(({ role }) =>
    role !== "system" && role !== "developer" && (kind === "drop" || role !== "user")
  );
  const how = kind === "drop" ? "those of the user too, without a summary" : "summarised";
  return {
    edit: { type: kind === "drop" ? "drop" : "summarise", from: 0, to: places[end] ?? 0, ref, text },
    removed: `${counted(old.length, "message")} of old turns, ${how}`,
  };
}
