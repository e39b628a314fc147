import {
  describeCall,
  type Message,
  type ToolCall,
  type ToolDefinition,
  type ToolMessage,
} from "@tare/messages";
import type { AnsweredCall, AskedCall } from "../approval.ts";
import type { LoopEvent } from "../event.ts";
import type { RepeatedCalls } from "./repeated_calls.ts";
import { type CallOutcome, type OpenCall, runCall, type RunCallOptions } from "./run_call.ts";
import type { Clock } from "../watchdog.ts";

/** What the calls of a step are run with. */
interface RunToolsOptions extends Omit<RunCallOptions, "output" | "answer"> {
  /** Number of the step, for the events. */
  readonly step: number;
  /** Tools that the caller runs: their calls get no answer here. */
  readonly clientTools: readonly ToolDefinition[];
  /** Most calls that run at the same time. */
  readonly maxParallelTools: number;
  /** What somebody said of these calls who was asked before. */
  readonly answered: readonly AnsweredCall[];
  /** Knows the calls of the turn so far. */
  readonly repeated: RepeatedCalls;
  /** What the model sees in this step. */
  readonly visible: readonly Message[];
}

/** What came of the calls of a step. */
export interface ToolAnswers {
  /** In the order of the calls. */
  readonly answers: readonly ToolMessage[];
  /** The calls that somebody has to be asked for, and that have no answer yet. */
  readonly asked: readonly AskedCall[];
}

interface Finished {
  readonly index: number;
  readonly call: ToolCall;
  readonly outcome: CallOutcome | OpenCall;
  readonly durationMs: number;
}

/**
 * Runs the calls of one reply, several at a time: yields each result as its call ends and returns the answers in the
 * order of the calls. Every call is answered, also when the turn is stopped in between; calls of `clientTools`, and those
 * that somebody has to be asked for, only then, because nobody else answers them any more.
 */
export async function* runTools(
  calls: readonly ToolCall[],
  options: RunToolsOptions,
): AsyncGenerator<LoopEvent, ToolAnswers> {
  const { step, clientTools, answered, maxParallelTools, repeated, visible, watchdog, clock } = options;
  const running = new Map<number, Promise<Finished>>();
  const outcomes: [ToolCall, CallOutcome][] = [];
  const answers = new Map<ToolCall, ToolMessage>();
  const open = new Map<ToolCall, AskedCall>();
  const isClients = (call: ToolCall) =>
    clientTools.some((tool) => tool.function.name === describeCall(call).name);

  const live = new LiveOutput(clock);
  const start = async (index: number, call: ToolCall): Promise<Finished> => {
    const startedAt = clock.now();
    const outcome = await runCall(call, {
      ...options,
      answer: answered.find((one) => one.call === call),
      output: (text) => live.push(call.id, text),
    });
    return { index, call, outcome, durationMs: clock.now() - startedAt };
  };

  const own = calls.filter((call) => !isClients(call));
  const waiting = own.entries();
  try {
    for (;;) {
      while (running.size < maxParallelTools) {
        const { done, value } = waiting.next();
        if (done) break;
        running.set(value[0], start(...value));
      }
      if (running.size === 0) break;
      const next = Promise.race(running.values());
      const either = Promise.race([next, live.due]);
      // Once the turn is stopped, each call answers so by itself.
      const finished = await watchdog.wait(() => either).catch(() => next);
      for (const [id, text] of live.take(finished?.call.id)) yield { type: "tool_output", step, id, text };
      if (!finished) continue;
      const { index, call, durationMs } = finished;
      running.delete(index);
      const outcome = "asked" in finished.outcome && isAmbiguous(call, calls)
        ? { content: AMBIGUOUS, error: true, changedState: false }
        : finished.outcome;
      if ("asked" in outcome) {
        open.set(call, outcome.asked);
        continue;
      }
      const content = repeated.contentFor(call, outcome, visible);
      outcomes[index] = [call, outcome];
      answers.set(call, { role: "tool", tool_call_id: call.id, content });
      yield resultEvent(step, call, { content, error: outcome.error, durationMs });
    }
  } finally {
    live.close();
  }
  // Without the places of calls that stay open.
  repeated.record(Object.values(outcomes));
  if (watchdog.signal.aborted) {
    const left = calls.filter((call) => isClients(call) || open.has(call));
    for (const [index, answer] of (yield* refuseCalls(left, step, STOPPED)).entries()) {
      answers.set(left[index]!, answer);
    }
  }
  return {
    answers: calls.flatMap((call) => answers.get(call) ?? []),
    asked: watchdog.signal.aborted ? [] : calls.flatMap((call) => open.get(call) ?? []),
  };
}

/** Whether an answer that names this call's id could be meant for another one, or for none. */
function isAmbiguous({ id }: ToolCall, calls: readonly ToolCall[]): boolean {
  return id === "" || calls.filter((call) => call.id === id).length > 1;
}

const AMBIGUOUS =
  "Cannot run it: somebody has to be asked first, and its id is empty or that of another call too. Call it alone.";

/** Why no call of a reply that was cut off is run. */
export const CUT_OFF =
  "the reply was cut off, so that its calls may be incomplete and none was run. Call again, with shorter arguments.";

const STOPPED = "the turn was stopped before it was run. Call again if you need it.";

/** Answers calls without running any. */
export function* refuseCalls(
  calls: readonly ToolCall[],
  step: number,
  because: string,
): Generator<LoopEvent, readonly ToolMessage[]> {
  const answers: ToolMessage[] = [];
  for (const call of calls) {
    const content = `Cannot run ${describeCall(call).name}: ${because}`;
    answers.push({ role: "tool", tool_call_id: call.id, content });
    yield resultEvent(step, call, { content, error: true, durationMs: 0 });
  }
  return answers;
}

function resultEvent(
  step: number,
  call: ToolCall,
  result: { readonly content: string; readonly error: boolean; readonly durationMs: number },
): LoopEvent {
  const bytes = new TextEncoder().encode(result.content).length;
  return { type: "tool_result", step, id: call.id, name: describeCall(call).name, ...result, bytes };
}

/** How long output is gathered before it is shown, in milliseconds: what is there sooner is seen in the result. */
const EVERY_MS = 500;
/** Most that is shown of a call, in UTF-16 code units. */
const MAX_CHARS = 65_536;

/** Gathers what calls give while they run, so that those who watch are told now and then and not of every byte. */
class LiveOutput {
  readonly #clock: Clock;
  readonly #pieces = new Map<string, string>();
  readonly #shown = new Map<string, number>();
  #due = Promise.withResolvers<undefined>();
  #disarm: (() => void) | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Resolves once there is something to show. */
  get due(): Promise<undefined> {
    return this.#due.promise;
  }

  /** Takes the next piece of a call's output. */
  push(id: string, text: string): void {
    const room = MAX_CHARS - (this.#shown.get(id) ?? 0);
    const piece = text.slice(0, room);
    if (piece === "") return;
    this.#shown.set(id, MAX_CHARS - room + piece.length);
    this.#pieces.set(id, (this.#pieces.get(id) ?? "") + piece);
    this.#disarm ??= this.#clock.after(EVERY_MS, () => this.#due.resolve(undefined));
  }

  /** What has gathered, by call, if its time has come; nothing of the call that has `ended`, as its result says it all. */
  take(ended: string | undefined): readonly (readonly [id: string, text: string])[] {
    if (ended !== undefined) this.#pieces.delete(ended);
    if (ended !== undefined && this.#pieces.size > 0) return [];
    const gathered = [...this.#pieces];
    this.close();
    this.#pieces.clear();
    this.#due = Promise.withResolvers();
    return gathered;
  }

  /** Forgets what has gathered. */
  close(): void {
    this.#disarm?.();
    this.#disarm = undefined;
  }
}
