import type { AnsweredCall, AskedCall, LoopEvent, TurnLedger } from "@tare/loop";
import { addLedgers, EMPTY_LEDGER } from "@tare/loop/internal";
import type { Message, ToolCall, ToolMessage } from "@tare/messages";
import { describeCall, pairCalls } from "@tare/messages/internal";
import { API_PATH } from "../http/api_path.ts";
import { HttpError, notFound } from "../http/http_error.ts";
import type { SessionOptions } from "../sessions/session_options.ts";
import type {
  Answer,
  ApprovalAnswered,
  Question,
  SessionEvent,
  TurnRequest,
  WaitingTurn,
} from "../sessions/session_types.ts";

/** A question, before it is put. */
export type AskedEvent = Extract<LoopEvent, { readonly type: "approval_asked" }>;

/** What is committed before a turn starts, and what the turn is played with. */
export interface Opening extends Pick<WaitingTurn, "budget"> {
  /** What the turn cost before it went on. */
  readonly spent?: TurnLedger | undefined;
  readonly events: readonly SessionEvent[];
  /** Of these, the messages that enter the history. */
  readonly answers: readonly ToolMessage[];
  /** What was said to the questions of the turn that goes on. */
  readonly answered: readonly AnsweredCall[];
  /** The calls to which somebody said yes for ever. */
  readonly always: SessionQuestions["always"];
}

/** What a turn asks at its end, and what is kept of it until it goes on, if it asks anything. */
interface Closing {
  readonly events: readonly (
    & AskedEvent
    & Required<Pick<AskedEvent, "approvalId" | "askedAtMs" | "expiresAtMs">>
  )[];
  readonly asks?: WaitingTurn | undefined;
}

/** What `say` says of what is asked, and whether nothing is left open then. */
export function hear(
  questions: SessionQuestions,
  say: (questions: SessionQuestions) => readonly ApprovalAnswered[],
): { readonly told: readonly ApprovalAnswered[]; readonly isAll: boolean } {
  const told = say(questions);
  const left = openQuestions(told.reduce(questionsAfter, questions));
  return { told, isAll: told.length > 0 && left.length === 0 };
}

/** What leaves a turn where it is: each of its open calls gets its result, or is told that there is none. */
export function leaveTurn(
  questions: SessionQuestions,
  history: readonly Message[],
  { by, results = [] }: {
    readonly by: Exclude<Answer["by"], "person">;
    readonly results?: TurnRequest["results"];
  },
): Opening {
  const told = denials(questions, by);
  const calls = openCalls(history);
  const denied = deniedResults(told.reduce(questionsAfter, questions), calls);
  const answers = answersTo(calls, [...results, ...denied]);
  const added = answers.map((message) => ({ type: "message_added", message }) as const);
  return { events: [...told, ...added], answers, answered: [], always: questions.always };
}

/**
 * What the next turn begins with.
 *
 * @throws {HttpError} 409 if there is nothing to continue, or it can't be continued without an answer.
 */
export function openTurn(
  { input, results, told, budget }: Pick<TurnRequest, "input" | "results" | "told" | "budget">,
  { id, history, questions, asks }: {
    readonly id: string;
    readonly history: readonly Message[];
    readonly questions: SessionQuestions;
    /** The turn that goes on with what was told. */
    readonly asks: WaitingTurn | undefined;
  },
): Opening {
  if (told) {
    const after = told.reduce(questionsAfter, questions);
    const answered = answeredCalls(after.asked, openCalls(history));
    return {
      ...{ events: told, answers: [], answered, always: after.always },
      ...{ budget: asks?.budget, spent: asks?.spent },
    };
  }
  if (input === undefined && openQuestions(questions).length > 0) throw stillAsked(id);
  const left = leaveTurn(questions, history, { by: "message", results });
  // What the server says of the tools is nothing to answer.
  const last = left.answers.at(-1) ?? history.findLast(({ role }) => role !== "system");
  if (input === undefined && !["user", "tool"].includes(last?.role ?? "")) throw nothingToContinue(id);
  return { ...left, budget };
}

/** What a turn that began so asks at its end. */
export function closeTurn(
  asked: readonly AskedEvent[],
  { ledger, opening: { budget, spent = EMPTY_LEDGER }, options }: {
    readonly ledger: TurnLedger;
    readonly opening: Opening;
    readonly options: Pick<SessionOptions, "store" | "approvals">;
  },
): Closing {
  const { store, approvals: { answerWithinMs = ANSWER_WITHIN_MS } = {} } = options;
  const askedAtMs = store.now();
  const expiresAtMs = askedAtMs + answerWithinMs;
  return {
    events: asked.map((event) => ({ ...event, approvalId: crypto.randomUUID(), askedAtMs, expiresAtMs })),
    asks: asked.length === 0 ? undefined : { untilMs: expiresAtMs, budget, spent: addLedgers(spent, ledger) },
  };
}

interface PutQuestion extends Question {
  /** Absent as long as nobody has said anything. */
  readonly answer?: Answer;
}

/** What is asked in a session, by its events. Open questions are all about calls of the newest reply. */
export interface SessionQuestions {
  /** The questions that the last turn ended with, until all are answered. */
  readonly asked: readonly PutQuestion[];
  /** Those whose answers the newest turn began with. */
  readonly settled: readonly PutQuestion[];
  /** The calls to which somebody said yes for ever. */
  readonly always: readonly AskedCall[];
}

/** Nothing was asked yet. */
export const NO_QUESTIONS: SessionQuestions = { asked: [], settled: [], always: [] };

/** The questions after an event. */
export function questionsAfter(questions: SessionQuestions, event: SessionEvent): SessionQuestions {
  const { asked, always } = questions;
  switch (event.type) {
    case "approval_asked": {
      const { type: _type, step: _step, approvalId = "", askedAtMs = 0, expiresAtMs = Infinity, ...call } =
        event;
      return { ...questions, asked: [...asked, { ...call, approvalId, askedAtMs, expiresAtMs }] };
    }
    case "approval_answered": {
      const { type: _type, approvalId, id: _id, ...answer } = event;
      const question = asked.find((one) => one.approvalId === approvalId);
      return {
        ...questions,
        asked: asked.map((one) => one === question ? { ...one, answer } : one),
        always: question && answer.always ? [...always, question] : always,
      };
    }
    case "message_added": {
      const { message } = event;
      const left = asked.filter(({ id, parent = id }) =>
        message.role !== "tool" || message.tool_call_id !== parent
      );
      return left.length === asked.length ? questions : { ...questions, asked: left };
    }
    case "turn_start":
      return { ...questions, asked: [], settled: asked };
    default:
      return questions;
  }
}

/** The questions that nobody has answered. */
export function openQuestions({ asked }: SessionQuestions): readonly Question[] {
  return asked.filter(({ answer }) => !answer);
}

/** What a client says to a question. */
interface GivenAnswer extends Pick<Answer, "reason"> {
  readonly decision: "allow" | "deny" | "always";
  /** Name of the key with which it is said. Default: nobody knows. */
  readonly key?: string;
}

/** Returns the event by which a person answers. @throws {HttpError} 404 if there is no such question, 409 if it is answered. */
export function answerTo(
  questions: SessionQuestions,
  approvalId: string,
  { decision, reason, key }: GivenAnswer,
): readonly ApprovalAnswered[] {
  const question = questions.asked.find((one) => one.approvalId === approvalId);
  if (!question) {
    const state = "the session has no such approval, or its turn has continued";
    throw notFound(`Cannot answer approval ${approvalId}: ${state}.`);
  }
  if (question.answer) {
    const state = `it is answered already, with ${question.answer.decision}`;
    throw new HttpError(409, "already_answered", `Cannot answer approval ${approvalId}: ${state}.`);
  }
  return [{
    type: "approval_answered",
    approvalId,
    id: question.id,
    decision: decision === "deny" ? decision : "allow",
    ...(reason !== undefined && reason.trim() !== "" && { reason }),
    ...(decision === "always" && { always: true }),
    by: "person",
    ...(key !== undefined && { key }),
  }];
}

/** The events that deny what nobody has answered; of questions by time, those whose time was over then. */
function denials(
  questions: SessionQuestions,
  by: Exclude<Answer["by"], "person">,
  whenMs: number = Infinity,
): readonly ApprovalAnswered[] {
  return openQuestions(questions).filter(({ expiresAtMs }) => by !== "time" || expiresAtMs <= whenMs)
    .map(({ approvalId, id }) => ({ type: "approval_answered", approvalId, id, decision: "deny", by }));
}

/** Why a call didn't run, for the model; nothing if it may. */
function denialOf({ answer, begun }: PutQuestion): string | undefined {
  if (!answer || answer.decision === "allow") return undefined;
  return begun ? `${BEGUN} ${whyDenied(answer)}` : whyDenied(answer);
}

const BEGUN =
  "the server ended while it ran, and it may have taken effect: find out before you call it again. It wasn't run again:";

function whyDenied({ reason, by }: Answer): string {
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

/** What was said of these calls, or of those that they make. */
export function answeredCalls(
  asked: SessionQuestions["asked"],
  calls: readonly ToolCall[],
): readonly AnsweredCall[] {
  return calls.flatMap((call) =>
    asked.filter(({ id, parent = id, answer }) => parent === call.id && answer).map((question) => {
      const denied = denialOf(question);
      return { call, asked: question, ...(denied !== undefined && { denied }) };
    })
  );
}

/** The answers to calls that don't run, or don't go on, because somebody said no. */
function deniedResults({ asked }: SessionQuestions, calls: readonly ToolCall[]): readonly ToolMessage[] {
  return calls.flatMap((call): ToolMessage[] => {
    const content = deniedResult(asked, call) ?? stoppedResult(asked, call);
    return content === undefined ? [] : [{ role: "tool", tool_call_id: call.id, content }];
  });
}

/** The result of a call that waited for what was said of others which it makes. */
function stoppedResult(asked: SessionQuestions["asked"], call: ToolCall): string | undefined {
  const made = asked.filter(({ parent }) => parent === call.id);
  const denied = made.find(({ answer }) => answer?.decision === "deny");
  if (!denied?.answer) return undefined;
  const names = made.map(({ name }) => name).join(", ");
  return `Cannot finish ${describeCall(call).name}: it had called ${names}, and ${
    whyDenied(denied.answer)
  } ` +
    "What it called before that was done.";
}

/** The result of a call to which somebody said no, of these questions; nothing of any other. */
export function deniedResult(asked: SessionQuestions["asked"], call: ToolCall): string | undefined {
  const question = asked.find(({ id }) => id === call.id);
  const denied = question && denialOf(question);
  return denied === undefined ? undefined : `Cannot run ${describeCall(call).name}: ${denied}`;
}

/** The calls at a history's end that nobody has answered: the last turn left them to its client. */
export function openCalls(history: readonly Message[]): readonly ToolCall[] {
  const last = history.findLastIndex(({ role }) => role === "assistant");
  if (last < 0) return [];
  return pairCalls(history.slice(last)).filter(({ answer }) => !answer).map(({ call }) => call);
}

/** An answer to each call, in their order: its result, or an error where there is none, for no call may stay open. */
function answersTo(
  calls: readonly ToolCall[],
  results: readonly ToolMessage[],
): readonly ToolMessage[] {
  return calls.map((call) => {
    const { name } = describeCall(call);
    return results.find(({ tool_call_id: id }) => id === call.id) ?? {
      role: "tool",
      tool_call_id: call.id,
      content: `Cannot tell the result of ${name}: whoever was asked to run it went on without telling.`,
    };
  });
}

/** The time for an answer where nothing is said of it, in milliseconds. */
const ANSWER_WITHIN_MS = 24 * 60 * 60_000;

interface AskingSession {
  readonly answer: (
    say: (questions: SessionQuestions) => readonly ApprovalAnswered[],
    request: Pick<TurnRequest, "unattended">,
  ) => Promise<unknown>;
}

interface TimedSessions {
  readonly sessions: { readonly get: (id: string) => Promise<AskingSession> };
  /** The time in milliseconds since the epoch. */
  readonly now: () => number;
  /** Calls back after so many milliseconds, until the function that it returns is called. */
  readonly after: (ms: number, work: () => void) => () => void;
  /** Told when a session can't be told that its time is over; it is tried again. */
  readonly onError: (error: unknown) => void;
}

/** After which time an answer that couldn't be given is tried again, in milliseconds. */
const AGAIN_MS = 10_000;

/** Longest delay of a timer, in milliseconds: more fires at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Says no for those who haven't answered in time: each session that asks has a timer. */
export class ApprovalTimers {
  readonly #options: TimedSessions;
  readonly #timers = new Map<string, { readonly untilMs: number; readonly stop: () => void }>();

  constructor(options: TimedSessions) {
    this.#options = options;
  }

  /** Until when the session of this id waits for an answer; nothing if it doesn't ask. */
  set(id: string, untilMs: number | undefined): void {
    if (this.#timers.get(id)?.untilMs === untilMs) return;
    this.#timers.get(id)?.stop();
    this.#timers.delete(id);
    if (untilMs === undefined) return;
    const { now, after } = this.#options;
    this.#arm(id, { untilMs, ms: Math.max(0, untilMs - now()), after });
  }

  /** Waits for nothing any more. */
  close(): void {
    for (const { stop } of this.#timers.values()) stop();
    this.#timers.clear();
  }

  #arm(
    id: string,
    { untilMs, ms, after }: Pick<TimedSessions, "after"> & { readonly untilMs: number; readonly ms: number },
  ): void {
    const { sessions, onError } = this.#options;
    const end = async () => {
      const session = await sessions.get(id);
      // A turn that goes on asks nobody again: it would come to an end never, and cost each time.
      await session.answer((questions) => denials(questions, "time", untilMs), { unattended: "deny" });
    };
    const again = (ms: number) => this.#arm(id, { untilMs, ms, after });
    const timer = {
      untilMs,
      stop: after(Math.min(ms, MAX_TIMER_MS), () => {
        if (ms > MAX_TIMER_MS) return again(ms - MAX_TIMER_MS);
        end().catch((error) => {
          if (this.#timers.get(id) !== timer) return;
          this.#timers.delete(id);
          // Of one that was deleted meanwhile nobody waits for an answer.
          if (error instanceof HttpError && error.status === 404) return;
          onError(error);
          again(AGAIN_MS);
        });
      }),
    };
    this.#timers.set(id, timer);
  }
}

/** The error for a turn that shall go on while its questions are open. */
function stillAsked(id: string): HttpError {
  return new HttpError(
    409,
    "approval_open",
    `Cannot continue session ${id}: calls wait for an answer. Answer with POST ${API_PATH}/sessions/${id}/approvals/{approval}, ` +
      "or send an input, which denies them.",
  );
}

/** The error for a turn without an input where there is nothing to go on with. */
function nothingToContinue(id: string): HttpError {
  return new HttpError(
    409,
    "nothing_to_continue",
    `Cannot continue session ${id}: the model has answered last. Send an input.`,
  );
}
