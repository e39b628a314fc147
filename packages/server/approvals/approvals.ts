import type { AnsweredCall, LoopEvent, PendingCall, TurnLedger } from "@tare/loop";
import { addLedgers, EMPTY_LEDGER } from "@tare/loop/internal";
import type { Message, ToolCall, ToolMessage } from "@tare/messages";
import { describeCall, pairCalls } from "@tare/messages/internal";
import { API_PATH } from "../http/api_path.ts";
import { HttpError, notFound } from "../http/http_error.ts";
import type { SessionOptions } from "../sessions/session_options.ts";
import type {
  Answer,
  ApprovalAnswered,
  PendingApproval,
  SessionEvent,
  TurnRequest,
  WaitingTurn,
} from "../sessions/session_types.ts";

export type ApprovalEvent = Extract<LoopEvent, { readonly type: "approval_requested" }>;

/** Events committed before a turn starts, and the data to play it with. */
export interface Opening extends Pick<WaitingTurn, "budget"> {
  readonly spent?: TurnLedger | undefined;
  readonly continues?: boolean | undefined;
  readonly events: readonly SessionEvent[];
  readonly answers: readonly ToolMessage[];
  readonly answered: readonly AnsweredCall[];
  /** Calls that are always allowed. */
  readonly always: SessionApprovals["always"];
}

interface Closing {
  readonly events: readonly (
    & ApprovalEvent
    & Required<Pick<ApprovalEvent, "approvalId" | "requestedAtMs" | "expiresAtMs">>
  )[];
  readonly pendingApproval?: WaitingTurn | undefined;
}

export function takeDecisions(
  questions: SessionApprovals,
  decide: (questions: SessionApprovals) => readonly ApprovalAnswered[],
): { readonly decisions: readonly ApprovalAnswered[]; readonly isAll: boolean } {
  const decisions = decide(questions);
  const left = openApprovals(decisions.reduce(approvalsAfter, questions));
  return { decisions, isAll: decisions.length > 0 && left.length === 0 };
}

/** Returns the opening that abandons a turn: each open call gets its result, or an error. */
export function abandonTurn(
  questions: SessionApprovals,
  history: readonly Message[],
  { by, results = [] }: {
    readonly by: Exclude<Answer["by"], "user">;
    readonly results?: TurnRequest["results"];
  },
): Opening {
  const decisions = denials(questions, by);
  const calls = openCalls(history);
  const denied = deniedResults(decisions.reduce(approvalsAfter, questions), calls);
  const answers = answersTo(calls, [...results, ...denied]);
  const added = answers.map((message) => ({ type: "message_added", message }) as const);
  return { events: [...decisions, ...added], answers, answered: [], always: questions.always };
}

/**
 * Returns the opening of the next turn.
 *
 * @throws {HttpError} 409 if there is nothing to continue, or approvals are pending.
 */
export function openTurn(
  { input, results, decisions, budget }: Pick<TurnRequest, "input" | "results" | "decisions" | "budget">,
  { id, history, questions, pendingApproval }: {
    readonly id: string;
    readonly history: readonly Message[];
    readonly questions: SessionApprovals;
    readonly pendingApproval: WaitingTurn | undefined;
  },
): Opening {
  if (decisions) {
    const after = decisions.reduce(approvalsAfter, questions);
    const answered = answeredCalls(after.pending, openCalls(history));
    return {
      ...{ events: decisions, answers: [], answered, always: after.always },
      ...{ budget: pendingApproval?.budget, spent: pendingApproval?.spent, continues: true },
    };
  }
  if (input === undefined && openApprovals(questions).length > 0) throw stillPending(id);
  const left = abandonTurn(questions, history, { by: "message", results });
  // The server's description of tools needs no answer.
  const last = left.answers.at(-1) ?? history.findLast(({ role }) => role !== "system");
  if (input === undefined && !["user", "tool"].includes(last?.role ?? "")) throw nothingToContinue(id);
  return { ...left, budget, continues: input === undefined };
}

export function closeTurn(
  events: readonly ApprovalEvent[],
  { ledger, opening: { budget, spent = EMPTY_LEDGER }, options }: {
    readonly ledger: TurnLedger;
    readonly opening: Opening;
    readonly options: Pick<SessionOptions, "store" | "approvals">;
  },
): Closing {
  const { store, approvals: { answerWithinMs = ANSWER_WITHIN_MS } = {} } = options;
  const requestedAtMs = store.now();
  const expiresAtMs = requestedAtMs + answerWithinMs;
  return {
    events: events.map((event) => ({
      ...event,
      approvalId: crypto.randomUUID(),
      requestedAtMs,
      expiresAtMs,
    })),
    pendingApproval: events.length === 0
      ? undefined
      : { untilMs: expiresAtMs, budget, spent: addLedgers(spent, ledger) },
  };
}

interface TrackedApproval extends PendingApproval {
  readonly answer?: Answer;
}

/** Approvals of a session, by its events. Pending ones concern calls of the newest reply. */
export interface SessionApprovals {
  /** Approvals that the last turn ended with, until all are answered. */
  readonly pending: readonly TrackedApproval[];
  /** Approvals whose answers the newest turn began with. */
  readonly settled: readonly TrackedApproval[];
  readonly always: readonly PendingCall[];
}

export const NO_APPROVALS: SessionApprovals = { pending: [], settled: [], always: [] };

export function approvalsAfter(questions: SessionApprovals, event: SessionEvent): SessionApprovals {
  const { pending, always } = questions;
  switch (event.type) {
    case "approval_requested": {
      const {
        type: _type,
        step: _step,
        approvalId = "",
        requestedAtMs = 0,
        expiresAtMs = Infinity,
        ...call
      } = event;
      return { ...questions, pending: [...pending, { ...call, approvalId, requestedAtMs, expiresAtMs }] };
    }
    case "approval_answered": {
      const { type: _type, approvalId, id: _id, ...answer } = event;
      const question = pending.find((one) => one.approvalId === approvalId);
      return {
        ...questions,
        pending: pending.map((one) => one === question ? { ...one, answer } : one),
        always: question && answer.always ? [...always, question] : always,
      };
    }
    case "message_added": {
      const { message } = event;
      const left = pending.filter(({ id, parent = id }) =>
        message.role !== "tool" || message.tool_call_id !== parent
      );
      return left.length === pending.length ? questions : { ...questions, pending: left };
    }
    case "turn_start":
      return { ...questions, pending: [], settled: pending };
    default:
      return questions;
  }
}

export function openApprovals({ pending }: SessionApprovals): readonly PendingApproval[] {
  return pending.filter(({ answer }) => !answer);
}

interface GivenAnswer extends Pick<Answer, "reason"> {
  readonly decision: "allow" | "deny" | "always";
  readonly key?: string;
}

/**
 * Returns the event of a user's answer. @throws {HttpError} 404 if there is no such approval, 409 if it is answered.
 */
export function answerTo(
  questions: SessionApprovals,
  approvalId: string,
  { decision, reason, key }: GivenAnswer,
): readonly ApprovalAnswered[] {
  const question = questions.pending.find((one) => one.approvalId === approvalId);
  if (!question) {
    const state = "the session has no such approval, or its turn has continued";
    throw notFound(`Cannot answer approval ${approvalId}: ${state}.`);
  }
  if (question.answer) {
    const state = `it is already answered, with ${question.answer.decision}`;
    throw new HttpError(409, "already_answered", `Cannot answer approval ${approvalId}: ${state}.`);
  }
  return [{
    type: "approval_answered",
    approvalId,
    id: question.id,
    decision: decision === "deny" ? decision : "allow",
    ...(reason !== undefined && reason.trim() !== "" && { reason }),
    ...(decision === "always" && { always: true }),
    by: "user",
    ...(key !== undefined && { key }),
  }];
}

function denials(
  questions: SessionApprovals,
  by: Exclude<Answer["by"], "user">,
  whenMs: number = Infinity,
): readonly ApprovalAnswered[] {
  return openApprovals(questions).filter(({ expiresAtMs }) => by !== "time" || expiresAtMs <= whenMs)
    .map(({ approvalId, id }) => ({ type: "approval_answered", approvalId, id, decision: "deny", by }));
}

function denialOf({ answer, begun }: TrackedApproval): string | undefined {
  if (!answer || answer.decision === "allow") return undefined;
  return begun ? `${BEGUN} ${whyDenied(answer)}` : whyDenied(answer);
}

const BEGUN =
  "the server stopped while it ran, and it may have taken effect: check before calling it again. It " +
  "wasn't run again:";

function whyDenied({ reason, by }: Answer): string {
  switch (by) {
    case "user":
      return reason === undefined ? "the user denied it." : `the user denied it: ${reason}`;
    case "time":
      return `the approval timed out. ${NO_APPROVER}`;
    case "message":
      return "the user continued without approving it.";
    case "cancel":
      return "the user cancelled instead of approving it.";
  }
}

const NO_APPROVER = "Do what is possible without it, and report what remains.";

export const CANNOT_ASK = `it needs approval, and no user can give it here. ${NO_APPROVER}`;

export function answeredCalls(
  pending: SessionApprovals["pending"],
  calls: readonly ToolCall[],
): readonly AnsweredCall[] {
  return calls.flatMap((call) =>
    pending.filter(({ id, parent = id, answer }) => parent === call.id && answer).map((question) => {
      const denied = denialOf(question);
      return { call, question, ...(denied !== undefined && { denied }) };
    })
  );
}

function deniedResults({ pending }: SessionApprovals, calls: readonly ToolCall[]): readonly ToolMessage[] {
  return calls.flatMap((call): ToolMessage[] => {
    const content = deniedResult(pending, call) ?? stoppedResult(pending, call);
    return content === undefined ? [] : [{ role: "tool", tool_call_id: call.id, content }];
  });
}

function stoppedResult(pending: SessionApprovals["pending"], call: ToolCall): string | undefined {
  const made = pending.filter(({ parent }) => parent === call.id);
  const denied = made.find(({ answer }) => answer?.decision === "deny");
  if (!denied?.answer) return undefined;
  const names = made.map(({ name }) => name).join(", ");
  return `Cannot finish ${describeCall(call).name}: it had called ${names}, and ${
    whyDenied(denied.answer)
  } ` +
    "Its earlier calls were made.";
}

/** Returns the result of a denied call; `undefined` for any other. */
export function deniedResult(pending: SessionApprovals["pending"], call: ToolCall): string | undefined {
  const question = pending.find(({ id }) => id === call.id);
  const denied = question && denialOf(question);
  return denied === undefined ? undefined : `Cannot run ${describeCall(call).name}: ${denied}`;
}

/** Returns the calls at a history's end without a result: the last turn left them to its client. */
export function openCalls(history: readonly Message[]): readonly ToolCall[] {
  const last = history.findLastIndex(({ role }) => role === "assistant");
  if (last < 0) return [];
  return pairCalls(history.slice(last)).filter(({ answer }) => !answer).map(({ call }) => call);
}

/** Returns a result for each call, in order; an error if the client sent none. */
function answersTo(
  calls: readonly ToolCall[],
  results: readonly ToolMessage[],
): readonly ToolMessage[] {
  return calls.map((call) => {
    const { name } = describeCall(call);
    return results.find(({ tool_call_id: id }) => id === call.id) ?? {
      role: "tool",
      tool_call_id: call.id,
      content: `Cannot report the result of ${name}: the client sent none.`,
    };
  });
}

const ANSWER_WITHIN_MS = 24 * 60 * 60_000;

interface AskingSession {
  readonly answer: (
    decide: (questions: SessionApprovals) => readonly ApprovalAnswered[],
    request: Pick<TurnRequest, "unattended">,
  ) => Promise<unknown>;
}

interface TimedSessions {
  readonly sessions: { readonly get: (id: string) => Promise<AskingSession> };
  readonly now: () => number;
  /** Timer: calls back after `ms` milliseconds; returns a function that cancels it. */
  readonly after: (ms: number, work: () => void) => () => void;
  readonly onError: (error: unknown) => void;
}

const AGAIN_MS = 10_000;

/** Longest delay of a timer, in milliseconds: longer ones fire immediately. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Denies overdue approvals, with one timer per session. */
export class ApprovalTimers {
  readonly #options: TimedSessions;
  readonly #timers = new Map<string, { readonly untilMs: number; readonly stop: () => void }>();

  constructor(options: TimedSessions) {
    this.#options = options;
  }

  /** Sets a session's deadline; `undefined` if no approval is pending. */
  set(id: string, untilMs: number | undefined): void {
    if (this.#timers.get(id)?.untilMs === untilMs) return;
    this.#timers.get(id)?.stop();
    this.#timers.delete(id);
    if (untilMs === undefined) return;
    const { now, after } = this.#options;
    this.#arm(id, { untilMs, ms: Math.max(0, untilMs - now()), after });
  }

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
      // With further approvals the turn would never end, and cost each time.
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
          if (error instanceof HttpError && error.status === 404) return;
          onError(error);
          again(AGAIN_MS);
        });
      }),
    };
    this.#timers.set(id, timer);
  }
}

function stillPending(id: string): HttpError {
  return new HttpError(
    409,
    "approval_open",
    `Cannot continue session ${id}: calls wait for approval. Answer with POST ` +
      `${API_PATH}/sessions/${id}/approvals/{approval}, or send an input, which denies them.`,
  );
}

function nothingToContinue(id: string): HttpError {
  return new HttpError(
    409,
    "nothing_to_continue",
    `Cannot continue session ${id}: the last message is the model's answer. Send an input.`,
  );
}
