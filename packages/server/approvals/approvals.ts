import { addLedgers, type AnsweredCall, EMPTY_LEDGER, type TurnLedger } from "@tare/loop";
import type { Message, ToolMessage } from "@tare/messages";
import type { SessionEvent } from "../sessions/event_log.ts";
import {
  nothingToContinue,
  type SessionOptions,
  stillAsked,
  type TurnRequest,
} from "../sessions/session_options.ts";
import type { Budget } from "../turns/budget.ts";
import { answersTo, openCalls } from "../turns/open_calls.ts";
import type { AskedEvent } from "../turns/run_turn.ts";
import { ANSWER_WITHIN_MS } from "./approval_options.ts";
import {
  type Answer,
  type Answered,
  answeredCalls,
  denials,
  deniedResults,
  NO_QUESTIONS,
  openQuestions,
  type Question,
  type Questions,
  questionsAfter,
} from "./questions.ts";

/** A turn that goes on once what it asks is answered. */
export interface WaitingTurn {
  /** When the time for an answer is over, in milliseconds since the epoch. */
  readonly untilMs: number;
  /** What the turn may cost. */
  readonly budget?: Budget | undefined;
  /** What it cost so far. */
  readonly spent: TurnLedger;
}

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
  readonly always: Questions["always"];
}

/** What a turn asks at its end, and what is kept of it until it goes on, if it asks anything. */
export interface Closing {
  readonly events: readonly Required<AskedEvent>[];
  readonly asks?: WaitingTurn | undefined;
}

/** What is asked in a session. Nothing of it changes before it is committed. */
export class Approvals {
  readonly #id: string;
  readonly #options: Pick<SessionOptions, "now" | "approvals">;
  #questions: Questions = NO_QUESTIONS;
  #asks: WaitingTurn | undefined;

  /** Nothing is asked yet in the session of this id. */
  constructor(id: string, options: Pick<SessionOptions, "now" | "approvals">) {
    this.#id = id;
    this.#options = options;
  }

  /** The questions that nobody has answered. */
  get open(): readonly Question[] {
    return openQuestions(this.#questions);
  }

  /** Takes what is stored. */
  adopt(questions: Questions, asks: WaitingTurn | undefined): void {
    this.#questions = questions;
    this.#asks = asks;
  }

  /** These events are committed, and what is kept of a turn that asks. */
  committed(events: readonly SessionEvent[], asks?: WaitingTurn): void {
    this.#asks = asks ?? this.#asks;
    this.#questions = events.reduce(questionsAfter, this.#questions);
  }

  /** What `say` says of what is asked, and whether nothing is left open then. */
  hear(
    say: (questions: Questions) => readonly Answered[],
  ): { readonly told: readonly Answered[]; readonly isAll: boolean } {
    const told = say(this.#questions);
    const left = openQuestions(told.reduce(questionsAfter, this.#questions));
    return { told, isAll: told.length > 0 && left.length === 0 };
  }

  /** What leaves a turn where it is: each of its open calls gets its result, or is told that there is none. */
  leave(
    history: readonly Message[],
    { by, results = [] }: {
      readonly by: Exclude<Answer["by"], "person">;
      readonly results?: TurnRequest["results"];
    },
  ): Opening {
    const told = denials(this.#questions, by);
    const calls = openCalls(history);
    const denied = deniedResults(told.reduce(questionsAfter, this.#questions), calls);
    const answers = answersTo(calls, [...results, ...denied]);
    const added = answers.map((message) => ({ type: "message_added", message }) as const);
    return { events: [...told, ...added], answers, answered: [], always: this.#questions.always };
  }

  /**
   * What the next turn begins with.
   *
   * @throws {HttpError} 409 if there is nothing to continue, or it can't be continued without an answer.
   */
  begin(
    { input, results, told, budget }: Pick<TurnRequest, "input" | "results" | "told" | "budget">,
    history: readonly Message[],
  ): Opening {
    if (told) {
      const questions = told.reduce(questionsAfter, this.#questions);
      return {
        events: told,
        answers: [],
        answered: answeredCalls(questions, openCalls(history)),
        always: questions.always,
        budget: this.#asks?.budget,
        spent: this.#asks?.spent,
      };
    }
    if (input === undefined && this.open.length > 0) throw stillAsked(this.#id);
    const left = this.leave(history, { by: "message", results });
    // What the server says of the tools is nothing to answer.
    const last = left.answers.at(-1) ?? history.findLast(({ role }) => role !== "system");
    if (input === undefined && !["user", "tool"].includes(last?.role ?? "")) {
      throw nothingToContinue(this.#id);
    }
    return { ...left, budget };
  }

  /** What a turn that began so asks at its end. */
  end(
    asked: readonly AskedEvent[],
    { ledger, opening: { budget, spent = EMPTY_LEDGER } }: {
      readonly ledger: TurnLedger;
      readonly opening: Opening;
    },
  ): Closing {
    const { now = Date.now, approvals: { answerWithinMs = ANSWER_WITHIN_MS } = {} } = this.#options;
    const askedAtMs = now();
    const expiresAtMs = askedAtMs + answerWithinMs;
    return {
      events: asked.map((event) => ({ ...event, askedAtMs, expiresAtMs })),
      asks: asked.length === 0
        ? undefined
        : { untilMs: expiresAtMs, budget, spent: addLedgers(spent, ledger) },
    };
  }
}
