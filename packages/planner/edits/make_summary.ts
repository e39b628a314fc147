import { groupTurns } from "@tare/context";
import type { CountTokens, Message, Usage } from "@tare/messages";
import { type Archive, summariseTurns } from "@tare/prune";
import type { DropEdit, SummariseEdit } from "./edit.ts";
import { firstOpenCall } from "../retention/find_removals.ts";
import type { Summarise } from "../rule/plan.ts";
import type { PlacedMessages } from "./view.ts";

/** What summarising old turns came to. */
export interface MadeSummary {
  /** The edit; absent if too little would have been gained. */
  readonly edit?: SummariseEdit | DropEdit;
  /** What the model that summarised was paid. */
  readonly usage?: Usage;
  /** What went wrong, in one sentence. */
  readonly warning?: string;
}

/** What {@linkcode makeSummary} goes by. */
export interface MakeSummaryOptions {
  readonly countTokens: CountTokens;
  readonly archive: Archive;
  readonly recall?: boolean | undefined;
  readonly windowTokens?: number | undefined;
  readonly summarise?: Summarise | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Summarises the oldest turns of a view (see `summariseTurns` of `@tare/prune`), as an edit of its history. Does nothing if an answer
 * stands in a later turn than its call, or could still come: the summary would stand between them.
 */
export async function makeSummary(
  { messages, places }: PlacedMessages,
  { summarise, recall = false, ...options }: MakeSummaryOptions,
): Promise<MadeSummary> {
  if (!turnsAreWhole(messages)) return {};
  let usage: Usage | undefined;
  const summarised = await summariseTurns(messages, {
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
  const failed = summarise && summarised.failure && { warning: summarised.failure.message };
  if (!summarised.summary) return { ...paid, ...failed };
  const { end, kind, ref, text } = summarised.summary;
  const stretch = places.slice(0, end).filter((place, at) => {
    const role = messages[at]?.role;
    return place >= 0 && role !== "system" && role !== "developer";
  });
  const from = stretch.at(0);
  const last = stretch.at(-1);
  if (from === undefined || last === undefined) return { ...paid, ...failed };
  const type = kind === "summary" ? "summarise" : "drop";
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
