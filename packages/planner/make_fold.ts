import { groupTurns } from "@tare/context";
import type { CountTokens, Message, Usage } from "@tare/messages";
import { type Archive, fold } from "@tare/prune";
import type { DropEdit, FoldEdit } from "./edit.ts";
import { firstOpenCall } from "./find_removals.ts";
import type { Summarise } from "./plan.ts";
import type { PlacedMessages } from "./view.ts";

/** What a fold came to. */
export interface MadeFold {
  /** The edit; absent if too little would have been gained. */
  readonly edit?: FoldEdit | DropEdit;
  /** What the model that summarised was paid. */
  readonly usage?: Usage;
  /** What went wrong, in one sentence. */
  readonly warning?: string;
}

/** What {@linkcode makeFold} goes by. */
export interface MakeFoldOptions {
  readonly countTokens: CountTokens;
  readonly archive: Archive;
  readonly recall?: boolean | undefined;
  readonly windowTokens?: number | undefined;
  readonly summarise?: Summarise | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Folds the oldest turns of a view (see `fold` of `@tare/prune`), as an edit of its history. Does nothing if an answer
 * stands in a later turn than its call, or could still come: the fold would stand between them.
 */
export async function makeFold(
  { messages, places }: PlacedMessages,
  { summarise, recall = false, ...options }: MakeFoldOptions,
): Promise<MadeFold> {
  if (!turnsAreWhole(messages)) return {};
  let usage: Usage | undefined;
  const folded = await fold(messages, {
    ...options,
    recall,
    async summarise(old, signal) {
      if (!summarise) throw new Error("no model summarises here");
      const summary = await summarise(old, signal);
      usage = summary.usage;
      return summary.text;
    },
  });
  const paid = usage && { usage };
  const failed = summarise && folded.failure && { warning: folded.failure.message };
  if (!folded.fold) return { ...paid, ...failed };
  const { end, kind, ref, text } = folded.fold;
  const stretch = places.slice(0, end).filter((place, at) => {
    const role = messages[at]?.role;
    return place >= 0 && role !== "system" && role !== "developer";
  });
  const from = stretch.at(0);
  const last = stretch.at(-1);
  if (from === undefined || last === undefined) return { ...paid, ...failed };
  const type = kind === "summary" ? "fold" : "drop";
  return { edit: { type, from, to: last + 1, ref, text }, ...paid, ...failed };
}

/** Whether every user message that could open a turn does, and no call before the last turn lacks its answer. */
function turnsAreWhole(messages: readonly Message[]): boolean {
  const turns = groupTurns(messages);
  if (firstOpenCall(messages) < (turns.at(-1)?.start ?? 0)) return false;
  const starts = new Set(turns.map(({ start }) => start));
  return messages.every(({ role }, at) =>
    role !== "user" || messages[at - 1]?.role === "user" || starts.has(at)
  );
}
