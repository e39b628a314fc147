import type { AnsweredCall, AskedCall } from "@tare/loop";
import { describeCall, type ToolCall, type ToolMessage } from "@tare/messages";
import { HttpError } from "../http/http_error.ts";
import type { SessionEvent } from "../sessions/event_log.ts";

/** What somebody is asked: whether a call may run. */
export interface Question extends AskedCall {
  /** In milliseconds since the epoch. */
  readonly askedAtMs: number;
  /** When the time for an answer is over, likewise. */
  readonly expiresAtMs: number;
}

/** What somebody said to a question. */
export interface Answer {
  readonly decision: "allow" | "deny";
  /** Why, for the model. */
  readonly reason?: string;
  /** True if calls like this one need not be asked for in this session any more. */
  readonly always?: true;
  /** Who said so: a person; or the time was over, or the user went on with a message, or cancelled. */
  readonly by: "person" | "time" | "message" | "cancel";
}

/** An answer to a question, as an event. */
export type Answered = { readonly type: "approval_answered"; readonly id: string } & Answer;

interface PutQuestion extends Question {
  /** Absent as long as nobody has said anything. */
  readonly answer?: Answer;
}

/** What is asked in a session, by its events. Open questions are all about calls of the newest reply. */
export interface Questions {
  /** The questions that the last turn ended with, until all are answered. */
  readonly asked: readonly PutQuestion[];
  /** Those whose answers the newest turn began with. */
  readonly settled: readonly PutQuestion[];
  /** The calls to which somebody said yes for ever. */
  readonly always: readonly AskedCall[];
}

/** Nothing was asked yet. */
export const NO_QUESTIONS: Questions = { asked: [], settled: [], always: [] };

/** The questions after an event. */
export function questionsAfter(questions: Questions, event: SessionEvent): Questions {
  const { asked, always } = questions;
  switch (event.type) {
    case "approval_asked": {
      const { type: _type, step: _step, askedAtMs = 0, expiresAtMs = Infinity, ...call } = event;
      return { ...questions, asked: [...asked, { ...call, askedAtMs, expiresAtMs }] };
    }
    case "approval_answered": {
      const { type: _type, id, ...answer } = event;
      const question = asked.find((one) => one.id === id);
      return {
        ...questions,
        asked: asked.map((one) => one === question ? { ...one, answer } : one),
        always: question && answer.always ? [...always, question] : always,
      };
    }
    case "message_added": {
      const { message } = event;
      const left = asked.filter(({ id }) => message.role !== "tool" || message.tool_call_id !== id);
      return left.length === asked.length ? questions : { ...questions, asked: left };
    }
    case "turn_start":
      return { ...questions, asked: [], settled: asked };
    default:
      return questions;
  }
}

/** The questions that nobody has answered. */
export function openQuestions({ asked }: Questions): readonly Question[] {
  return asked.filter(({ answer }) => !answer);
}

/** What a client says to a question. */
export interface GivenAnswer extends Pick<Answer, "reason"> {
  readonly decision: "allow" | "deny" | "always";
  /** Which question is meant, where a provider gives its calls the same ids over and over. Default: the open one. */
  readonly askedAtMs?: number | undefined;
}

/** The event by which a person answers. @throws {HttpError} 404 if it isn't asked, 409 if somebody has answered. */
export function answerTo(
  questions: Questions,
  id: string,
  { decision, reason, askedAtMs }: GivenAnswer,
): readonly Answered[] {
  const question = questions.asked.find((one) => one.id === id);
  if (!question) {
    const state = "nothing is asked about it, or not any more";
    throw new HttpError(404, "not_found", `Cannot answer for call ${id}: ${state}.`);
  }
  if (question.answer || (askedAtMs ?? question.askedAtMs) !== question.askedAtMs) {
    const state = question.answer
      ? `somebody has said ${question.answer.decision}`
      : `what was asked at ${askedAtMs} is settled, and this was asked at ${question.askedAtMs}`;
    throw new HttpError(409, "already_answered", `Cannot answer for call ${id}: ${state}.`);
  }
  return [{
    type: "approval_answered",
    id,
    decision: decision === "deny" ? decision : "allow",
    ...(reason !== undefined && reason.trim() !== "" && { reason }),
    ...(decision === "always" && { always: true }),
    by: "person",
  }];
}

/** The events that deny what nobody has answered; of questions by time, those whose time was over then. */
export function denials(
  questions: Questions,
  by: Exclude<Answer["by"], "person">,
  whenMs: number = Infinity,
): readonly Answered[] {
  return openQuestions(questions).filter(({ expiresAtMs }) => by !== "time" || expiresAtMs <= whenMs)
    .map(({ id }) => ({ type: "approval_answered", id, decision: "deny", by }));
}

/** Why a call didn't run, for the model; nothing if it may. */
export function denialOf({ decision, reason, by }: Answer): string | undefined {
  if (decision === "allow") return undefined;
  switch (by) {
    case "person":
      return reason === undefined ? "the user said no." : `the user said no: ${reason}`;
    case "time":
      return `nobody said in time whether it may run. ${NOBODY}`;
    case "message":
      return "the user went on without saying whether it may run.";
    case "cancel":
      return "the user was asked whether it may run, and cancelled.";
  }
}

/** What the model is told to do where nobody can be asked. */
const NOBODY = "Do what can be done without it, and say what is left to do.";

/** Why a call doesn't run where nobody can be asked, for the model. */
export const CANNOT_ASK = `somebody would have to allow it, and nobody can be asked here. ${NOBODY}`;

/** What the next turn begins with: the open calls that were asked for, and what was said. */
export function answeredCalls({ asked }: Questions, calls: readonly ToolCall[]): readonly AnsweredCall[] {
  return calls.flatMap((call) => {
    const question = asked.find(({ id }) => id === call.id);
    if (!question?.answer) return [];
    const denied = denialOf(question.answer);
    return [{ call, asked: question, ...(denied !== undefined && { denied }) }];
  });
}

/** The answers to calls that don't run, because somebody said no. */
export function deniedResults({ asked }: Questions, calls: readonly ToolCall[]): readonly ToolMessage[] {
  return calls.flatMap((call): ToolMessage[] => {
    const content = deniedResult(asked, call);
    return content === undefined ? [] : [{ role: "tool", tool_call_id: call.id, content }];
  });
}

/** The result of a call to which somebody said no, of these questions; nothing of any other. */
export function deniedResult(asked: Questions["asked"], call: ToolCall): string | undefined {
  const answer = asked.find(({ id }) => id === call.id)?.answer;
  const denied = answer && denialOf(answer);
  return denied === undefined ? undefined : `Cannot run ${describeCall(call).name}: ${denied}`;
}
