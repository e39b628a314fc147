import type { LoopEvent, TurnEnd } from "@tare/loop";
import { type Content, describeCall, type Tool, type ToolCall } from "@tare/messages";
import type { Store } from "@tare/store";
import { asSessionEvent } from "./event_log.ts";
import { HISTORY_EVENTS, rebuildHistory, type RebuiltHistory } from "./rebuild_history.ts";
import type { Session } from "./session.ts";
import type { Transcript } from "./session_options.ts";

/** What {@linkcode recoveryEvents} go by. */
export interface RecoveryOptions {
  readonly tools: readonly Tool[];
  /** What the user said in the middle of the turn and no event tells yet. */
  readonly waiting: readonly Content[];
  /** How the turn ended. */
  readonly end: Pick<TurnEnd, "reason" | "message">;
}

/** How a turn ended that an earlier process left unfinished. */
export const INTERRUPTED: RecoveryOptions["end"] = {
  reason: "interrupted",
  message: "The server ended in the middle of this turn. It can be continued.",
};

/**
 * The history of a stored session, the events that its last turn lacks, and what the user said that still waits;
 * `rebuilt` is with the events.
 */
export async function readHistory(
  id: string,
  { store, ...options }: Omit<RecoveryOptions, "waiting"> & { readonly store: Store },
): Promise<{
  readonly rebuilt: RebuiltHistory;
  readonly recovery: readonly LoopEvent[];
  readonly waiting: readonly Content[];
}> {
  const stored = await store.readEvents(id, { types: HISTORY_EVENTS });
  const events = stored.map(({ event }) => asSessionEvent(event));
  const rebuilt = rebuildHistory(events);
  const waiting = (await store.readState(id, "steering") ?? []) as readonly Content[];
  if (!rebuilt.interrupted) return { rebuilt, recovery: [], waiting };
  const recovery = recoveryEvents(rebuilt.interrupted, { ...options, waiting });
  return { rebuilt: rebuildHistory([...events, ...recovery]), recovery, waiting: [] };
}

/** All that was said in a session, in the running turn too, as far as it is committed. @throws {StoreError} */
export async function readTranscript(
  { id, history, runningAfter: after }: Session,
  store: Store,
): Promise<Transcript> {
  if (after === undefined) return { messages: history };
  const stored = await store.readEvents(id, { after, types: HISTORY_EVENTS });
  const { messages, interrupted } = rebuildHistory(stored.map(({ event }) => asSessionEvent(event)), history);
  return {
    messages: [...history, ...messages],
    ...(interrupted && {
      turn: { after, firstMessage: history.length, step: interrupted.step, ledger: interrupted.ledger },
    }),
  };
}

/**
 * The events that end a turn which was cut off: an error result for each call that has none, what the user said to it
 * and it never heard, and the turn's end. Nothing is run again; the model is told what it may safely repeat. A turn
 * whose answer is there was cut off only from its end: nothing is left to continue, so it is completed.
 */
export function recoveryEvents(
  { step, unanswered, answer, ledger }: NonNullable<RebuiltHistory["interrupted"]>,
  { tools, waiting, end }: RecoveryOptions,
): LoopEvent[] {
  const results = unanswered.map(({ call, denied }): LoopEvent => {
    const { name } = describeCall(call);
    const content = denied ?? interruptedResult(
      call,
      tools.find(({ definition }) => definition.function.name === name),
    );
    const bytes = new TextEncoder().encode(content).length;
    return { type: "tool_result", step, id: call.id, name, content, error: true, bytes, durationMs: 0 };
  });
  const isComplete = answer !== undefined && waiting.length === 0 && end.reason === "interrupted";
  return [
    ...results,
    ...waiting.map((input): LoopEvent => ({ type: "user_message", step, input })),
    { type: "turn_end", text: answer ?? "", ledger, ...(isComplete ? { reason: "completed" } : end) },
  ];
}

function interruptedResult({ type }: ToolCall, tool: Tool | undefined): string {
  const advice = type === "function" && tool?.stance === "rederivable"
    ? "It only reads: call it again if you need it."
    : "It may have taken effect: find out before you call it again.";
  return `Cannot tell the result: interrupted, outcome unknown. ${advice}`;
}
