import { addLedgers, EMPTY_LEDGER, type TurnLedger } from "@tare/loop";
import { contentText, type Message, type ToolCall, type ToolMessage } from "@tare/messages";
import { deniedResult, NO_QUESTIONS, type Questions, questionsAfter } from "../approvals/questions.ts";
import { openCalls } from "../turns/open_calls.ts";
import type { SessionEvent } from "./event_log.ts";

/** The events that say what was said; the others only tell how. */
export const HISTORY_EVENTS: readonly SessionEvent["type"][] = [
  "message_added",
  "turn_start",
  "user_message",
  "assistant_message",
  "tool_result",
  "approval_asked",
  "approval_answered",
  "step_end",
  "turn_end",
  "helper_started",
];

/** What a session's events say of it. */
export interface RebuiltHistory {
  /** What was said, without the system message. */
  readonly messages: readonly Message[];
  /** What all turns cost, an interrupted one as far as its steps ended. */
  readonly ledger: TurnLedger;
  /** Turns that have ended. */
  readonly turns: number;
  /** What is asked before calls run. */
  readonly questions: Questions;
  /** What is missing of a turn that never ended; absent if all did. */
  readonly interrupted?: {
    /** The step that was under way. */
    readonly step: number;
    /** Its calls that have no answer. */
    readonly unanswered: readonly UnansweredCall[];
    /** The text of the model's answer, if only the turn's end is missing. */
    readonly answer?: string;
    /** What the turn cost until then. */
    readonly ledger: TurnLedger;
  };
}

/** A call without an answer. */
export interface UnansweredCall {
  readonly call: ToolCall;
  /** What it is answered with, if somebody had said no to it. */
  readonly denied?: string | undefined;
}

/**
 * Rebuilds a session's history from its events, exactly as the loop made it: each reply is followed by the answers
 * to its calls, in the order of the calls. Other events than {@linkcode HISTORY_EVENTS} change nothing.
 * `before` is what was said before the events. Default: nothing was.
 */
export function rebuildHistory(
  events: Iterable<SessionEvent>,
  before: readonly Message[] = [],
): RebuiltHistory {
  const messages: Message[] = [];
  let turn: { step: number; ledger: TurnLedger } | undefined;
  let ledger: TurnLedger = EMPTY_LEDGER;
  let turns = 0;
  let questions = NO_QUESTIONS;
  let calls: readonly ToolCall[] = [];
  let answers = new Map<string, ToolMessage>();
  /** Where the turn begins, until it has a reply. */
  let opening: number | undefined;

  const settle = () => {
    for (const { id } of calls) {
      const answer = answers.get(id);
      if (answer) messages.push(answer);
    }
    calls = [];
    answers = new Map();
  };

  for (const event of events) {
    questions = questionsAfter(questions, event);
    switch (event.type) {
      case "message_added":
        // What is added once a turn has begun stands in front of what opened it.
        messages.splice(opening ?? messages.length, 0, event.message);
        break;
      case "turn_start":
        turn = { step: 1, ledger: EMPTY_LEDGER };
        // Those that somebody was asked for are answered in this turn.
        calls = openCalls(messages.length > 0 ? messages : before);
        opening = messages.length;
        if (event.input !== undefined) messages.push({ role: "user", content: event.input });
        break;
      case "user_message":
        settle();
        messages.push({ role: "user", content: event.input });
        break;
      case "assistant_message":
        opening = undefined;
        settle();
        messages.push(event.message);
        calls = event.message.tool_calls ?? [];
        if (turn) turn.step = event.step;
        break;
      case "tool_result":
        answers.set(event.id, { role: "tool", tool_call_id: event.id, content: event.content });
        break;
      case "step_end":
        settle();
        if (turn) {
          const { promptTokens, cachedTokens, outputTokens, estimated = false } = event.usage;
          const step = {
            calls: 1,
            promptTokens,
            cachedTokens,
            outputTokens,
            saved: {},
            estimated,
            ...event.cost,
          };
          turn = { step: event.step + 1, ledger: addLedgers(turn.ledger, step) };
        }
        break;
      case "turn_end":
        settle();
        ledger = addLedgers(ledger, event.ledger);
        turns += 1;
        turn = undefined;
        opening = undefined;
        break;
    }
  }
  if (!turn) return { messages, ledger, turns, questions };
  const { settled } = questions;
  const unanswered = calls.filter(({ id }) => !answers.has(id))
    .map((call) => ({ call, denied: deniedResult(settled, call) }));
  settle();
  const last = messages.at(-1);
  const answer = last?.role === "assistant" && unanswered.length === 0
    ? contentText(last.content) || last.refusal || ""
    : undefined;
  const interrupted = { ...turn, unanswered, ...(answer !== undefined && { answer }) };
  return { messages, ledger: addLedgers(ledger, turn.ledger), turns, questions, interrupted };
}
