import { addLedgers, type LoopEvent, type TurnEnd } from "@tare/loop";
import { type Content, describeCall, meantCall, type Tool, type ToolCall } from "@tare/messages";
import type { Store } from "@tare/conversation";
import {
  costOf,
  type HelperLink,
  helperLinks,
  type HelperResult,
  interruptedHelper,
  readHelpers,
  type StoredHelper,
} from "../helpers/helper_turn.ts";
import { asSessionEvent, type SessionEvent } from "./event_log.ts";
import { HISTORY_EVENTS, rebuildHistory, type RebuiltHistory } from "./rebuild_history.ts";
import type { Session } from "./session.ts";
import type { Transcript } from "./session_options.ts";

/** What {@linkcode recoveryEvents} go by. */
export interface RecoveryOptions {
  readonly tools: readonly Tool[];
  /** What the user said in the middle of the turn and no event tells yet. */
  readonly waiting: readonly Content[];
  /** What came of the turn's helpers. Default: it had none. */
  readonly helpers?: readonly StoredHelper[];
  /** How the turn ended. */
  readonly end: Pick<TurnEnd, "reason" | "message">;
}

/** How a turn ended that an earlier process left unfinished. */
export const INTERRUPTED: RecoveryOptions["end"] = {
  reason: "interrupted",
  message: "The server ended in the middle of this turn. It can be continued.",
};

/**
 * The history of a stored session, the system message first, the events that its last turn lacks, and what the user
 * said that still waits; `rebuilt` is with the events.
 */
export async function readHistory(
  id: string,
  { store, instructions, end, ...options }: Omit<RecoveryOptions, "waiting" | "end"> & {
    /** How a turn ended that has no end. Without it such a turn runs: what is given stood before it. */
    readonly end?: RecoveryOptions["end"] | undefined;
    readonly store: Store;
    /** The system message; none if empty. */
    readonly instructions: string;
  },
): Promise<{
  readonly rebuilt: RebuiltHistory;
  /** The helpers that ever worked for the session. */
  readonly links: readonly HelperLink[];
  readonly recovery: readonly LoopEvent[];
  readonly waiting: readonly Content[];
  /** Number of the last event before the turn that runs; absent if none does. */
  readonly runningAfter?: number;
}> {
  const stored = await store.readEvents(id, { types: HISTORY_EVENTS });
  const system: readonly SessionEvent[] = instructions === ""
    ? []
    : [{ type: "message_added", message: { role: "system", content: instructions } }];
  const events = [...system, ...stored.map(({ event }) => asSessionEvent(event))];
  const rebuilt = rebuildHistory(events);
  const waiting = (await store.readState(id, "steering") ?? []) as readonly Content[];
  const links = helperLinks(events);
  if (!rebuilt.interrupted) return { rebuilt, links, recovery: [], waiting };
  const start = events.findLastIndex(({ type }) => type === "turn_start");
  if (!end) {
    const { messages, ledger, turns } = rebuildHistory(events.slice(0, start));
    const runningAfter = stored[start - system.length]!.number - 1;
    const before = { messages, ledger, turns, questions: rebuilt.questions };
    return { rebuilt: before, links, recovery: [], waiting: [], runningAfter };
  }
  const helpers = await readHelpers(helperLinks(events.slice(start)), store);
  const ledger = addLedgers(rebuilt.interrupted.ledger, costOf(helpers));
  const recovery = recoveryEvents({ ...rebuilt.interrupted, ledger }, { ...options, end, helpers, waiting });
  return { rebuilt: rebuildHistory([...events, ...recovery]), links, recovery, waiting: [] };
}

/** All that was said in a session, in the running turn too, as far as it is committed. @throws {StoreError} */
export async function readTranscript(
  { id, history, runningAfter: after, helpers }: Session,
  store: Store,
): Promise<Transcript> {
  if (after === undefined) return { messages: history };
  const stored = await store.readEvents(id, { after, types: HISTORY_EVENTS });
  const { messages, interrupted } = rebuildHistory(stored.map(({ event }) => asSessionEvent(event)), history);
  return {
    messages: [...history, ...messages],
    ...(interrupted && {
      turn: {
        after,
        firstMessage: history.length,
        step: interrupted.step,
        ledger: addLedgers(interrupted.ledger, helpers.ledger),
      },
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
  { tools, waiting, end, helpers = [] }: RecoveryOptions,
): LoopEvent[] {
  const results = unanswered.map(({ call, denied }): LoopEvent => {
    const { name } = describeCall(call);
    const tool = tools.find(({ definition }) => definition.function.name === meantCall(call).name);
    const helper = helpers.find(({ id }) => id === call.id);
    const { content, error } = denied !== undefined
      ? { content: denied, error: true }
      : helper
      ? interruptedHelper(helper)
      : interruptedResult(call, tool);
    const bytes = new TextEncoder().encode(content).length;
    return { type: "tool_result", step, id: call.id, name, content, error, bytes, durationMs: 0 };
  });
  const isComplete = answer !== undefined && waiting.length === 0 && end.reason === "interrupted";
  return [
    ...results,
    ...waiting.map((input): LoopEvent => ({ type: "user_message", step, input })),
    { type: "turn_end", text: answer ?? "", ledger, ...(isComplete ? { reason: "completed" } : end) },
  ];
}

function interruptedResult({ type }: ToolCall, tool: Tool | undefined): HelperResult {
  const advice = type === "function" && tool?.stance === "rederivable"
    ? "It only reads: call it again if you need it."
    : "It may have taken effect: find out before you call it again.";
  return { content: `Cannot tell the result: interrupted, outcome unknown. ${advice}`, error: true };
}
