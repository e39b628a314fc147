import {
  addLedgers,
  EMPTY_LEDGER,
  type LoopEvent,
  type Model,
  run,
  type RunOptions,
  type TurnResult,
} from "@tare/loop";
import type { Content, CountTokens, Message } from "@tare/messages";
import type { Session, SessionTotals } from "./session.ts";

type TurnEndEvent = Extract<LoopEvent, { readonly type: "turn_end" }>;

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
  /** Ends the turn with a sentence once it has cost too much. Default: no budget. */
  readonly overBudget?: RunOptions["overBudget"];
  /** Told of every error that clients don't get to read. */
  readonly onError: (error: unknown) => void;
}

/** What clients are told when a bug of ours ended the turn. */
const UNEXPECTED_END: TurnEndEvent = {
  type: "turn_end",
  reason: "internal_error",
  text: "",
  message: "The server met an unexpected error; its log says more.",
  ledger: EMPTY_LEDGER,
};

/**
 * Starts a turn and returns at once; what happens is committed to the session's events before anybody sees it. Without
 * an input the turn goes on where the last one stopped. The session is idle again before its `turn_end` can be read,
 * so that who has read it may start the next turn.
 */
export function startTurn(session: Session, input: Content | undefined, options: TurnOptions): void {
  const controller = new AbortController();
  const queue: Content[] = [];
  const steering = () => queue.splice(0);
  session.events.open();
  const done = Promise.try(() =>
    playTurn(session, { input, steering, signal: controller.signal, ...options })
  )
    .then(() => release(session))
    .catch((error) => {
      options.onError(error);
      try {
        endTurn(session, UNEXPECTED_END);
        release(session, { failed: true });
      } catch (storeError) {
        // Not even the end could be committed, so nobody may see one: readers are told of the failure itself.
        release(session, { failed: true, failure: storeError });
      }
    });
  session.running = { cancel: () => controller.abort(), steer: (said) => void queue.push(said), done };
}

/** Makes the session idle, and lets its readers come to the end. */
function release(
  session: Session,
  { failed = false, failure }: { readonly failed?: boolean; readonly failure?: unknown } = {},
): void {
  delete session.running;
  session.events.close(failure);
  session.released(failed);
}

interface PlayOptions extends TurnOptions, Required<Pick<RunOptions, "signal" | "steering">> {
  readonly input: Content | undefined;
}

async function playTurn(session: Session, options: PlayOptions): Promise<void> {
  const { input, countTokens, limits, overBudget, onError, model, signal, steering } = options;
  const runOptions: RunOptions = {
    ...limits,
    ...(overBudget && { overBudget }),
    ...(input !== undefined && { input }),
    model,
    signal,
    steering,
    history: session.history,
    tools: session.tools,
    countTokens: await countTokens(),
    context: async (request) => {
      const view = await session.context.view(request);
      session.saveContext();
      return view;
    },
  };
  let result: TurnResult | undefined;
  let end: TurnEndEvent = UNEXPECTED_END;
  // Leaving the loop over these events, by an error too, stops the turn.
  const events = (async function* () {
    result = yield* run(runOptions);
  })();
  for await (const event of events) {
    if (event.type !== "turn_end") {
      session.events.append([event], event.type === "step_end" ? { context: session.context.state } : {});
    } else {
      end = event.reason === "internal_error" ? { ...UNEXPECTED_END, ledger: event.ledger } : event;
    }
  }
  if (result?.error !== undefined) onError(result.error);
  // What the user said too late for this turn is not lost: the next one begins with it.
  const unheard = steering().map((input): LoopEvent => ({
    type: "user_message",
    step: end.ledger.calls,
    input,
  }));
  if (unheard.length > 0) session.events.append(unheard);
  session.history = [
    ...session.history,
    ...result?.messages ?? [],
    ...unheard.flatMap((event) => event.type === "user_message" ? [userMessage(event.input)] : []),
  ];
  endTurn(session, end);
}

function userMessage(content: Content): Message {
  return { role: "user", content };
}

function endTurn(session: Session, end: TurnEndEvent): void {
  const turns = session.turns + 1;
  const ledger = addLedgers(session.ledger, end.ledger);
  session.events.append([end], { totals: { turns, ledger } satisfies SessionTotals });
  session.turns = turns;
  session.ledger = ledger;
}
