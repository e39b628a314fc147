import { addLedgers, type LoopEvent, type Model, run, type RunOptions, type TurnResult } from "@tare/loop";
import type { Content, CountTokens } from "@tare/messages";
import { toHttpError } from "../http/http_error.ts";
import type { Session, SessionTotals } from "./session.ts";
import { SteeringQueue } from "./steering_queue.ts";

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

/**
 * Starts a turn and returns at once; what happens is committed to the session's events before anybody sees it. Without
 * an input the turn goes on where the last one stopped. The session is idle again before its `turn_end` can be read,
 * so that who has read it may start the next turn.
 *
 * @throws {StoreError} if not even its start can be committed. Then nothing has happened.
 */
export function startTurn(session: Session, input: Content | undefined, options: TurnOptions): void {
  if (session.events.failed) session.restore();
  const controller = new AbortController();
  const steering = new SteeringQueue((waiting) => session.events.append([], { steering: waiting }));
  session.events.append([{ type: "turn_start", ...(input !== undefined && { input }) }]);
  session.events.open();
  const done = Promise.try(() =>
    playTurn(session, { input, steering, signal: controller.signal, ...options })
  )
    .catch((error) => endFailedTurn(session, error, options));
  session.running = { cancel: () => controller.abort(), steer: (said) => steering.add(said), done };
}

interface PlayOptions extends TurnOptions, Required<Pick<RunOptions, "signal">> {
  readonly input: Content | undefined;
  readonly steering: SteeringQueue;
}

async function playTurn(session: Session, options: PlayOptions): Promise<void> {
  const { input, countTokens, limits, overBudget, onError, model, signal, steering } = options;
  const { events } = session;
  const runOptions: RunOptions = {
    ...limits,
    ...(overBudget && { overBudget }),
    ...(input !== undefined && { input }),
    model,
    signal,
    steering: () => steering.take(),
    history: session.history,
    tools: session.tools,
    countTokens: await countTokens(),
    context: async (request) => {
      const { rewrites = [], ...view } = await session.context.view(request);
      // In one write, so that no crash leaves a rewrite that nobody was told of.
      events.append(
        rewrites.map((rewrite) => ({ type: "context_rewritten", step: request.step, ...rewrite })),
        session.unsaved(),
      );
      return view;
    },
  };
  let step = 1;
  let result: TurnResult | undefined;
  // Leaving the loop over these events, by an error too, stops the turn.
  const played = (async function* () {
    result = yield* run(runOptions);
  })();
  for await (const event of played) {
    if (event.type === "turn_start" || event.type === "turn_end") continue;
    if ("step" in event) step = event.step;
    if (event.type === "user_message") {
      events.append([event], { ...session.unsaved(), steering: steering.waiting.slice(1) });
      steering.shift();
    } else {
      events.append([event], session.unsaved());
    }
  }
  if (!result) throw new Error("Cannot end the turn: the loop gave no result.");
  const { messages, error, ...end } = result;
  if (end.reason === "internal_error") throw error;
  if (error !== undefined) onError(error);

  // What the user said too late for this turn is not lost: the next one begins with it.
  const unheard = steering.waiting;
  const totals: SessionTotals = {
    turns: session.turns + 1,
    ledger: addLedgers(session.ledger, end.ledger),
  };
  events.append(
    [
      ...unheard.map((input): LoopEvent => ({ type: "user_message", step, input })),
      { type: "turn_end", ...end },
    ],
    { ...session.unsaved(), totals, ...(unheard.length > 0 && { steering: [] }) },
  );
  session.history = [
    ...session.history,
    ...messages,
    ...unheard.map((content) => ({ role: "user", content }) as const),
  ];
  Object.assign(session, totals);
  delete session.running;
  events.close();
  session.released();
}

/** Ends a turn that failed by a bug of ours or by the store, with what is stored of it. */
function endFailedTurn(session: Session, error: unknown, { onError }: TurnOptions): void {
  onError(error);
  delete session.running;
  try {
    session.restore({ reason: "internal_error", message: toHttpError(error).message });
  } catch (storeError) {
    onError(storeError);
    // Not even the end could be committed, so nobody may see one: readers are told of the failure itself.
    session.events.close(toHttpError(storeError));
  }
  session.released();
}
