import { describeCall, type Message, type ToolCall, type ToolMessage } from "@tare/messages";
import type { LoopEvent } from "../event.ts";
import { LiveOutput } from "./live_output.ts";
import type { RepeatedCalls } from "./repeated_calls.ts";
import { type CallOutcome, runCall, type RunCallOptions } from "./run_call.ts";

/** What the calls of a step are run with. */
export interface RunToolsOptions extends Omit<RunCallOptions, "output"> {
  /** Number of the step, for the events. */
  readonly step: number;
  /** Most calls that run at the same time. */
  readonly maxParallelTools: number;
  /** Knows the calls of the turn so far. */
  readonly repeated: RepeatedCalls;
  /** What the model sees in this step. */
  readonly visible: readonly Message[];
}

interface Finished {
  readonly index: number;
  readonly call: ToolCall;
  readonly outcome: CallOutcome;
  readonly durationMs: number;
}

/**
 * Runs the calls of one reply, several at a time: yields each result as its call ends and returns the answers in the
 * order of the calls. Every call is answered, also when the turn is stopped in between.
 */
export async function* runTools(
  calls: readonly ToolCall[],
  options: RunToolsOptions,
): AsyncGenerator<LoopEvent, readonly ToolMessage[]> {
  const { step, maxParallelTools, repeated, visible, watchdog, clock } = options;
  const running = new Map<number, Promise<Finished>>();
  const outcomes: [ToolCall, CallOutcome][] = [];
  const answers: ToolMessage[] = [];

  const live = new LiveOutput(clock);
  const start = async (index: number, call: ToolCall): Promise<Finished> => {
    const startedAt = clock.now();
    const outcome = await runCall(call, {
      ...options,
      output: (text) => live.push(call.id, text),
    });
    return { index, call, outcome, durationMs: clock.now() - startedAt };
  };

  const waiting = calls.entries();
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
      const { index, call, outcome, durationMs } = finished;
      running.delete(index);
      const content = repeated.contentFor(call, outcome, visible);
      outcomes[index] = [call, outcome];
      answers[index] = { role: "tool", tool_call_id: call.id, content };
      yield resultEvent(step, call, { content, error: outcome.error, durationMs });
    }
  } finally {
    live.close();
  }
  repeated.record(outcomes);
  return answers;
}

/** Answers the calls of a reply that was cut off, without running any. */
export function* refuseCalls(
  calls: readonly ToolCall[],
  step: number,
): Generator<LoopEvent, readonly ToolMessage[]> {
  const answers: ToolMessage[] = [];
  for (const call of calls) {
    const content =
      `Cannot run ${describeCall(call).name}: the reply was cut off, so that its calls may be ` +
      "incomplete and none was run. Call again, with shorter arguments.";
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
