import { addLedgers, EMPTY_LEDGER, type LoopEvent, type Model, run, type RunOptions } from "@tare/loop";
import type { Content, CountTokens } from "@tare/messages";

import type { Session } from "./session.ts";

/** What a turn needs beside its session. */
export interface TurnOptions {
  /** Answers. */
  readonly model: Model;
  /** Gives the token counter, once it is loaded. */
  readonly countTokens: () => Promise<CountTokens>;
  /** Limits of the loop. Default: the loop's own. */
  readonly limits?: Pick<
    RunOptions,
    "maxSteps" | "maxOutputTokens" | "maxParallelTools" | "toolTimeoutMs" | "idleTimeoutMs"
  >;
  /** Told of every error that clients don't get to read. */
  readonly onError: (error: unknown) => void;
}

/** What clients are told when a bug of ours ended the turn. */
const UNEXPECTED_END = {
  type: "turn_end",
  reason: "internal_error",
  text: "",
  message: "The server met an unexpected error; its log says more.",
  ledger: EMPTY_LEDGER,
} as const satisfies LoopEvent;

/**
 * Starts a turn and returns at once; what happens is appended to the session's events. The session is idle again
 * before its `turn_end` can be read, so that who has read it may start the next turn.
 */
export function startTurn(session: Session, input: Content, options: TurnOptions): void {
  const controller = new AbortController();
  session.events.open();
  const done = Promise.try(() => playTurn(session, input, controller.signal, options)).catch((error) => {
    options.onError(error);
    endTurn(session, UNEXPECTED_END);
  });
  session.running = { cancel: () => controller.abort(), done };
}

async function playTurn(
  session: Session,
  input: Content,
  signal: AbortSignal,
  { model, countTokens, limits, onError }: TurnOptions,
): Promise<void> {
  const turn = run({
    ...limits,
    model,
    history: session.history,
    input,
    tools: session.tools,
    context: session.context.view,
    countTokens: await countTokens(),
    signal,
  });
  let end: LoopEvent | undefined;
  for (;;) {
    const { done, value } = await turn.next();
    if (done) {
      session.history = [...session.history, ...value.messages];
      session.ledger = addLedgers(session.ledger, value.ledger);
      if (value.error !== undefined) onError(value.error);
      return endTurn(session, end ?? UNEXPECTED_END);
    }
    if (value.type === "step_end") session.context.succeeded(value.usage);
    if (value.type !== "turn_end") session.events.append(value);
    else end = value.reason === "internal_error" ? { ...UNEXPECTED_END, ledger: value.ledger } : value;
  }
}

function endTurn(session: Session, end: LoopEvent): void {
  delete session.running;
  session.turns += 1;
  session.events.append(end);
  session.events.close();
}
