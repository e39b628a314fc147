import { assertEquals } from "@std/assert";
import type { Clock, LoopEvent, TurnResult } from "@tare/loop";
import type { FunctionToolCall, Model, ModelEvent, ModelRequest, Tool, Usage } from "@tare/messages";

export const USAGE: Usage = { promptTokens: 10, cachedTokens: 4, outputTokens: 2 };

export function say(text: string, finishReason: "stop" | "length" | "content_filter" = "stop"): ModelEvent[] {
  return [
    { type: "text_delta", text },
    { type: "completed", message: { role: "assistant", content: text }, finishReason, usage: USAGE },
  ];
}

export function call(id: string, name: string, args: unknown = {}): FunctionToolCall {
  const text = typeof args === "string" ? args : JSON.stringify(args);
  return { id, type: "function", function: { name, arguments: text } };
}

export function callTools(...calls: readonly FunctionToolCall[]): ModelEvent[] {
  return [{
    type: "completed",
    message: { role: "assistant", content: null, tool_calls: calls },
    finishReason: "tool_calls",
    usage: USAGE,
  }];
}

export function scripted(...replies: readonly (readonly ModelEvent[])[]): {
  readonly model: Model;
  readonly requests: ModelRequest[];
} {
  const requests: ModelRequest[] = [];
  return {
    requests,
    async *model(request) {
      requests.push(request);
      yield* replies[requests.length - 1] ?? say(`Unexpected call ${requests.length}.`);
    },
  };
}

/** Returns a model that hangs after one event. `stopped` counts its ends. */
export function hanging(): { readonly model: Model; readonly stopped: number } {
  const hung = {
    stopped: 0,
    async *model({ signal }: ModelRequest): AsyncGenerator<ModelEvent> {
      try {
        yield { type: "text_delta", text: "Well" };
        await untilAborted(signal);
        throw signal.reason;
      } finally {
        hung.stopped++;
      }
    },
  };
  return hung;
}

export function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

export function tool(name: string, runTool: Tool["run"], options: Partial<Tool> = {}): Tool {
  return { definition: { type: "function", function: { name } }, run: runTool, ...options };
}

export async function collect(
  turn: AsyncGenerator<LoopEvent, TurnResult>,
  onEvent: (event: LoopEvent) => void = () => {},
): Promise<{ readonly events: LoopEvent[]; readonly result: TurnResult }> {
  const events: LoopEvent[] = [];
  for (;;) {
    const { done, value } = await turn.next();
    if (done) return { events, result: value };
    events.push(value);
    onEvent(value);
  }
}

/** Checks that each call has exactly one answer, directly after it and in its order. */
export function assertWhole({ messages }: TurnResult): void {
  const open: string[] = [];
  for (const message of messages) {
    if (message.role === "tool") assertEquals(open.shift(), message.tool_call_id);
    else assertEquals(open, []);
    if (message.role === "assistant") open.push(...(message.tool_calls ?? []).map(({ id }) => id));
  }
  assertEquals(open, []);
}

export function outline(events: readonly LoopEvent[]): string[] {
  return events.map((event) => {
    switch (event.type) {
      case "text_delta":
      case "reasoning_delta":
        return `${event.type} ${event.text}`;
      case "tool_call":
        return `tool_call ${event.id}`;
      case "tool_result":
        return `tool_result ${event.id}${event.error ? " error" : ""}`;
      case "warning":
        return `warning ${event.message}`;
      case "turn_end":
        return `turn_end ${event.reason}`;
      default:
        return event.type;
    }
  });
}

export function breathe(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve));
}

export class FakeClock implements Clock {
  #now = 0;
  #timers: { readonly at: number; readonly callback: () => void }[] = [];

  now(): number {
    return this.#now;
  }

  after(ms: number, callback: () => void): () => void {
    const timer = { at: this.#now + ms, callback };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  }

  get pending(): number {
    return this.#timers.length;
  }

  advance(ms: number): void {
    this.#now += ms;
    const due = this.#timers.filter((timer) => timer.at <= this.#now);
    this.#timers = this.#timers.filter((timer) => timer.at > this.#now);
    for (const { callback } of due) callback();
  }
}
